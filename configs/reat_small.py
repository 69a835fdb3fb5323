r"""ReAT small: 2 layers inside sentences, 2 alpha layers, 5,000,000 updates.

    python run_pretraining.py --config=configs/reat_small.py \
        --records_dir=records/c4_16384 --output_dir=runs/reat_small

Records and texts are those of `reat_base.py`. A batch is two rows, which hold about 512
sentences, the paper's batch.

Hardware: one RTX 3060, as in the paper. Time: not run here as a whole; the paper
stopped at 10 % of it. The first 3,000 updates of a smaller batch, on two CPU cores:
docs/long_texts.md.

Expected, from the paper after 500,000 updates and not run here (ReAT, table 2):
masked-LM accuracy 60.8; QQP 89.0, MRPC 75.0. Its accuracy of exchange sentence
prediction, 79.3, is less than that of always answering "not moved".
"""

import dataclasses

import ml_collections

from configs import reat_base
from seg_tf import configuration

RUN = dataclasses.replace(
    reat_base.RUN,
    name="reat_small",
    paper="reat_small",
    model=dataclasses.replace(
        reat_base.RUN.model,
        num_sentence_layers=2,
        num_alpha_layers=2,
        hidden_size=512,
        alpha_hidden_size=768,
        num_heads=8,
        alpha_num_heads=12,
        intermediate_size=2048,
        alpha_intermediate_size=3072,
    ),
    optimizer=dataclasses.replace(reat_base.RUN.optimizer, learning_rate=2e-4),
    training=dataclasses.replace(
        reat_base.RUN.training, num_updates=5_000_000, batch_size=2
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
