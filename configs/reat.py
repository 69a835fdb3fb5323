r"""ReAT: texts of up to 128 sentences of up to 128 words.

`--config=configs/reat.py:VARIANT`; without a variant it is tiny. The records are of
long windows (`--window_length=16384`), from which texts are cut while loading: 9 of 10
rows hold texts of up to 16 sentences of 48 positions, the tenth those of up to 128 of
128.

tiny: 2 layers of width 64 and 2 alpha layers of 128, for a CPU.
    python run_pretraining.py --config=configs/reat.py:tiny \
        --records_dir=records/wikipedia_16384 --output_dir=runs/reat_tiny
    Rows are shorter, and so are long texts, none of which is longer than a row.
    Sentences change places among all texts of a row, not in their own text alone, where
    a model of this size finds nothing in so short a run.
    Hardware: one CPU core. Time: about 35 minutes for the 5,000 updates.
    Expected: on Wikipedia and books, with a vocabulary of 8,192 pieces and
    `--config.inputs.long_rate=0`, after 4,000 updates a validation masked-LM loss of
    4.51, and a balanced accuracy of exchange sentence prediction of 0.66:
    docs/long_texts.md.

small: 2 layers inside sentences, 2 alpha layers, 5,000,000 updates.
    python run_pretraining.py --config=configs/reat.py:small \
        --records_dir=records/c4_16384 --output_dir=runs/reat_small
    A batch is two rows, which hold about 512 sentences, the paper's batch.
    Hardware: one RTX 3060, as in the paper. Time: not run here as a whole; the paper
    stopped at 10 % of it. The first 3,000 updates of a smaller batch, on two CPU cores:
    docs/long_texts.md.
    Expected: see docs/tables/reat.md, table 2 (after 500,000 updates).

base: 3 layers inside sentences, 4 alpha layers, 25,000,000 updates.
    python run_pretraining.py --config=configs/reat.py:base \
        --records_dir=records/c4_16384 --output_dir=runs/reat_base
    A batch is one row, which holds about 256 sentences, the paper's batch.
    Hardware: one V100, as in the paper. Time: not run here; the paper stopped at 2 % of
    it.
    Expected: see docs/tables/reat.md, table 2 (after 500,000 updates).
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration

_BASE = configuration.RunConfig(
    name="reat_base",
    paper="reat_base",
    model=configuration.ReATConfig(),
    inputs=configuration.ReATInputsConfig(),
    objectives={
        "masked_lm": configuration.MaskedLMConfig(),
        "exchange_sentence": configuration.ExchangeSentenceConfig(),
    },
    optimizer=configuration.AdamWConfig(learning_rate=4e-5, warmup_updates=10_000),
    training=configuration.TrainingConfig(
        num_updates=25_000_000,
        batch_size=1,
        log_interval=500,
        validation_interval=50_000,
        validation_batches=500,
        checkpoint_interval=50_000,
    ),
)
_SMALL = replace(
    _BASE,
    name="reat_small",
    paper="reat_small",
    model=replace(
        _BASE.model,
        num_sentence_layers=2,
        num_alpha_layers=2,
        hidden_size=512,
        alpha_hidden_size=768,
        num_heads=8,
        alpha_num_heads=12,
        intermediate_size=2048,
        alpha_intermediate_size=3072,
    ),
    optimizer=replace(_BASE.optimizer, learning_rate=2e-4),
    training=replace(_BASE.training, num_updates=5_000_000, batch_size=2),
)
_TINY = replace(
    _BASE,
    name="reat_tiny",
    model=replace(
        _BASE.model,
        num_sentence_layers=2,
        num_alpha_layers=2,
        hidden_size=64,
        alpha_hidden_size=128,
        num_heads=2,
        alpha_num_heads=2,
        intermediate_size=256,
        alpha_intermediate_size=512,
        # What 0.02 is for a width of 768, as in `slm.py`.
        initializer_range=0.05,
        dropout=0.0,
    ),
    inputs=replace(
        _BASE.inputs,
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

RUNS = {"tiny": _TINY, "small": _SMALL, "base": _BASE}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
