r"""BERT base: SegaBERT base with BERT's position table in place of the three.

    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert_base.py --records_dir=records/wikipedia_512 \
        --output_dir=runs/bert_base --config.training.dtype_policy=mixed_bfloat16

Everything else, records included, is that of `segabert_base.py`; so are hardware
and time. No next sentence prediction: this is the paper's own baseline.

Expected, from the paper and not run here (Segatron, tables 2, 4 and 6): GLUE dev
average 82.2, test 77.7; SQuAD 1.1 dev 81.9 EM, 89.4 F1; SQuAD 2.0 dev 75.4 EM,
78.2 F1.
"""

import dataclasses

import ml_collections

from configs import segabert_base
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_base.RUN,
    name="bert_base",
    paper="bert_base",
    model=dataclasses.replace(
        segabert_base.RUN.model,
        index_tables={"position_index": 512},
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
