r"""Transformer-XL: Sega-Transformer-XL's runs with positions of tokens alone.

`--config=configs/transformer_xl.py:VARIANT`; without a variant it is tiny. Everything
else, records included, is that of the same variant of `sega_transformer_xl.py`; so are
hardware and time. Runs of the paper's sizes were not made here.

tiny: 4 layers of width 128, in minutes, on a laptop.
    python run_pretraining.py --config=configs/transformer_xl.py:tiny \
        --records_dir=records/wikipedia_words --output_dir=runs/transformer_xl_tiny
    Expected: perplexity 211.8, 229.2 and 215.7 of held-out words with the seeds 0, 1
    and 2, on 99 MB of Wikipedia (docs/language_modelling.md).

base: 16 layers of width 410, WikiText-103, 200,000 updates.
    horovodrun -np 8 python run_pretraining.py --config=configs/transformer_xl.py:base \
        --records_dir=records/wikitext_103 --output_dir=runs/transformer_xl_base
    Expected: see docs/tables/segatron.md, table 5.

large: 18 layers of width 1,024, WikiText-103, 350,000 updates.
    horovodrun -np 16 python run_pretraining.py \
        --config=configs/transformer_xl.py:large \
        --records_dir=records/wikitext_103 --output_dir=runs/transformer_xl_large
    Expected: see docs/tables/segatron.md, table 1.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration
from seg_tf.configs import sega_transformer_xl


def _tokens_alone(variant: str) -> configuration.RunConfig:
    run = sega_transformer_xl.RUNS[variant]
    return replace(
        run,
        name=f"transformer_xl_{variant}",
        paper=run.paper.removeprefix("sega_"),
        model=replace(run.model, position_parts=("token",)),
    )


RUNS = {variant: _tokens_alone(variant) for variant in ("tiny", "base", "large")}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
