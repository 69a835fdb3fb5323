"""Order of variables in checkpoints, and what becomes of edited ones."""

import dataclasses
import functools
import math
import operator
import random

import h5py
import pytest

from seg_tf import configuration, files
from seg_tf.checkpoints import contents, pretrained
from seg_tf.checkpoints.errors import CheckpointError
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
    config = tiny_slm.config(configuration.SentenceUnshufflingConfig(num_layers=1))
    objectives = dict(turn(config.objectives.items()))
    config = dataclasses.replace(config, objectives=objectives)
    built = pretrained.assemble(config, tiny_slm.VOCABULARY.size)
    names = [variable.name for variable in contents.objective_variables(*built)]
    assert names == expected


def test_edited_checkpoints_are_refused_by_name_or_change_nothing(tmp_path):
    checkpoint, batch = edited_checkpoints.example(tmp_path / "run")
    expected = edited_checkpoints.outputs(checkpoint, batch)
    found = {}
    for case in (*range(80), 1960):
        edit = edited_checkpoints.random_edit(random.Random(case), checkpoint)
        found[case, edit.text] = edited_checkpoints.outcome(
            edit, checkpoint, batch, expected, tmp_path
        )
    fine = edited_checkpoints.FINE
    assert {case: how for case, how in found.items() if how not in fine} == {}
    assert {"refused", "equal"} <= set(found.values())


@pytest.mark.parametrize("is_forged", [False, True])
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("config.model.num_layers", 0, "`num_layers` must be at least 1.*=0"),
        ("config.model.num_layers", 3, "need at least 8,496"),
        ("config.model.num_layers", 1, "encoder.weights.h5: of another model"),
        ("config.model.layer_norm_epsilon", -1, "`layer_norm_epsilon` must be above 0"),
        ("config.model.layer_norm_epsilon", math.inf, "`layer_norm_epsilon` must"),
        ("text.tokenizer", "bytes", "`text.tokenizer` must be one of .*'bytes'"),
    ],
)
def test_other_settings_are_refused(tmp_path, path, value, message, is_forged):
    checkpoint, _ = edited_checkpoints.example(tmp_path / "run")
    state = contents.read_state(checkpoint)
    if is_forged:  # as a checkpoint of an earlier version, whose weights do not say
        encoder_file = checkpoint / contents.ENCODER_FILE
        with h5py.File(encoder_file, "a") as file:
            del file.attrs["settings"]
        state["checksums"][encoder_file.name] = files.checksum(encoder_file)
    *outer, last = path.split(".")
    functools.reduce(operator.getitem, outer, state)[last] = value
    contents.write_state(checkpoint, state)
    if not is_forged:
        message = f"its weights belong to other settings.*{last}"
    with pytest.raises(CheckpointError, match=message) as error:
        pretrained.load_pretrained(checkpoint)
    assert str(checkpoint) in str(error.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("text.strip_accents", "no", "`text.strip_accents` must be true or false"),
        ("vocab_size", 0, "`vocab_size` at least 1. Received: vocab_size=0"),
        ("checksums", {"../x": "0"}, "names of files in this folder"),
    ],
)
def test_fields_of_other_types_are_refused(tmp_path, path, value, message):
    checkpoint, _ = edited_checkpoints.example(tmp_path / "run")
    state = contents.read_state(checkpoint)
    *outer, last = path.split(".")
    functools.reduce(operator.getitem, outer, state)[last] = value
    contents.write_state(checkpoint, state)
    with pytest.raises(CheckpointError, match=message) as error:
        contents.read_state(checkpoint)
    assert str(checkpoint) in str(error.value)
