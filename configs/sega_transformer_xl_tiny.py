r"""Sega-Transformer-XL tiny: word-level language modelling in minutes, on a laptop.

python -m data_pipelines.build_word_vocab --format=wikiextractor --input=text/ \
        --tokenizer=words --vocab_size=32768 --output=words.txt
python -m data_pipelines.build_documents --format=wikiextractor --input=text/ \
        --tokenizer=words --vocab_file=words.txt --output_dir=records/wikipedia_words
python run_pretraining.py --config=configs/sega_transformer_xl_tiny.py \
        --records_dir=records/wikipedia_words --output_dir=runs/sega_transformer_xl_tiny

Hardware: a CPU; one core takes some 5 minutes.

Expected: perplexity 203.5, 215.3 and 205.1 of held-out words with the seeds 0, 1
and 2, on 99 MB of Wikipedia (docs/language_modelling.md).
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="sega_transformer_xl_tiny",
    paper="sega_transformer_xl_base",
    model=configuration.TransformerXLConfig(
        num_layers=4,
        hidden_size=128,
        num_heads=4,
        head_size=32,
        intermediate_size=512,
        memory_length=64,
        dropout=0.0,
        cutoffs=(4_096, 16_384),
        embedding_size=128,
        tail_divisor=2,
        # The paper's 0.02 at width 410 is this at 128, by the root of the widths.
        initializer_range=0.05,
        projection_range=0.05,
    ),
    inputs=configuration.LaneInputsConfig(target_length=64, validation_lanes=16),
    objectives={"causal_lm": configuration.CausalLMConfig()},
    optimizer=configuration.CosineAdamWConfig(
        learning_rate=3e-3, warmup_updates=None, warmup_share=0.025
    ),
    training=configuration.TrainingConfig(
        num_updates=2_000,
        batch_size=16,
        clip_norm=0.25,
        log_interval=20,
        validation_interval=200,
        validation_batches=60,
        checkpoint_interval=500,
        keep_checkpoints=1,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
