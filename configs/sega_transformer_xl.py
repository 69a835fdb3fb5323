r"""Sega-Transformer-XL: word-level language modelling with segment-aware distances.

`--config=configs/sega_transformer_xl.py:VARIANT`; without a variant it is tiny. Runs of
the paper's sizes were not made here; docs/tables/segatron.md has its perplexities.
Those of tiny and its ablations are of held-out words with the seeds 0, 1 and 2, on
99 MB of Wikipedia (docs/language_modelling.md).

Records of tiny and its ablations:
    python -m data_pipelines.build_word_vocab --format=wikiextractor --input=text/ \
        --tokenizer=words --vocab_size=32768 --output=words.txt
    python -m data_pipelines.build_documents --format=wikiextractor --input=text/ \
        --tokenizer=words --vocab_file=words.txt --output_dir=records/wikipedia_words

Records of the others. The whole training file is trained on; what validates is
WikiText-103's own validation file, all of it:
    python -m data_pipelines.build_word_vocab --format=wikitext \
        --input=wikitext-103/wiki.train.tokens --tokenizer=whitespace \
        --min_count=1 --output=wikitext_103.txt
    python -m data_pipelines.build_documents --format=wikitext \
        --input=wikitext-103/wiki.train.tokens --tokenizer=whitespace \
        --validation_input=wikitext-103/wiki.valid.tokens \
        --vocab_file=wikitext_103.txt --output_dir=records/wikitext_103

tiny: 4 layers of width 128, in minutes, on a laptop.
    python run_pretraining.py --config=configs/sega_transformer_xl.py:tiny \
        --records_dir=records/wikipedia_words \
        --output_dir=runs/sega_transformer_xl_tiny
    Hardware: a CPU; one core takes some 5 minutes, for the variants below too.
    Expected: perplexity 203.5, 215.3 and 205.1.

tiny_no_sentence: ablation of tiny: no positions of sentences.
    python run_pretraining.py --config=configs/sega_transformer_xl.py:tiny_no_sentence \
        --records_dir=records/wikipedia_words \
        --output_dir=runs/sega_transformer_xl_tiny_no_sentence
    Expected: perplexity 205.3, 218.9 and 207.3.

tiny_no_paragraph: ablation of tiny: no positions of paragraphs.
    python run_pretraining.py \
        --config=configs/sega_transformer_xl.py:tiny_no_paragraph \
        --records_dir=records/wikipedia_words \
        --output_dir=runs/sega_transformer_xl_tiny_no_paragraph
    Expected: perplexity 205.9, 218.3 and 207.5.

base: 16 layers of width 410, WikiText-103, 200,000 updates.
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/sega_transformer_xl.py:base \
        --records_dir=records/wikitext_103 --output_dir=runs/sega_transformer_xl_base
    Hardware: the paper names none. The batch of 64 lanes is split over the ranks; so in
    the ablations.
    Expected: see docs/tables/segatron.md, table 5.

base_no_sentence: ablation of base: no positions of sentences.
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/sega_transformer_xl.py:base_no_sentence \
        --records_dir=records/wikitext_103 \
        --output_dir=runs/sega_transformer_xl_base_no_sentence
    Expected: see docs/tables/segatron.md, table 5.

base_no_paragraph: ablation of base: no positions of paragraphs.
    horovodrun -np 8 python run_pretraining.py \
        --config=configs/sega_transformer_xl.py:base_no_paragraph \
        --records_dir=records/wikitext_103 \
        --output_dir=runs/sega_transformer_xl_base_no_paragraph
    Expected: see docs/tables/segatron.md, table 5.

large: 18 layers of width 1,024, WikiText-103, 350,000 updates.
    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/sega_transformer_xl.py:large \
        --records_dir=records/wikitext_103 --output_dir=runs/sega_transformer_xl_large \
        --config.training.dtype_policy=mixed_bfloat16
    The run ends before the cosine of the learning rate does.
    Hardware: the paper names none. The batch of 128 lanes is split over the ranks; the
    memory of all lanes takes 3.6 GB on each in float32, and in checkpoints.
    Expected: see docs/tables/segatron.md, table 1.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration

_TINY = configuration.RunConfig(
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
_BASE = configuration.RunConfig(
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
_LARGE = replace(
    _BASE,
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
    optimizer=configuration.CosineAdamWConfig(
        warmup_updates=16_000, decay_updates=500_000
    ),
    training=replace(_BASE.training, num_updates=350_000, batch_size=128),
)


def _without(part: str, run: configuration.RunConfig) -> configuration.RunConfig:
    """The run without positions of sentences, or of paragraphs."""
    parts = tuple(one for one in run.model.position_parts if one != part)
    return replace(
        run,
        name=f"{run.name}_no_{part}",
        paper=f"sega_transformer_xl_no_{part}_base",
        model=replace(run.model, position_parts=parts),
    )


RUNS = {
    "tiny": _TINY,
    "tiny_no_sentence": _without("sentence", _TINY),
    "tiny_no_paragraph": _without("paragraph", _TINY),
    "base": _BASE,
    "base_no_sentence": _without("sentence", _BASE),
    "base_no_paragraph": _without("paragraph", _BASE),
    "large": _LARGE,
}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
