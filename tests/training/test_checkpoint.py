import dataclasses
import os
import shutil
import signal
import time

import keras
import numpy as np
import pytest

from seg_tf import files
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.config import to_dict
from seg_tf.training.checkpoint import Checkpoints
from tests import command_calls, full_disks
from tests.training.stand_ins import (
    VOCAB_SIZE,
    ArithmeticInputs,
    small_config,
    small_learner,
)

pytestmark = pytest.mark.slow

VOCABULARY = {
    "vocab_size": VOCAB_SIZE,
    "vocab_checksum": ArithmeticInputs.vocab_checksum,
}


def train(learner, updates, first_sample=0):
    batches = ArithmeticInputs().train_dataset(4, first_sample=first_sample)
    for batch in batches.take(updates):
        learner.train_step(batch)


def trained(config=None, updates=3):
    """A learner whose every variable differs from a fresh one's."""
    learner = small_learner(config)
    train(learner, updates)
    return learner


@pytest.fixture(scope="module")
def learner():
    return trained()


def state_of(learner):
    """Every variable that the next update depends on, found without the code."""
    variables = [*learner.variables, *learner.optimizer.variables]
    variables += learner.counters
    variables += learner.options.loss_scale.variables
    # Dropout derives its state from the samples.
    variables = [v for v in variables if "seed_generator" not in v.path]
    return [np.asarray(variable.value) for variable in variables]


def checkpoints_in(folder, keep=3, reports=None):
    config = to_dict(small_config())
    return Checkpoints(
        folder,
        keep,
        facts={"config": config, **VOCABULARY},
        report=(reports if reports is not None else []).append,
    )


def test_every_variable_comes_back_bit_for_bit(learner, tmp_path):
    saved = state_of(learner)
    checkpoints_in(tmp_path).save(learner, updates=3, samples=12)
    fresh = small_learner()
    # Seeds differ as they would in another process: the file has to win.
    assert any(
        not np.array_equal(one, two)
        for one, two in zip(saved, state_of(fresh), strict=True)
    )
    checkpoints = checkpoints_in(tmp_path)
    state = checkpoints.newest_intact()
    checkpoints.restore(fresh, state["updates"])
    restored = state_of(fresh)
    assert len(saved) > 50
    assert [one.dtype for one in restored] == [one.dtype for one in saved]
    np.testing.assert_equal(restored, saved)
    assert (state["updates"], state["samples"]) == (3, 12)


def test_weights_of_another_model_are_refused(learner, tmp_path):
    folder = checkpoints_in(tmp_path).save(learner, updates=3, samples=12)
    config = small_config()
    wider = dataclasses.replace(config.model, hidden_size=12)
    wider = dataclasses.replace(config, model=wider)
    with pytest.raises(CheckpointError, match="hidden_size: 8 there, 12 now"):
        pretrained.restore_weights(
            folder, learner.encoder, learner.objectives, wider, VOCABULARY
        )
    other = {**VOCABULARY, "vocab_checksum": "another"}
    with pytest.raises(CheckpointError, match="of fifty pieces there, another now"):
        pretrained.restore_weights(
            folder, learner.encoder, learner.objectives, config, other
        )
    # The weight of a loss may change.
    objective = dataclasses.replace(config.objectives["masked_lm"], loss_weight=0.5)
    config = dataclasses.replace(config, objectives={"masked_lm": objective})
    pretrained.restore_weights(
        folder, learner.encoder, learner.objectives, config, VOCABULARY
    )


def test_newest_and_best_are_kept(learner, tmp_path):
    checkpoints = checkpoints_in(tmp_path, keep=2)
    losses = {1: 5.0, 2: 3.0, 3: 4.0, 4: None, 5: 3.5, 6: None}
    for updates, loss in losses.items():
        checkpoints.save(learner, updates=updates, samples=4 * updates)
        if loss is not None:
            checkpoints.record_validation(updates, {"loss": loss})
    assert checkpoints.updates() == [2, 5, 6]
    assert checkpoints.best() == 2
    assert checkpoints.best_loss() == 3.0
    checkpoints.record_validation(6, {"loss": 2.0})
    assert checkpoints.best() == 6
    assert checkpoints.updates() == [5, 6]  # 2 is neither any more
    assert checkpoints.newest_intact()["validation"] == {"loss": 2.0}


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


DAMAGES = {"flipped bit": flip_a_bit, "truncated": truncate, "missing": os.remove}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize(
    "name",
    [
        contents.ENCODER_FILE,
        contents.TRAINING_STATE_FILE,
        contents.STATE_FILE,
    ],
)
def test_damaged_newest_falls_back_to_the_one_before(learner, tmp_path, name, damage):
    reports = []
    checkpoints = checkpoints_in(tmp_path, reports=reports)
    for updates in (1, 2):
        checkpoints.save(learner, updates=updates, samples=4 * updates)
    damage(checkpoints.path(2) / name)
    assert checkpoints.newest_intact()["updates"] == 1
    assert len(reports) == 1
    assert str(checkpoints.path(2) / name) in reports[0]
    with pytest.raises(CheckpointError):
        folders.read(checkpoints.path(2))
    # A later checkpoint may still do when the earlier ones are damaged.
    damage(checkpoints.path(1) / name)
    assert checkpoints.newest_intact(at_most=1) is None
    with pytest.raises(CheckpointError, match="every checkpoint is damaged"):
        checkpoints.newest_intact()


def test_checkpoint_of_another_model_is_refused(learner, tmp_path):
    checkpoints = checkpoints_in(tmp_path)
    checkpoints.save(learner, updates=1, samples=4)
    other = small_learner()
    other.optimizer = keras.optimizers.SGD(0.1)
    other.optimizer.build(other.trainable_variables)
    with pytest.raises(CheckpointError, match="of another model: it holds"):
        checkpoints.restore(other, 1)


def test_full_disk_leaves_the_one_before(tmp_path, monkeypatch):
    # So wide that the weights outweigh what HDF5 writes around them.
    model = dataclasses.replace(small_config().model, hidden_size=64)
    checkpoints, wide = checkpoints_in(tmp_path), small_learner(model=model)
    first = checkpoints.save(wide, updates=1, samples=4)
    encoder, training_state = (
        (first / name).stat().st_size
        for name in (contents.ENCODER_FILE, contents.TRAINING_STATE_FILE)
    )
    # The encoder still fits, what comes after it does not.
    limit = (encoder + training_state) // 2
    assert encoder < limit < training_state

    def refused():
        with full_disks.largest_file(limit), pytest.raises(CheckpointError) as caught:
            checkpoints.save(wide, updates=2, samples=8)
        assert list(tmp_path.iterdir()) == [first]
        assert checkpoints.newest_intact()["updates"] == 1
        assert "File too large" in str(caught.value)
        assert f"The last checkpoint is {first};" in str(caught.value)
        return str(caught.value)

    # Refused before anything is written, then by the system.
    assert "bytes needed" in refused()
    monkeypatch.setattr(files, "check_room", lambda folder, num_bytes: None)
    assert "bytes needed" not in refused()


ENDLESS_SAVING = """
import itertools, pathlib, sys
from tests.training.test_checkpoint import checkpoints_in, small_learner
checkpoints = checkpoints_in(pathlib.Path(sys.argv[1]))
learner = small_learner()
for updates in itertools.count(1):
    checkpoints.save(learner, updates=updates, samples=updates)
    checkpoints.record_validation(updates, {"loss": 1 / updates})
    if updates == 1:
        print("saved", flush=True)
"""


def test_kill_at_any_moment_leaves_only_whole_checkpoints(learner, tmp_path):
    generator = np.random.default_rng()
    process = command_calls.python("-c", ENDLESS_SAVING, tmp_path / "run")
    try:
        process.stdout.readline()
        for number in range(3):
            time.sleep(generator.uniform(0, 0.5))
            # The files of a process that is stopped are those that a kill leaves.
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            shutil.copytree(tmp_path / "run", tmp_path / f"stopped-{number}")
            process.send_signal(signal.SIGCONT)
    finally:
        process.kill()
        process.communicate()
    for folder in tmp_path.iterdir():
        checkpoints = checkpoints_in(folder)
        assert checkpoints.updates()
        for updates in checkpoints.updates():
            assert folders.read(checkpoints.path(updates))["updates"] == updates
        # What was left aside is gone after the next one is written.
        checkpoints.save(learner, updates=10**6, samples=1)
        assert {path.name[:7] for path in folder.iterdir()} == {"update-"}
