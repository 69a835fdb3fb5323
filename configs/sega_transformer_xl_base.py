r"""Sega-Transformer-XL base: 16 layers of width 410, WikiText-103, 200,000 updates.

    python -m data_pipelines.build_word_vocab --format=wikitext \
        --input=wikitext-103/wiki.train.tokens --tokenizer=whitespace \
        --min_count=1 --output=wikitext_103.txt
    python -m data_pipelines.build_documents --format=wikitext \
        --input=wikitext-103/wiki.train.tokens --tokenizer=whitespace \
        --validation_input=wikitext-103/wiki.valid.tokens \
        --vocab_file=wikitext_103.txt --output_dir=records/wikitext_103
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/sega_transformer_xl_base.py \
        --records_dir=records/wikitext_103 --output_dir=runs/sega_transformer_xl_base

The whole training file is trained on; what validates is WikiText-103's own validation
file, all of it.

Hardware: the paper names none. The batch of 64 lanes is split over the ranks.

Expected, from the paper and not run here (Segatron, table 1): perplexity 22.47 on the
test split of WikiText-103 (`python -m seg_tf.commands.evaluate_perplexity`).
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="sega_transformer_xl_base",
    paper="sega_transformer_xl_base",
    model=configuration.TransformerXLConfig(),
    inputs=configuration.LaneInputsConfig(),
    objectives={"causal_lm": configuration.CausalLMConfig()},
    optimizer=configuration.CosineAdamWConfig(),
    training=configuration.TrainingConfig(
        num_updates=200_000,
        batch_size=64,
        clip_norm=0.25,
        validation_interval=4_000,
        validation_batches=1_000,
        checkpoint_interval=4_000,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
