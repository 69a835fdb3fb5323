r"""SLM base, ablation: the sentences of every row are shuffled.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm_base_shuffle_all.py \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base_shuffle_all

The second row of the paper's table 5.
Records, hardware, time and everything else are those of `slm_base.py`.

Expected, from the paper and not run here (SLM, table 5): SQuAD 1.1 dev 84.2 EM,
91.2 F1; SQuAD 2.0 dev 80.3 EM, 83.4 F1; MNLI 86.1 / 86.2, QNLI 92.9, SST-2 93.5,
QQP 91.4; average 87.7.
"""

import dataclasses

import ml_collections

from configs import slm_base
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_base.RUN,
    name="slm_base_shuffle_all",
    paper="slm_base_shuffle_all",
    inputs=dataclasses.replace(slm_base.RUN.inputs, shuffle_rate=1.0),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
