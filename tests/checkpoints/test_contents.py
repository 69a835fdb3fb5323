"""Order of variables in checkpoints, by which those of earlier versions are read."""

import dataclasses

import pytest

from seg_tf import configuration
from seg_tf.checkpoints import contents, pretrained
from tests.inference import tiny_slm

DENSE, NORM = ["kernel", "bias"], ["gamma", "beta"]
# The table of tokens, which both encoder and masked LM hold, is the encoder's.
MASKED_LM = ["output_bias", *DENSE, *NORM]
UNSHUFFLING = [*DENSE * 4, *NORM, *DENSE * 4, *NORM, *DENSE * 2, *NORM]


@pytest.mark.parametrize(
    ("turn", "expected"),
    [(iter, MASKED_LM + UNSHUFFLING), (reversed, UNSHUFFLING + MASKED_LM)],
)
def test_variables_of_objectives_follow_the_config(turn, expected):
    config = tiny_slm.config(configuration.SentenceUnshufflingConfig(num_layers=1))
    objectives = dict(turn(config.objectives.items()))
    config = dataclasses.replace(config, objectives=objectives)
    built = pretrained.assemble(config, tiny_slm.VOCABULARY.size)
    names = [variable.name for variable in contents.objective_variables(*built)]
    assert names == expected
