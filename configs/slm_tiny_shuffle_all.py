r"""SLM tiny, second phase: every row shuffled, from the weights of `slm_tiny.py`.

    python run_pretraining.py \
        --config=configs/slm_tiny_shuffle_all.py --initial_checkpoint=runs/slm_tiny \
        --records_dir=records/wikipedia_128 --output_dir=runs/slm_tiny_shuffle_all

A small model soon solves rows in their own order by pointing at the next place, and
holds on to that; from them it learns not to point at what was placed. Once it can do
that, rows that are all shuffled leave it nothing but what the sentences say.

Time: 17 minutes on 2 cores, with `horovodrun -np 2`.

Expected: on Wikipedia and books masked-LM loss 5.53; of 5,037 held-out windows, all
shuffled, pointer accuracy 53.6 % (chance 50.0 %), Kendall's tau 0.15, perfect match
22.4 % (chance 15.8 %). See docs/sentence_unshuffling.md.
"""

import dataclasses

import ml_collections

from configs import slm_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_tiny.RUN,
    name="slm_tiny_shuffle_all",
    paper="slm_base_shuffle_all",
    inputs=dataclasses.replace(slm_tiny.RUN.inputs, shuffle_rate=1.0),
    optimizer=dataclasses.replace(slm_tiny.RUN.optimizer, warmup_share=50 / 3_000),
    training=dataclasses.replace(
        slm_tiny.RUN.training, num_updates=3_000, validation_interval=250
    ),
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
