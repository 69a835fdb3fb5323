r"""BERT base with P.S.: BERT's position table and SegaBERT's other two.

    horovodrun -np 16 -H host1:8,host2:8 python run_pretraining.py \
        --config=configs/bert_ps_base.py --records_dir=records/wikipedia_512 \
        --output_dir=runs/bert_ps_base --config.training.dtype_policy=mixed_bfloat16

The paper's ablation: paragraph and sentence tables beside the global token index.
Everything else, records included, is that of `segabert_base.py`; so are hardware
and time.

Expected, from the paper and not run here (Segatron, table 6): GLUE dev average 82.4;
SQuAD 1.1 dev 83.0 EM, 90.3 F1.
"""

import dataclasses

import ml_collections

from configs import segabert_base
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_base.RUN,
    name="bert_ps_base",
    paper="bert_ps_base",
    model=dataclasses.replace(
        segabert_base.RUN.model,
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
