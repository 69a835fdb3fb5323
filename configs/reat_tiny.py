r"""ReAT tiny: 2 layers of width 64 and 2 alpha layers of 128, for a CPU.

    python run_pretraining.py --config=configs/reat_tiny.py \
        --records_dir=records/wikipedia_16384 --output_dir=runs/reat_tiny

Records are those of `reat_base.py`. Rows are shorter, and so are long texts, none of
which is longer than a row.

Sentences change places among all texts of a row, not in their own text alone, where a
model of this size finds nothing in so short a run.

Hardware: one CPU core. Time: about 35 minutes for the 5,000 updates.

Expected: on Wikipedia and books, with a vocabulary of 8,192 pieces and
`--config.inputs.long_rate=0`, after 4,000 updates a validation masked-LM loss of 4.51,
and a balanced accuracy of exchange sentence prediction of 0.66: docs/long_texts.md.
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
        exchange_within="row",
        masking=configuration.MaskingConfig(max_predictions=308),
    ),
    optimizer=configuration.AdamWConfig(learning_rate=2e-3, warmup_share=0.04),
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
