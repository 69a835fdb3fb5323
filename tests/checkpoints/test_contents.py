"""Order of variables in checkpoints, and what becomes of edited ones."""

import dataclasses
import functools
import math
import operator
import shutil

import keras
import numpy as np
import pytest

from seg_tf.checkpoints import contents, folders, pretrained, weight_files
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.config import SentenceUnshufflingConfig
from tests.checkpoints import edited_checkpoints
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
    config = tiny_slm.config(SentenceUnshufflingConfig(num_layers=1))
    objectives = dict(turn(config.objectives.items()))
    config = dataclasses.replace(config, objectives=objectives)
    built = pretrained.assemble(config, tiny_slm.VOCABULARY.size)
    names = [variable.name for variable in contents.objective_variables(*built)]
    assert names == expected


@pytest.mark.slow
def test_edited_checkpoints_are_refused_by_name_or_change_nothing(example, tmp_path):
    expected = edited_checkpoints.outputs(example)
    found = [
        edited_checkpoints.outcome(case, example, expected, tmp_path)
        for case in range(16)
    ]
    assert [one for one in found if one[1] not in edited_checkpoints.FINE] == []
    assert {"refused", "equal"} <= {how for _, how in found}


@pytest.fixture(scope="module", name="example")
def _example(tmp_path_factory):
    return edited_checkpoints.example(tmp_path_factory.mktemp("example") / "run")


@pytest.fixture
def checkpoint(example, tmp_path):
    run = shutil.copytree(example, tmp_path / "run")
    return next((run / "checkpoints").iterdir())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("config.model.num_layers", 0, "`num_layers` must be at least 1.*=0"),
        ("config.model.num_layers", 2**30, "`config.model` must match .* need at leas"),
        ("config.model.num_layers", 1, "encoder.weights.h5: of another model"),
        ("config.model.layer_norm_epsilon", math.inf, "`layer_norm_epsilon` must"),
        ("text.tokenizer", "bytes", "`tokenizer` must be one of .*'bytes'"),
        ("vocab_size", None, "`vocab_size` must be int. Received: vocab_size=None"),
        ("checksums", {"../x": "0"}, "only files of this folder"),
    ],
)
def test_other_settings_are_refused(checkpoint, path, value, message):
    state = contents.read_state(checkpoint)
    *outer, last = path.split(".")
    functools.reduce(operator.getitem, outer, state)[last] = value
    contents.write_state(checkpoint, state)
    with pytest.raises(CheckpointError, match=message) as error:
        pretrained.load_pretrained(checkpoint)
    assert str(checkpoint) in str(error.value)


def test_a_run_without_validations_has_a_newest_checkpoint(checkpoint):
    state = contents.read_state(checkpoint)
    del state["validation"]
    contents.write_state(checkpoint, state)
    assert folders.find_checkpoint(checkpoint.parents[1]) == checkpoint


def test_weights_that_overflow_when_they_are_cast_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", **{"x.00000.kernel": np.full(2, 1e300)})
    variables = {"x.00000.kernel": keras.Variable(np.zeros(2, "float32"))}
    with pytest.raises(CheckpointError, match=r"npz: x\.00000\.kernel must be finite"):
        weight_files.load_npz(tmp_path / "x.npz", variables, cast=True)
