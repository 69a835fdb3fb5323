"""The step against its definition; the toy model and its gradients are by hand."""

import dataclasses
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import AdamWConfig
from seg_tf.training import build, checkpoint
from seg_tf.training.distribution import Distribution
from seg_tf.training.learner import Learner
from seg_tf.training.step import DynamicLossScale, StepOptions
from seg_tf.training.step_tf import backward_groups
from tests.training.stand_ins import ArithmeticInputs, make_updates, small_config
from tests.training.test_learner import DIM, ROWS, Squares, Table, rows

pytestmark = pytest.mark.slow


def toy(rate=0.1, objectives=None, **options):
    learner = Learner(
        Table(),
        objectives or {"squares": Squares()},
        keras.optimizers.SGD(rate),
        rows([[1, 2, 3]], [[1.0, 1.0, 1.0]]),
        options=StepOptions(**options),
    )
    values = np.arange(1, ROWS + 1, dtype="float32")[:, None] / ROWS
    learner.encoder.table.assign(values * np.ones((1, DIM), "float32"))
    return learner


# Micro-batches of very unlike weight; one of them has none at all.
BATCH = rows(
    [[1, 1, 2], [3, 0, 0], [0, 0, 0], [4, 5, 6], [2, 2, 2], [1, 6, 6]],
    [
        [1.0, 1.0, 0.5],
        [9.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0],
        [0.25, 0.25, 3.0],
    ],
)


def gradient_by_hand(table, factor=1.0):
    """Of `factor` times the sum of weighted squares over the sum of weights."""
    gradient = np.zeros_like(table)
    for ids, weights in zip(BATCH["token_ids"], BATCH["weights"], strict=True):
        for number, weight in zip(ids, weights, strict=True):
            gradient[number] += weight * 2 * table[number]
    return factor * gradient / BATCH["weights"].sum()


def make_step(learner, features=BATCH):
    return tf.function(learner.train_step, autograph=False)(features)


@pytest.mark.parametrize("micro_batch_size", [None, 2, 1])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_gradient_is_that_of_the_sum_over_the_whole_batch(
    micro_batch_size, jit_compile
):
    objectives = {"one": Squares(loss_weight=0.5), "two": Squares(loss_weight=3.0)}
    learner = toy(
        objectives=objectives,
        micro_batch_size=micro_batch_size,
        jit_compile=jit_compile,
    )
    table = learner.encoder.table.numpy().astype("float64")
    expected = table - 0.1 * gradient_by_hand(table, 3.5)
    make_step(learner)
    np.testing.assert_allclose(learner.encoder.table.numpy(), expected, rtol=1e-6)


def test_micro_batches_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="micro_batch_size=4, rows=6"):
        make_step(toy(micro_batch_size=4))


@pytest.mark.parametrize("scale", [1.0, 1024.0])
@pytest.mark.parametrize("clip_norm", [0.5, 100.0, None])
def test_gradient_is_unscaled_then_clipped_by_its_global_norm(clip_norm, scale):
    learner = toy(
        micro_batch_size=2,
        clip_norm=clip_norm,
        loss_scale=DynamicLossScale(scale, growth_interval=100, floor=1.0),
    )
    table = learner.encoder.table.numpy().astype("float64")
    gradient = gradient_by_hand(table)
    norm = np.sqrt((gradient**2).sum())
    assert 0.5 < norm < 100
    make_step(learner)
    assert learner.interval_results()["gradient_norm"] == pytest.approx(norm)
    clipped = gradient * 0.5 / norm if clip_norm == 0.5 else gradient
    np.testing.assert_allclose(
        learner.encoder.table.numpy(), table - 0.1 * clipped, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("bad", "jit_compile"), [(np.inf, False), (np.nan, False), (np.nan, True)]
)
def test_step_that_is_not_finite_changes_no_weight_and_no_counter(bad, jit_compile):
    scale = DynamicLossScale(8.0, growth_interval=100, floor=1.0)
    learner = toy(
        micro_batch_size=2,
        loss_scale=scale,
        jit_compile=jit_compile,
        rate=keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5),
    )
    before = learner.encoder.table.numpy()
    weights = BATCH["weights"].copy()
    weights[5, 2] = bad  # in the last of the micro-batches
    finite, _ = make_step(learner, {**BATCH, "weights": tf.constant(weights)})
    assert not finite
    np.testing.assert_array_equal(learner.encoder.table.numpy(), before)
    assert learner.updates == 0
    assert float(scale.value) == 4.0
    # What was consumed is counted; what was measured is not.
    assert learner.samples == 6
    assert learner.skipped_steps == 1
    assert learner.interval_results()["loss"] == 0.0
    finite, _ = make_step(learner)
    assert finite
    assert learner.updates == 1
    assert float(scale.value) == 4.0
    assert np.isfinite(learner.interval_results()["loss"])


def trained(config):
    """Weights before and after some updates on the arithmetic inputs."""
    learner = build.build_learner(config, ArithmeticInputs())
    start = [variable.numpy().copy() for variable in learner.trainable_variables]
    dataset = ArithmeticInputs().train_dataset(config.training.batch_size)
    make_updates(learner, dataset, 20)
    return start, [variable.numpy() for variable in learner.trainable_variables]


def test_micro_batches_train_as_one_batch_does():
    # Rows have unlike lengths and one to three predictions: a mean of means differs.
    # Updates are small, so that Adam does not blow rounding up where gradients vanish.
    whole = small_config(dropout=0.0, batch_size=12)
    whole = dataclasses.replace(
        whole, optimizer=AdamWConfig(learning_rate=1e-3, epsilon=1e-4)
    )
    start, expected = trained(whole)
    training = dataclasses.replace(whole.training, micro_batch_size=4)
    _, found = trained(dataclasses.replace(whole, training=training))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)
    assert max(np.abs(a - b).max() for a, b in zip(start, expected, strict=True)) > 5e-3


def test_variable_that_the_loss_does_not_hang_on_stays():
    class WithSpare(Table):
        def build(self, input_shape=None):
            super().build(input_shape)
            self.spare = self.add_weight(name="spare", shape=(3,), initializer="ones")

    features = rows([[1, 2, 3]], [[1.0, 1.0, 1.0]])
    objectives, optimizer = {"squares": Squares()}, keras.optimizers.SGD(0.1)
    learner = Learner(WithSpare(), objectives, optimizer, features)
    assert len(learner.trainable_variables) == 2
    before = learner.encoder.table.numpy()
    finite, _ = make_step(learner, features)
    assert finite
    np.testing.assert_array_equal(learner.encoder.spare, np.ones(3))
    assert (learner.encoder.table.numpy() != before).any()


def test_dropout_of_a_micro_batch_is_that_of_its_first_sample():
    config = small_config(dropout=0.5, batch_size=8, micro_batch_size=4)
    learner = build.build_learner(config, ArithmeticInputs())
    step = learner._step
    features = next(iter(ArithmeticInputs().train_dataset(8, first_sample=40)))
    counts = tf.constant([7.0])

    def gradients(first):
        part = {name: value[first : first + 4] for name, value in features.items()}
        return [one.numpy() for one in step._gradients(part, counts)[0]]

    second, first, again = gradients(4), gradients(0), gradients(4)
    np.testing.assert_equal(second, again)
    together = step._accumulate(features, {}, counts)[0]
    for one, other, both in zip(first, second, together, strict=True):
        np.testing.assert_allclose(one + other, both.numpy(), atol=1e-6)
    # The same rows as another sample are dropped from otherwise.
    features["sample_number"] += 1
    assert any(
        not np.array_equal(one, other)
        for one, other in zip(second, gradients(4), strict=True)
    )


def test_groups_of_gradients_begin_with_the_last():
    assert backward_groups([1, 1, 1, 1], 1) == [[3, 2, 1, 0]]
    assert backward_groups([9, 1, 1, 1], 4) == [[3, 2, 1], [0]]
    assert backward_groups([1, 1, 9], 3) == [[2], [1], [0]]
    assert backward_groups([1, 1, 1], 9) == [[2], [1], [0]]


class Failing(Distribution):
    """One process, of whose sums one fails."""

    def __init__(self, name):
        self._name = name

    def sum(self, tensors, name, as_float16=False):
        if name == self._name:
            # Not before its tensors are there.
            low = tf.cast(tf.reduce_min(tensors[0]), tf.float32)
            failure = tf.debugging.assert_less(low, tf.constant(-1e30), "failed")
            with tf.control_dependencies([failure]):
                return [tf.identity(tensor) for tensor in tensors]
        return list(tensors)


@pytest.mark.parametrize("name", ["counts", "gradients_0", "sums"])
def test_step_whose_sum_fails_leaves_no_trace(name):
    # The slow forward pass gives everything that does not wait time to happen.
    objectives = {"squares": Slow()}
    scale = DynamicLossScale(8.0, growth_interval=100, floor=1.0)
    learner = toy(objectives=objectives, loss_scale=scale, distribution=Failing(name))
    variables = checkpoint.all_variables(learner)
    before = [variable.numpy().copy() for variable in variables]
    with pytest.raises(tf.errors.InvalidArgumentError, match="failed"):
        make_step(learner)
    np.testing.assert_equal([variable.numpy() for variable in variables], before)


class Slow(Squares):
    def call(self, sequence, features, training=None):
        def wait(values):
            time.sleep(0.3)
            return values

        if training:
            slow = tf.py_function(wait, [features["weights"]], tf.float32)
            slow = tf.ensure_shape(slow, features["weights"].shape)
            features = {**features, "weights": slow}
        return super().call(sequence, features)
