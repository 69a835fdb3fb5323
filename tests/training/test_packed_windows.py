"""Packed and unpacked rows: one loss, one gradient, one encoder."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import RunConfig, TrainingConfig
from seg_tf.data.inputs import (
    MaskingConfig,
    PackedWindowInputsConfig,
    WindowInputsConfig,
)
from seg_tf.training import build
from tests.data_pipelines.builders import random_tree, write_windows
from tests.inference.tiny_slm import tiny_encoder

pytestmark = pytest.mark.slow

LENGTH = 32
VOCAB_SIZE = 60
# Of BERT and SegaBERT.
TABLES = {
    "position_index": LENGTH,
    "paragraph_index": 4,
    "sentence_index": 6,
    "token_index": 9,
}


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    generator = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("records")
    trees = [random_tree(generator, 40, VOCAB_SIZE) for _ in range(40)]
    write_windows(
        folder,
        {"train": [trees], "validation": [trees[:3]]},
        window_length=LENGTH,
        vocab_size=VOCAB_SIZE,
    )
    return folder


def run_config(inputs=PackedWindowInputsConfig):
    return RunConfig(
        name="small",
        paper="bert_base",
        model=tiny_encoder(TABLES, dropout=0.0),
        inputs=inputs(window_length=LENGTH, masking=MaskingConfig(max_predictions=6)),
        training=TrainingConfig(deterministic_ops=False),
    )


def build_run(config, records_dir):
    inputs = build.build_inputs(config, records_dir)
    return inputs, build.build_learner(config, inputs)


def unpacked(batch, max_predictions):
    """Each window of a packed batch in a row of its own, by loops."""
    names = [name for name, values in batch.items() if values.shape[1:] == (LENGTH,)]
    rows = []
    for row, number in np.ndindex(len(batch["token_ids"]), LENGTH):
        (positions,) = np.nonzero(batch["window_number"][row] == number + 1)
        if not len(positions):
            continue
        found = {name: np.zeros(LENGTH, batch[name].dtype) for name in names}
        for name in names:
            found[name][: len(positions)] = batch[name][row, positions]
        found |= {
            name: np.zeros(max_predictions, batch[name].dtype)
            for name in ("masked_positions", "masked_ids", "masked_weights")
        }
        slot = 0
        for column, position in enumerate(batch["masked_positions"][row]):
            if batch["masked_weights"][row, column] and position in positions:
                found["masked_positions"][slot] = position - positions[0]
                found["masked_ids"][slot] = batch["masked_ids"][row, column]
                found["masked_weights"][slot] = 1
                slot += 1
        rows.append(found)
    del names[names.index("window_number")]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def loss_and_gradient(learner, batch):
    batch = {name: tf.constant(values) for name, values in batch.items()}
    with tf.GradientTape() as tape:
        sequence = learner.encoder(batch, training=True)
        output = learner.objectives["masked_lm"](sequence, batch, training=True)
        total, weight = output.loss
    variables = learner.trainable_variables
    gradient = [
        tf.convert_to_tensor(part).numpy() for part in tape.gradient(total, variables)
    ]
    return float(total), float(weight), gradient


def test_loss_and_gradient_are_those_of_unpacked_rows(records_dir):
    config = run_config()
    inputs, packed = build_run(config, records_dir)
    assert packed.encoder.packed_windows
    _, plain = build_run(run_config(WindowInputsConfig), records_dir)
    assert not plain.encoder.packed_windows
    batch = {
        name: values.numpy()
        for name, values in next(iter(inputs.train_dataset(16))).items()
    }
    assert batch["window_number"].max() > 2
    rows = unpacked(batch, config.inputs.masking.max_predictions)
    assert len(rows["token_ids"]) > 20
    assert rows["masked_weights"].sum() == batch["masked_weights"].sum()

    for one, other in zip(packed.variables, plain.variables, strict=True):
        other.assign(one)
    total, weight, gradient = loss_and_gradient(packed, batch)
    expected_total, expected_weight, expected_gradient = loss_and_gradient(plain, rows)
    assert weight == expected_weight == batch["masked_weights"].sum()
    np.testing.assert_allclose(total, expected_total, rtol=1e-6)
    for variable, one, other in zip(
        plain.trainable_variables, gradient, expected_gradient, strict=True
    ):
        scale = np.abs(other).max()
        assert scale > 1e-3 or variable.path.endswith("key/bias"), variable.path
        np.testing.assert_allclose(
            one, other, rtol=1e-4, atol=1e-5 * max(scale, 1), err_msg=variable.path
        )
