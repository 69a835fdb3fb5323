r"""SegaBERT with SLM: both structures of a text, in one encoder.

`--config=configs/segabert_slm.py:VARIANT`; without a variant it is tiny. In no paper:
SegaBERT's three tables in place of the position table, and SLM's rows, sentence ids and
objective. Paragraph and sentence index are those of the place where a sentence is
presented. There is no token-type table, as in SegaBERT. Records, hardware, time and
everything else are those of the same variant of `slm.py`, of mini of `segabert.py`.

tiny: 2 layers of width 128, for a CPU.
    python run_pretraining.py --config=configs/segabert_slm.py:tiny \
        --records_dir=records/wikipedia_128 --output_dir=runs/segabert_slm_tiny
    Expected: trains (a check of 20 updates); no figures yet.

mini: SegaBERT mini with SLM, the model segabert_slm_mini_en.
    python -m seg_tf.commands.import_weights --from=runs/segabert_mini \
        --config=configs/segabert_slm.py:mini --output_dir=runs/segabert_slm_start
    python run_pretraining.py --config=configs/segabert_slm.py:mini \
        --records_dir=records/wikibooks_128 --output_dir=runs/segabert_slm_mini \
        --initial_checkpoint=runs/segabert_slm_start
    SegaBERT mini goes on with [SENT], shuffled sentences and a reconstructor of one
    layer. Hardware as there. Time: 38 minutes.
    Expected: masked-LM loss 3.99 with 30 % masked, and no knowledge of order: pointer
    accuracy 48.8 % (chance 53.5 %), Kendall's tau -0.01.

base: 12 layers of width 768, Wikipedia and books, 1,000,000 updates.
    horovodrun -np 8 python run_pretraining.py --config=configs/segabert_slm.py:base \
        --records_dir=records/wikibooks_492 --output_dir=runs/segabert_slm_base
    Expected: no paper reports it, and it was not run here.
"""

from dataclasses import replace

import ml_collections

from seg_tf import configuration
from seg_tf.configs import segabert, slm


def _with_both(variant: str) -> configuration.RunConfig:
    run = slm.RUNS[variant]
    tables = {
        **segabert.RUNS[variant].model.index_tables,
        "sentence_id": run.model.index_tables["sentence_id"],
    }
    return replace(
        run,
        name=f"segabert_slm_{variant}",
        paper="segabert_slm_base",
        model=replace(run.model, index_tables=tables, num_token_types=0),
    )


_TINY, _SEGABERT = _with_both("tiny"), segabert.RUNS["mini"]
_MINI = replace(
    _SEGABERT,
    name="segabert_slm_mini",
    paper=_TINY.paper,
    model=replace(_SEGABERT.model, index_tables=_TINY.model.index_tables),
    inputs=replace(_TINY.inputs, masking=_SEGABERT.inputs.masking),
    objectives={
        **_TINY.objectives,
        "sentence_unshuffling": replace(
            _TINY.objectives["sentence_unshuffling"], num_layers=1
        ),
    },
    training=replace(_SEGABERT.training, num_updates=3_400),
)

RUNS = {"tiny": _TINY, "mini": _MINI, "base": _with_both("base")}


def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
    """The variant's run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(configuration.get_variant(RUNS, variant))
