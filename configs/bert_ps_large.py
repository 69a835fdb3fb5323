r"""BERT large with P.S.: BERT's position table and SegaBERT's other two.

    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert_ps_large.py --records_dir=records/wikibooks_512 \
        --output_dir=runs/bert_ps_large --config.training.dtype_policy=mixed_bfloat16

Everything else, records included, is that of `segabert_large.py`; so are hardware
and time.

Expected: unknown; the paper has this ablation at base size only. Not run here.
"""

import dataclasses

import ml_collections

from configs import segabert_large
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_large.RUN,
    name="bert_ps_large",
    paper="bert_ps_large",
    model=dataclasses.replace(
        segabert_large.RUN.model,
        index_tables={
            "position_index": 512,
            "paragraph_index": 50,
            "sentence_index": 100,
        },
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
