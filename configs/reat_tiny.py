r"""ReAT tiny: 2 layers of width 64 and 2 alpha layers of 128, for a CPU.

    python run_pretraining.py --config=configs/reat_tiny.py \
        --records_dir=records/wikipedia_16384 --output_dir=runs/reat_tiny

Records are those of `reat_base.py`. Rows are shorter, and so are long texts, none of
which is longer than a row.

Hardware: one CPU core. Time: about 35 minutes for the 5,000 updates.

Expected: on Wikipedia and books, with a vocabulary of 8,192 pieces, validation
masked-LM loss 4.28; exchange sentence prediction still at chance (pair accuracy 0.50):
docs/long_texts.md.
"""

import dataclasses

import ml_collections

from configs import reat_base
from seg_tf import configuration

RUN = dataclasses.replace(
    reat_base.RUN,
    name="reat_tiny",
    model=dataclasses.replace(
        reat_base.RUN.model,
        num_sentence_layers=2,
        num_alpha_layers=2,
        hidden_size=64,
        alpha_hidden_size=128,
        num_heads=2,
        alpha_num_heads=2,
        intermediate_size=256,
        alpha_intermediate_size=512,
        # What 0.02 is for a width of 768, as in `slm_tiny.py`.
        initializer_range=0.05,
        dropout=0.0,
    ),
    inputs=dataclasses.replace(
        reat_base.RUN.inputs,
        row_length=2_048,
        sentences_per_row=96,
        masking=configuration.MaskingConfig(max_predictions=308),
    ),
    optimizer=configuration.AdamWConfig(learning_rate=2e-3, warmup_updates=200),
    training=configuration.TrainingConfig(
        num_updates=5_000,
        batch_size=2,
        log_interval=50,
        validation_interval=500,
        validation_batches=20,
        checkpoint_interval=500,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
