r"""BERT large, first of the two phases of NVIDIA's BERT recipe: 128 positions.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/bert_large_phase1.py \
        --records_dir=records/wikibooks_128 --output_dir=runs/bert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16

`segabert_large_phase1.py` with BERT's position table in place of the three; all 512
rows of it are there in both phases, so that the second can start from the first.
Everything else, records included, is the same; so are hardware and time.

Expected: NVIDIA reports no figure after this phase; see `bert_large_phase2.py`. Not
run here.
"""

import dataclasses

import ml_collections

from configs import bert_large, segabert_large_phase1
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_large_phase1.RUN,
    name="bert_large_phase1",
    paper="bert_large_nvidia_phase1",
    model=bert_large.RUN.model,
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
