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
from seg_tf.training.optimizers import AdamW
from tests.training.stand_ins import small_learner


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


def rate_after(config, num_updates, updates):
    optimizer = build_from(config, num_updates=num_updates)
    optimizer.iterations.assign(updates)
    return float(optimizer.learning_rate)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # None warms up over 1 % of the 200 updates.
        (
            AdamWConfig(learning_rate=0.5, end_learning_rate=0.1, decay_updates=60),
            {0: 0.25, 1: 0.5, 2: 0.5, 60: 0.1},
        ),
        # Half of the 60 are left; from the end of the warm-up it would be 30 / 53.
        (
            LambConfig(
                learning_rate=0.5,
                warmup_updates=7,
                decay_updates=60,
                decay_power=2.0,
                decay_from_start=True,
                end_learning_rate=0.1,
            ),
            {30: 0.1 + 0.4 * 0.5**2},
        ),
        # At thirds of 300 updates: half of the wave is 0.75 and 0.25 of it down.
        (
            CosineAdamWConfig(
                learning_rate=0.5,
                warmup_updates=50,
                decay_updates=300,
                end_learning_rate=0.1,
            ),
            {0: 0.01, 49: 0.5, 100: 0.4, 200: 0.2, 300: 0.1},
        ),
        (
            StableAdamWConfig(
                learning_rate=0.5,
                warmup_updates=10,
                decay_share=0.25,
                end_learning_rate=0.1,
            ),
            {0: 0.05, 9: 0.5, 10: 0.5, 150: 0.5, 175: 0.3, 200: 0.1},
        ),
        (AdamWConfig(learning_rate=1.0, warmup_share=0.05), {0: 1 / 10}),
    ],
)
def test_config_builds_the_optimizer_with_its_schedule(config, expected):
    for updates, rate in expected.items():
        assert rate_after(config, 200, updates) == pytest.approx(rate)


def test_config_builds_the_optimizer_with_its_settings():
    config = CosineAdamWConfig(weight_decay=0.3, beta_1=0.7, beta_2=0.8, epsilon=0.1)
    settings = build_from(config, num_updates=200).get_config()
    for name in ("weight_decay", "beta_1", "beta_2", "epsilon"):
        assert settings[name] == getattr(config, name), name
    # The training step clips, once the gradients of all processes are summed.
    assert settings["global_clipnorm"] is None


def test_gradients_can_be_accumulated_by_keras():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(AdamW(0.1, gradient_accumulation_steps=2), "mse", jit_compile=False)
    before = model.get_weights()[0]
    model.fit(np.ones((4, 2)), np.ones(4), batch_size=2, verbose=0)
    # Both gradients have the same sign, and Adam's first step has the size of the rate.
    np.testing.assert_allclose(abs(model.get_weights()[0] - before), 0.1, rtol=0.01)


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
