r"""SLM base, ablation: [SENT] tokens and sentence ids, but nothing is shuffled.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm_base_no_shuffle.py \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base_no_shuffle

The fourth row of the paper's table 5: masked LM alone, on sentences in order.
Records, hardware, time and everything else are those of `slm_base.py`.

Expected, from the paper and not run here (SLM, table 5): SQuAD 1.1 dev 82.8 EM,
90.1 F1; SQuAD 2.0 dev 76.8 EM, 79.8 F1; MNLI 85.3 / 85.5, QNLI 92.2, SST-2 93.0,
QQP 91.1; average 86.3.
"""

import dataclasses

import ml_collections

from configs import slm_base
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_base.RUN,
    name="slm_base_no_shuffle",
    paper="slm_base_no_shuffle",
    inputs=dataclasses.replace(slm_base.RUN.inputs, shuffle_rate=0.0),
    objectives={"masked_lm": configuration.MaskedLMConfig()},
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
