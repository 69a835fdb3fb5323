"""Memory of lanes, from step to step, in checkpoints and on several ranks."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.training import build
from seg_tf.training.distribution import Distribution
from seg_tf.training.errors import Interrupted
from seg_tf.training.step import LaneMemory
from tests import scripted_runs
from tests.training import word_runs
from tests.training.stand_ins import At, make_updates, pretrain, terminate

pytestmark = pytest.mark.slow


NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}


def with_settings(model=None, **training):
    config = word_runs.CONFIG
    return dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **(model or {})),
        training=dataclasses.replace(
            config.training, **{"micro_batch_size": None, **training}
        ),
    )


@pytest.fixture(scope="module")
def inputs(word_records):
    return build.build_inputs(word_runs.CONFIG, str(word_records))


def trained(inputs, config, updates):
    """A learner after some updates."""
    learner = build.build_learner(config, inputs)
    dataset = inputs.train_dataset(config.training.batch_size)
    make_updates(learner, dataset, updates)
    return learner


def memory_of(learner):
    return {one.name: one.numpy() for one in learner.memory.variables}


def test_memory_is_what_one_long_pass_over_each_lane_leaves(inputs):
    # Without a rate the weights stay, so that all segments are read by the same.
    config = with_settings({**NO_DROPOUT, "memory_length": 20})
    still = dataclasses.replace(config.optimizer, learning_rate=0.0)
    learner = build.build_learner(dataclasses.replace(config, optimizer=still), inputs)
    batches = list(inputs.train_dataset(config.training.batch_size).take(4))
    for batch in batches:
        learner.train_step(batch)
    lanes = {
        name: np.concatenate([batch[name] for batch in batches], axis=1)
        for name in learner.encoder.feature_names
    }
    _, expected = learner.encoder(lanes)
    found = memory_of(learner)
    np.testing.assert_array_equal(found["memory_indices"], expected["memory_indices"])
    np.testing.assert_allclose(
        found["memory_hidden"], expected["memory_hidden"], atol=1e-5
    )


def test_compiled_micro_batches_remember_what_the_whole_batch_does(inputs):
    whole = trained(inputs, with_settings(NO_DROPOUT), 5)
    config = with_settings(NO_DROPOUT, micro_batch_size=1, jit_compile=True)
    parts = trained(inputs, config, 5)
    for one, other in zip(
        whole.trainable_variables, parts.trainable_variables, strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=2e-6)
    for name, value in memory_of(whole).items():
        np.testing.assert_allclose(memory_of(parts)[name], value, atol=1e-5)


def run(inputs, folder, *events):
    return pretrain(folder, word_runs.CONFIG, inputs, *events)[1]


def test_interrupted_run_equals_an_unbroken_one_memory_included(inputs, tmp_path):
    expected = run(inputs, tmp_path / "unbroken")
    # In a validation, which has memory of its own.
    with pytest.raises(Interrupted):
        run(inputs, tmp_path / "broken", At(6, terminate, "test"))
    assert run(inputs, tmp_path / "broken") == expected
    name = "checkpoints/update-00000012"
    found, wanted = (
        {
            # Keras numbers models as they come in a process.
            re.sub(r"(transformer_xl|causal_lm)_\d+", r"\1", name): value
            for name, value in scripted_runs.variables_of(
                tmp_path / folder / name
            ).items()
        }
        for folder in ("broken", "unbroken")
    )
    assert {one for one in wanted if one.startswith("memory")} == {
        "memory.00000.memory_hidden",
        "memory.00001.memory_indices",
    }
    np.testing.assert_equal(found, wanted)
    rows = [scripted_runs.log_of(tmp_path / one) for one in ("broken", "unbroken")]
    assert rows[0] == rows[1]
    assert "causal_lm_perplexity" in rows[0][-1]


class TwoRanks(Distribution):
    """This process, and one that has sent what is given."""

    size = 2

    def __init__(self, others=()):
        self.sent, self._others = [], iter(others)

    def sum(self, tensors, name, as_float16=False):
        self.sent += tensors
        return [one + next(self._others, 0) for one in tensors]


def five_lanes():
    return LaneMemory({"a": tf.zeros([5, 1]), "b": tf.zeros([5], tf.int32)})


def written(memory, lanes, step):
    """Writes what differs by step and lane, and returns what was there before."""
    rows = {"lane": tf.constant(lanes)}
    before = memory.read(rows)["a"].numpy()
    value = tf.constant([[100.0 * step + lane] for lane in lanes])
    memory.own(rows)
    memory.write(rows, {"a": value, "b": tf.constant(lanes) + step})
    return before


def test_other_numbers_of_processes_continue_what_one_would():
    alone, first, second = five_lanes(), five_lanes(), five_lanes()
    for step in (1, 2):
        written(alone, [0, 1, 2, 3, 4], step)
        written(first, [1, 0], step)
        written(second, [2, 4, 3], step)
    sending = TwoRanks()
    second.collect(sending)
    first.collect(TwoRanks(sending.sent))
    for found, expected in zip(first.variables, alone.variables, strict=True):
        np.testing.assert_array_equal(found, expected)
    # The chief's are broadcast, and the second process has other lanes from now on.
    for variable, value in zip(second.variables, first.variables, strict=True):
        variable.assign(value.value)
    first.share()
    second.share()
    assert written(second, [1, 2], 3).tolist() == [[201], [202]]
    assert written(first, [3, 4, 0], 3).tolist() == [[203], [204], [200]]


def test_rows_that_are_not_finite_keep_what_was_there():
    memory = LaneMemory({"a": tf.ones([3, 2]), "b": tf.zeros([3], tf.int32)})
    new = {"a": tf.constant([[4, np.inf], [5, 6.0]]), "b": tf.constant([7, 8])}
    memory.write({"lane": tf.constant([2, 0])}, new)
    a, b = (one.numpy() for one in memory.variables)
    np.testing.assert_array_equal(a, [[5, 6], [1, 1], [1, 1]])
    np.testing.assert_array_equal(b, [8, 0, 0])


def test_a_process_without_lanes_keeps_all():
    memory = five_lanes()
    written(memory, [3, 1], 1)
    nothing = {"a": tf.zeros([0, 1]), "b": tf.zeros([0], tf.int32)}
    memory.write({"lane": tf.zeros([0], tf.int32)}, nothing)
    assert memory.variables[0].numpy()[:, 0].tolist() == [0, 101, 0, 103, 0]
