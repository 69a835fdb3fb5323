r"""SLM base, ablation: every row shuffled, and nothing puts it back in order.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm_base_shuffle_all_no_reconstructor.py \
        --records_dir=records/wikibooks_492 \
        --output_dir=runs/slm_base_shuffle_all_no_reconstructor

The third row of the paper's table 5: masked LM alone, on shuffled sentences.
Records, hardware, time and everything else are those of `slm_base.py`.

Expected, from the paper and not run here (SLM, table 5): SQuAD 1.1 dev 83.7 EM,
90.7 F1; SQuAD 2.0 dev 77.3 EM, 80.4 F1; MNLI 85.4 / 85.6, QNLI 92.3, SST-2 93.0,
QQP 91.3; average 86.6.
"""

import dataclasses

import ml_collections

from configs import slm_base_shuffle_all
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_base_shuffle_all.RUN,
    name="slm_base_shuffle_all_no_reconstructor",
    paper="slm_base_shuffle_all_no_reconstructor",
    objectives={"masked_lm": configuration.MaskedLMConfig()},
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
