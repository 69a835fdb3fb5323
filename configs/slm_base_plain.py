r"""SLM base, ablation: BERT, of SLM only the masked spans and the learning rate.

    horovodrun -np 8 python run_pretraining.py \
        --config=configs/slm_base_plain.py \
        --records_dir=records/wikibooks_492 --output_dir=runs/slm_base_plain

The last row of the paper's table 5: no [SENT], no sentence ids, nothing shuffled. Rows
are the same records without room for [SENT], so 492 long where the paper has 512: all
five runs see the same text. Records, hardware, time and everything else are those of
`slm_base.py`.

Expected, from the paper and not run here (SLM, table 5): SQuAD 1.1 dev 82.7 EM,
89.8 F1; SQuAD 2.0 dev 76.5 EM, 79.4 F1; MNLI 84.7 / 84.6, QNLI 91.7, SST-2 92.8,
QQP 91.1; average 85.9.
"""

import dataclasses

import ml_collections

from configs import slm_base
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_base.RUN,
    name="slm_base_plain",
    paper="slm_base_plain",
    model=dataclasses.replace(slm_base.RUN.model, index_tables={"position_index": 512}),
    inputs=configuration.WindowInputsConfig(
        window_length=slm_base.RUN.inputs.window_length,
        masking=slm_base.RUN.inputs.masking,
    ),
    objectives={"masked_lm": configuration.MaskedLMConfig()},
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
