r"""SLM tiny: 2 layers of width 128, for a CPU and a first look at the curves.

    python run_pretraining.py \
        --config=configs/slm_tiny.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/slm_tiny

Rows are 148 long: the records of `segabert_tiny.py`, and room for 20 [SENT] tokens.
Layers, hardware and peak rate are those of that run.

Time: about 40 minutes on one core for the 7,000 updates.

Expected: on Wikipedia and books, after 6,000 updates masked-LM loss 5.89 (5.88 after
5,500 with --config.model.dropout=0.1), sentence unshuffling still at chance: at this
size it wants `slm_tiny_shuffle_all.py` as a second phase
(docs/sentence_unshuffling.md).
"""

import dataclasses

import ml_collections

from configs import segabert_tiny, slm_base
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_tiny.RUN,
    name="slm_tiny",
    paper="slm_base",
    model=dataclasses.replace(
        segabert_tiny.RUN.model,
        index_tables={"position_index": 148, "sentence_id": 22},
        num_token_types=slm_base.RUN.model.num_token_types,
        # What 0.02 is for a width of 768: with less, whatever a candidate says is lost
        # in what all have in common, and the reconstructor learns nothing for long.
        initializer_range=0.05,
    ),
    inputs=configuration.SentenceInputsConfig(
        window_length=segabert_tiny.RUN.inputs.window_length,
        max_sentences=20,
        shuffle_rate=0.5,
        masking=configuration.SpanMaskingConfig(max_predictions=20),
    ),
    objectives=slm_base.RUN.objectives,
    # The first pointers are far off: the loss starts at about 100.
    optimizer=dataclasses.replace(
        segabert_tiny.RUN.optimizer, warmup_share=300 / 7_000
    ),
    training=dataclasses.replace(
        segabert_tiny.RUN.training,
        num_updates=7_000,
        validation_interval=500,
        validation_batches=30,
        checkpoint_interval=500,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
