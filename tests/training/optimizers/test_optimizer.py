import keras
import numpy as np
import pytest

from seg_tf.config import (
    AdamWConfig,
    CosineAdamWConfig,
    LambConfig,
    MuonConfig,
    StableAdamWConfig,
    build_from,
)
from seg_tf.layers.common import mark_hidden_matrix
from seg_tf.training.optimizers.optimizer import build_adamw
from tests.training.stand_ins import small_config, small_learner

NUM_UPDATES = 6
SETTINGS = {
    "num_updates": NUM_UPDATES,
    "learning_rate": 0.1,
    "warmup_updates": 2,
    "weight_decay": 0.05,
    "beta_1": 0.8,
    "beta_2": 0.95,
    "epsilon": 1e-3,
}


class SlowAdamW:
    """AdamW of one dictionary of arrays, as the papers write it, in float64."""

    def __init__(self, values, decayed, settings):
        self.values = {name: value.astype("float64") for name, value in values.items()}
        self.first = {name: 0.0 * value for name, value in self.values.items()}
        self.second = {name: 0.0 * value for name, value in self.values.items()}
        self.decayed = decayed
        self.settings = settings
        self.updates = 0

    def rate(self):
        warmup, total = self.settings["warmup_updates"], self.settings["num_updates"]
        peak = self.settings["learning_rate"]
        if self.updates < warmup:
            return peak * (self.updates + 1) / warmup
        return peak * (total - self.updates) / (total - warmup)

    def apply(self, gradients):
        rate = self.rate()
        self.updates += 1
        beta_1, beta_2 = self.settings["beta_1"], self.settings["beta_2"]
        for name, gradient in gradients.items():
            first = beta_1 * self.first[name] + (1 - beta_1) * gradient
            second = beta_2 * self.second[name] + (1 - beta_2) * gradient**2
            self.first[name], self.second[name] = first, second
            first_hat = first / (1 - beta_1**self.updates)
            second_hat = second / (1 - beta_2**self.updates)
            step = first_hat / (np.sqrt(second_hat) + self.settings["epsilon"])
            if name in self.decayed:
                step = step + self.settings["weight_decay"] * self.values[name]
            self.values[name] = self.values[name] - rate * step


def run_both(settings, seed=0, gradient_scale=3.0):
    generator = np.random.default_rng(seed)
    shapes = {"kernel": (3, 2), "bias": (2,), "gamma": (2,), "beta": (2,)}
    start = {name: generator.normal(size=shape) for name, shape in shapes.items()}
    variables = {
        name: keras.Variable(value.astype("float32"), name=name)
        for name, value in start.items()
    }
    fast = build_adamw(**settings)
    fast.build(list(variables.values()))
    slow = SlowAdamW(start, {"kernel"}, settings)
    for _ in range(NUM_UPDATES):
        gradients = {
            name: generator.normal(scale=gradient_scale, size=shape).astype("float32")
            for name, shape in shapes.items()
        }
        fast.apply([keras.ops.array(gradients[name]) for name in shapes])
        slow.apply(gradients)
    return variables, slow


def test_updates_equal_adamw_in_numpy():
    variables, slow = run_both(SETTINGS)
    for name, variable in variables.items():
        np.testing.assert_allclose(
            variable.numpy(), slow.values[name], rtol=2e-5, atol=2e-6, err_msg=name
        )


@pytest.mark.parametrize(
    "config",
    [
        AdamWConfig(),
        LambConfig(),
        MuonConfig(warmup_updates=0),
    ],
)
def test_every_bias_and_layer_norm_of_the_model_and_nothing_else_is_not_decayed(config):
    learner = small_learner(optimizer=config)
    layers = {
        id(layer): layer
        for part in (learner.encoder, *learner.objectives.values())
        for layer in part._flatten_layers()
    }
    norms = [
        layer
        for layer in layers.values()
        if isinstance(layer, keras.layers.LayerNormalization)
    ]
    exempt = {id(v) for layer in norms for v in layer.variables}
    exempt |= {id(v) for v in learner.trainable_variables if v.name.endswith("bias")}
    assert len(norms) == 4  # after the embeddings, two in the layer, in the head
    before = {id(v): v.numpy() for v in learner.trainable_variables}

    # With no gradient, whatever moves is decayed.
    for variable in learner.trainable_variables:
        variable.assign(keras.ops.ones_like(variable))
    learner.optimizer.apply(
        [keras.ops.zeros(v.shape) for v in learner.trainable_variables]
    )
    for variable in learner.trainable_variables:
        moved = not np.all(variable.numpy() == 1)
        assert moved == (id(variable) not in exempt), variable.path
    assert len(before) > len(exempt) > 10


def test_config_builds_the_optimizer_with_its_schedule():
    config = AdamWConfig(
        learning_rate=0.5, end_learning_rate=0.1, decay_updates=60, weight_decay=0.3
    )
    optimizer = build_from(config, num_updates=200)
    rates = []
    for updates in (0, 1, 2, 60):
        optimizer.iterations.assign(updates)
        rates.append(float(optimizer.learning_rate))
    # None warms up over 1 % of the 200 updates.
    np.testing.assert_allclose(rates, [0.25, 0.5, 0.5, 0.1], rtol=1e-6)
    assert optimizer.weight_decay == 0.3
    # The training step clips, once the gradients of all processes are summed.
    assert optimizer.global_clipnorm is None


def test_every_argument_of_the_schedule_arrives():
    config = LambConfig(
        learning_rate=0.5,
        warmup_updates=7,
        decay_updates=60,
        decay_power=2.0,
        decay_from_start=True,
        end_learning_rate=0.1,
    )
    optimizer = build_from(config, num_updates=200)
    optimizer.iterations.assign(30)
    # Half of the 60 are left; from the end of the warm-up it would be 30 / 53.
    np.testing.assert_allclose(
        float(optimizer.learning_rate), 0.1 + 0.4 * 0.5**2, rtol=1e-6
    )


def test_cosine_config_builds_the_optimizer_with_its_schedule():
    config = CosineAdamWConfig(
        learning_rate=0.5,
        warmup_updates=50,
        decay_updates=300,
        end_learning_rate=0.1,
        weight_decay=0.3,
        beta_1=0.7,
        beta_2=0.8,
        epsilon=0.1,
    )
    optimizer = build_from(config, num_updates=200)
    rates = []
    for updates in (0, 49, 100, 200, 300):
        optimizer.iterations.assign(updates)
        rates.append(float(optimizer.learning_rate))
    # At thirds of 300 updates: half of the wave is 0.75 and 0.25 of it down.
    np.testing.assert_allclose(rates, [0.01, 0.5, 0.4, 0.2, 0.1], rtol=1e-5)
    settings = optimizer.get_config()
    for name in ("weight_decay", "beta_1", "beta_2", "epsilon"):
        assert settings[name] == getattr(config, name), name
    assert optimizer.global_clipnorm is None


def test_cosine_defaults_are_those_of_transformer_xl():
    optimizer = build_from(CosineAdamWConfig(), num_updates=100)
    # No warm-up: the first update is at the peak, the last almost at zero.
    np.testing.assert_allclose(float(optimizer.learning_rate), 2.5e-4, rtol=1e-6)
    optimizer.iterations.assign(50)
    np.testing.assert_allclose(float(optimizer.learning_rate), 1.25e-4, rtol=1e-6)
    optimizer.iterations.assign(100)
    assert float(optimizer.learning_rate) == 0
    settings = optimizer.get_config()
    expected = {"weight_decay": 0, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8}
    assert settings | expected == settings
    # Without decay an update is Adam's: of the rate, in the gradient's direction.
    weight = keras.Variable(np.full((2,), 5.0, "float32"))
    optimizer = build_from(CosineAdamWConfig(), num_updates=9)
    optimizer.build([weight])
    optimizer.apply([keras.ops.array([3.0, 0.0])])
    np.testing.assert_allclose(5 - weight.numpy(), [2.5e-4, 0], atol=1e-6)


def test_lamb_config_builds_the_optimizer_with_its_schedule():
    config = LambConfig(
        warmup_updates=36,
        weight_decay=0.3,
        beta_1=0.7,
        beta_2=0.8,
        epsilon=0.1,
        adapt_excluded=False,
    )
    optimizer = build_from(config, num_updates=100)
    optimizer.iterations.assign(36)
    # NVIDIA's: the square-root decay has been going on since the first update.
    np.testing.assert_allclose(float(optimizer.learning_rate), 0.8 * 6e-3, rtol=1e-6)
    settings = optimizer.get_config()
    for name in ("weight_decay", "beta_1", "beta_2", "epsilon", "adapt_excluded"):
        assert settings[name] == getattr(config, name), name
    assert optimizer.global_clipnorm is None


def rate_after(config, num_updates, updates):
    optimizer = build_from(config, num_updates=num_updates)
    optimizer.iterations.assign(updates)
    return float(optimizer.learning_rate)


def test_stable_config_builds_the_optimizer_with_its_schedule():
    config = StableAdamWConfig(
        learning_rate=0.5, warmup_updates=10, decay_share=0.25, end_learning_rate=0.1
    )
    assert config.decay_begin(200) == 150
    rates = [rate_after(config, 200, updates) for updates in (0, 9, 10, 150, 175, 200)]
    np.testing.assert_allclose(rates, [0.05, 0.5, 0.5, 0.5, 0.3, 0.1], rtol=1e-6)


def test_muon_config_gives_both_groups_one_schedule_with_two_peaks():
    config = MuonConfig(
        learning_rate=0.5,
        matrix_learning_rate=2.0,
        momentum=0.7,
        warmup_updates=10,
        decay_share=0.25,
        end_learning_rate=0.1,
        weight_decay=0.3,
    )
    start = {"kernel": np.full((2, 2), 3.0), "bias": np.ones(2)}
    for updates, rate in ((0, 0.05), (10, 0.5), (175, 0.3), (200, 0.1)):
        assert rate_after(config, 200, updates) == np.float32(rate)
        optimizer = build_from(config, num_updates=200)
        assert (optimizer.name, optimizer.momentum) == ("muon", 0.7)
        kernel, bias = (keras.Variable(v, name=name) for name, v in start.items())
        mark_hidden_matrix(kernel)
        optimizer.build([kernel, bias])
        optimizer.iterations.assign(updates)
        optimizer.apply([keras.ops.zeros((2, 2)), keras.ops.zeros(2)])
        # Without a gradient nothing but the decay is left, at four times the rate.
        np.testing.assert_allclose(kernel, 3.0 * (1 - 4 * rate * 0.3), rtol=1e-6)
        np.testing.assert_array_equal(bias, start["bias"])


def test_share_of_the_run_is_warmed_up_unless_a_number_is_given():
    shared = AdamWConfig(learning_rate=1.0, warmup_share=0.25)
    fixed = AdamWConfig(learning_rate=1.0, warmup_share=0.25, warmup_updates=2)
    assert rate_after(shared, 16, 0) == 1 / 4
    assert rate_after(fixed, 16, 0) == 1 / 2
    assert (shared.warmup(16), fixed.warmup(16)) == (4, 2)


def test_iterations_count_updates_and_drive_the_schedule():
    learner = small_learner(small_config(num_updates=100))
    optimizer = learner.optimizer
    gradients = [keras.ops.ones(v.shape) for v in learner.trainable_variables]
    for updates in range(3):
        assert int(optimizer.iterations) == updates
        optimizer.apply(gradients)
    np.testing.assert_allclose(
        float(optimizer.learning_rate), 1e-2 * 97 / 99, rtol=1e-6
    )
