r"""SLM tiny without the Sequence Reconstructor: masked LM alone, on the same rows.

    python run_pretraining.py \
        --config=configs/slm_tiny_no_reconstructor.py \
        --records_dir=records/wikipedia_128 --output_dir=runs/slm_tiny_no_reconstructor

Half of the rows are shuffled, as in `slm_tiny.py`, of which the records and everything
else are.

Expected: on Wikipedia and books, masked-LM loss 6.01 after 4,000 updates, where
`slm_tiny.py` has 5.97 (docs/sentence_unshuffling.md).
"""

import dataclasses

import ml_collections

from configs import slm_tiny
from seg_tf import configuration

RUN = dataclasses.replace(
    slm_tiny.RUN,
    name="slm_tiny_no_reconstructor",
    objectives={"masked_lm": configuration.MaskedLMConfig()},
)


def get_config() -> ml_collections.ConfigDict:
    """The run, with every field open to `--config.…` flags."""
    return configuration.to_config_dict(RUN)
