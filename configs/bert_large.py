r"""BERT large: SegaBERT large with BERT's position table in place of the three.

    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert_large.py --records_dir=records/wikibooks_512 \
        --output_dir=runs/bert_large --config.training.dtype_policy=mixed_bfloat16

Everything else, records included, is that of `segabert_large.py`; so are hardware
and time.

Expected: the paper trained no large baseline. It quotes BERT large, which had next
sentence prediction too (Segatron, tables 2 to 4): GLUE test average 82.1; SQuAD 1.1
dev 84.1 EM, 90.9 F1; SQuAD 2.0 dev 78.7 EM, 81.9 F1. Not run here.
"""

import dataclasses

import ml_collections

from configs import segabert_large
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_large.RUN,
    name="bert_large",
    paper="bert_large",
    model=dataclasses.replace(
        segabert_large.RUN.model,
        index_tables={"position_index": 512},
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
