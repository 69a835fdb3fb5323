r"""Sega-Transformer-XL large: 18 layers of width 1,024, WikiText-103, 350,000 updates.

    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/sega_transformer_xl_large.py \
        --records_dir=records/wikitext_103 --output_dir=runs/sega_transformer_xl_large \
        --config.training.dtype_policy=mixed_bfloat16

Records are those of `sega_transformer_xl_base.py`. The rate falls by a cosine over
500,000 updates, of which the paper makes 350,000.

Hardware: the paper names none. The batch of 128 lanes is split over the ranks; what is
remembered of all lanes takes 3.6 GB on each in float32, and in checkpoints.

Expected, from the paper and not run here (Segatron, table 1): perplexity 17.1 on the
test split of WikiText-103 (`python -m seg_tf.commands.evaluate_perplexity`).
"""

import ml_collections

from seg_tf import configuration

RUN = configuration.RunConfig(
    name="sega_transformer_xl_large",
    paper="sega_transformer_xl_large",
    model=configuration.TransformerXLConfig(
        num_layers=18,
        hidden_size=1024,
        num_heads=16,
        head_size=64,
        intermediate_size=4096,
        memory_length=384,
        dropout=0.2,
        attention_dropout=0.2,
        embedding_size=1024,
        tail_divisor=4,
    ),
    inputs=configuration.LaneInputsConfig(target_length=384),
    objectives={"causal_lm": configuration.CausalLMConfig()},
    optimizer=configuration.CosineAdamWConfig(
        warmup_updates=16_000, decay_updates=500_000
    ),
    training=configuration.TrainingConfig(
        num_updates=350_000,
        batch_size=128,
        clip_norm=0.25,
        validation_interval=4_000,
        validation_batches=1_000,
        checkpoint_interval=4_000,
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
