r"""SLM base: BERT base that puts shuffled sentences back in order, 1,000,000 updates.

    horovodrun -np 8 python run_pretraining.py --config=configs/slm_base.py \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base

Rows are 512 long: windows of 492 (`--window_length=492`), and room for 20 [SENT]
tokens, one before each sentence. docs/records.md makes records of two corpora.

Hardware: 8 V100, as in the paper; the batch of 256 is split over the ranks. Time:
about five days, as the paper reports.

Expected, from the paper and not run here (SLM, tables 1 to 3, 1M steps): GLUE dev
average 86.1; SQuAD 1.1 dev 84.6 EM, 91.5 F1; SQuAD 2.0 dev 80.7 EM, 83.7 F1; DiscoEval
SP 72.4, BSO 84.1, DC 75.4, SSP 81.5, PDTB explicit 45.9, implicit 46.3. With 3M
steps (--config.training.num_updates=3000000) GLUE 86.8.
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="slm_base",
    paper="slm_base",
    model=configuration.EncoderConfig(
        index_tables={"position_index": 512, "sentence_id": 22},
        num_layers=12,
        hidden_size=768,
        num_heads=12,
        intermediate_size=3072,
        num_token_types=2,
    ),
    inputs=configuration.SentenceInputsConfig(
        window_length=492,
        max_sentences=20,
        shuffle_rate=0.5,
        masking=configuration.SpanMaskingConfig(max_predictions=80),
    ),
    objectives={
        "masked_lm": configuration.MaskedLMConfig(),
        "sentence_unshuffling": configuration.SentenceUnshufflingConfig(num_layers=3),
    },
    optimizer=configuration.AdamWConfig(
        learning_rate=1.5e-4, warmup_updates=10_000, epsilon=1e-6
    ),
    training=configuration.TrainingConfig(
        num_updates=1_000_000,
        batch_size=256,
        dtype_policy="mixed_float16",
        validation_interval=5_000,
        checkpoint_interval=5_000,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
