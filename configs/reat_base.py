r"""ReAT base: texts of up to 128 sentences of up to 128 words, 25,000,000 updates.

    python run_pretraining.py --config=configs/reat_base.py \
        --records_dir=records/c4_16384 --output_dir=runs/reat_base

The records are of long windows (`--window_length=16384`), from which texts are cut
while loading: 9 of 10 rows hold texts of up to 16 sentences of 48 positions, the tenth
those of up to 128 of 128. A batch is one row, which holds about 256 sentences, the
paper's batch.

Hardware: one V100, as in the paper. Time: not run here; the paper stopped at 2 % of it.

Expected, from the paper after 500,000 updates and not run here (ReAT, table 2):
masked-LM accuracy 61.8; QQP 89.7, MRPC 73.0. Its accuracy of exchange sentence
prediction, 79.7, is less than that of always answering "not moved".
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="reat_base",
    paper="reat_base",
    model=configuration.ReATConfig(
        block_length=128,
        max_sentences=128,
        num_sentence_layers=3,
        num_alpha_layers=4,
        hidden_size=768,
        alpha_hidden_size=1024,
        num_heads=12,
        alpha_num_heads=16,
        intermediate_size=3072,
        alpha_intermediate_size=4096,
    ),
    inputs=configuration.ReATInputsConfig(
        window_length=16_384,
        row_length=7_168,
        sentences_per_row=336,
        masking=configuration.MaskingConfig(max_predictions=1_076),
    ),
    objectives={
        "masked_lm": configuration.MaskedLMConfig(),
        "exchange_sentence": configuration.ExchangeSentenceConfig(),
    },
    optimizer=configuration.AdamWConfig(
        learning_rate=4e-5, warmup_updates=10_000, epsilon=1e-6
    ),
    training=configuration.TrainingConfig(
        num_updates=25_000_000,
        batch_size=1,
        log_interval=500,
        validation_interval=50_000,
        validation_batches=500,
        checkpoint_interval=50_000,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
