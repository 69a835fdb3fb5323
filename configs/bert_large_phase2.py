r"""BERT large, second of the two phases of NVIDIA's BERT recipe: 512 positions.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/bert_large_phase2.py \
        --records_dir=records/wikibooks_512 --output_dir=runs/bert_large_phase2 \
        --initial_checkpoint=runs/bert_large_phase1 \
        --config.training.dtype_policy=mixed_bfloat16

`segabert_large_phase2.py` with BERT's position table in place of the three; all 512
rows of it are there in both phases, so that the second can start from the first.
Everything else, records included, is the same; so are hardware and time.

Expected: NVIDIA reports a final training loss of 1.67, which includes that of next
sentence prediction, and a fine-tuned F1 of 90.9 on the dev set of SQuAD 1.1. Not run
here; without next sentence prediction the loss is another.
"""

import dataclasses

import ml_collections

from configs import bert_large, segabert_large_phase2
from seg_tf import configuration

RUN = dataclasses.replace(
    segabert_large_phase2.RUN,
    name="bert_large_phase2",
    paper="bert_large_nvidia_phase2",
    model=bert_large.RUN.model,
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
