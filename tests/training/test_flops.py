"""FLOPs of a config against those of the products that its model computes.

The independent count listens to every operation that TensorFlow runs eagerly and reads
the sizes of its products from the arrays themselves.
"""

import contextlib
import dataclasses
import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from seg_tf import configuration
from seg_tf.training import flops, pretraining
from tests.training import (
    test_reat_run,
    test_sentence_unshuffling_run,
    word_runs,
)
from tests.training.stand_ins import VOCAB_SIZE, ArithmeticInputs, small_config

pytestmark = pytest.mark.slow


class ProductCounter:
    """FLOPs of the matrix products that were run while it listened."""

    def __init__(self):
        self.flops = 0

    def __call__(
        self, op_type, inputs, attrs, outputs, op_name=None, graph=None
    ) -> None:
        op_type = tf.compat.as_str(op_type)
        named = dict(zip(attrs[::2], attrs[1::2], strict=True))
        if op_type == "Einsum":
            self.flops += 2 * self._einsum_size(
                inputs, tf.compat.as_str(named["equation"])
            )
        elif op_type in ("MatMul", "BatchMatMulV2", "BatchMatMul", "BatchMatMulV3"):
            transposed = named.get("transpose_a", named.get("adj_x", False))
            inner = inputs[0].shape[-2 if transposed else -1]
            self.flops += 2 * math.prod(outputs[0].shape) * inner
        else:
            assert "MatMul" not in op_type
            assert "Conv" not in op_type

    @staticmethod
    def _einsum_size(inputs, equation) -> int:
        terms = equation.split("->")[0].split(",")
        sizes = {
            label: size
            for term, operand in zip(terms, inputs, strict=True)
            for label, size in zip(term, operand.shape, strict=True)
        }
        return math.prod(sizes.values()) if len(terms) == 2 else 0


@contextlib.contextmanager
def count_products():
    counter = ProductCounter()
    op_callbacks.add_op_callback(counter)
    try:
        yield counter
    finally:
        op_callbacks.remove_op_callback(counter)


def counted(pretrainer, batch) -> int:
    """FLOPs of the forward pass of a batch in training."""
    with count_products() as counter:
        pretrainer._forward(batch, True)
    return counter.flops


def from_config(config, vocab_size, num_rows, stream=None) -> int:
    return flops.forward_flops(config, vocab_size, num_rows, stream)


def changed(config, **parts):
    """The config with other values of fields of its parts."""
    return dataclasses.replace(
        config,
        **{
            name: dataclasses.replace(getattr(config, name), **values)
            for name, values in parts.items()
        },
    )


@pytest.mark.parametrize(
    "model",
    [
        pytest.param({}, id="one layer"),
        pytest.param({"num_layers": 3, "num_heads": 4}, id="three layers"),
        pytest.param({"hidden_size": 12, "intermediate_size": 7}, id="other widths"),
    ],
)
def test_encoder_with_masked_lm(model):
    config = changed(small_config(), model=model)
    inputs = ArithmeticInputs()
    pretrainer = pretraining.build_pretrainer(config, inputs)
    batch = next(iter(inputs.train_dataset(5)))
    assert counted(pretrainer, batch) == from_config(config, VOCAB_SIZE, 5)


@pytest.fixture(name="sentence_records", scope="module")
def _sentence_records(tmp_path_factory):
    return test_sentence_unshuffling_run.write_records(
        tmp_path_factory.mktemp("sentences")
    )


@pytest.mark.parametrize("num_layers", [1, 2])
def test_sentence_unshuffling(sentence_records, num_layers):
    config = dataclasses.replace(
        test_sentence_unshuffling_run.CONFIG,
        objectives={
            "masked_lm": configuration.MaskedLMConfig(),
            "sentence_unshuffling": configuration.SentenceUnshufflingConfig(
                num_layers=num_layers
            ),
        },
    )
    inputs = pretraining.build_inputs(config, str(sentence_records))
    pretrainer = pretraining.build_pretrainer(config, inputs)
    batch = next(iter(inputs.train_dataset(6)))
    expected = counted(pretrainer, batch)
    assert expected == from_config(config, inputs.vocab_size, 6)


def test_reat(sentence_records, tmp_path):
    config = changed(
        test_reat_run.CONFIG, model={"num_sentence_layers": 2, "num_alpha_layers": 3}
    )
    test_reat_run.write_records(sentence_records, tmp_path)
    inputs = pretraining.build_inputs(config, str(tmp_path))
    pretrainer = pretraining.build_pretrainer(config, inputs)
    batch = next(iter(inputs.train_dataset(3)))
    expected = counted(pretrainer, batch)
    assert expected == from_config(config, inputs.vocab_size, 3)


@pytest.fixture(name="word_records", scope="module")
def _word_records(tmp_path_factory):
    return word_runs.write_records(tmp_path_factory.mktemp("words"))


def words_with_memory(config, records_dir):
    """A pretrainer, its inputs and its second batch, which has a memory."""
    inputs = pretraining.build_inputs(config, str(records_dir))
    pretrainer = pretraining.build_pretrainer(config, inputs)
    first, second = inputs.train_dataset(config.training.batch_size).take(2)
    _, memory = pretrainer.encode(first)
    return inputs, pretrainer, {**second, **memory}


def tail_shares_of(encoder, batch) -> tuple[float, ...]:
    limits = (*encoder.cutoffs, encoder.vocab_size)
    targets = batch["target_ids"].numpy()
    return tuple(
        float(np.mean((targets >= begin) & (targets < end)))
        for begin, end in itertools.pairwise(limits)
    )


def statistics_of(pretrainer, batch) -> flops.StreamStatistics:
    """Runs, distances and shares of the tails of a batch."""
    encoder = pretrainer.encoder
    indices = np.stack(
        [batch[f"stream_{part}"] for part in ("token", "sentence", "paragraph")], -1
    )
    positions, _ = encoder.relative_positions(indices, batch["memory_indices"])
    parts = [part for part in encoder.position_parts if part != "token"]
    return flops.StreamStatistics(
        runs=positions.runs_of_keys.shape[1] if parts else 0,
        distances={
            part: vectors.shape[0]
            for part, vectors in zip(parts, positions.segment_vectors, strict=True)
        },
        tail_shares=tail_shares_of(encoder, batch),
    )


@pytest.mark.parametrize(
    "model",
    [
        pytest.param({}, id="narrower tails"),
        pytest.param({"tail_divisor": 1}, id="nothing projected"),
        pytest.param({"tail_divisor": 1, "embedding_size": 6}, id="one projection"),
        pytest.param({"position_parts": ("token",)}, id="Transformer-XL"),
        pytest.param({"position_parts": ("token", "sentence")}, id="no paragraphs"),
        pytest.param({"cutoffs": (), "num_layers": 3}, id="plain softmax"),
    ],
)
def test_transformer_xl(word_records, model):
    config = changed(word_runs.CONFIG, model=model)
    _, pretrainer, batch = words_with_memory(config, word_records)
    stream = statistics_of(pretrainer, batch)
    expected = counted(pretrainer, batch)
    assert expected == from_config(config, word_runs.VOCAB_SIZE, 4, stream)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"training": {"jit_compile": True}}, id="static shapes"),
        pytest.param(
            {
                "training": {"jit_compile": True},
                "model": {"position_parts": ("token",)},
            },
            id="static Transformer-XL",
        ),
    ],
)
def test_transformer_xl_of_static_shapes_costs_the_same_for_any_text(
    word_records, parts
):
    config = changed(word_runs.CONFIG, **parts)
    _, pretrainer, batch = words_with_memory(config, word_records)
    expected = counted(pretrainer, batch)
    assert expected == from_config(config, word_runs.VOCAB_SIZE, 4)


def test_released_positions(word_records):
    config = changed(word_runs.CONFIG, model={"position_form": "released"})
    _, pretrainer, batch = words_with_memory(config, word_records)
    shares = tail_shares_of(pretrainer.encoder, batch)
    stream = flops.StreamStatistics(runs=0, distances={}, tail_shares=shares)
    expected = counted(pretrainer, batch)
    assert expected == from_config(config, word_runs.VOCAB_SIZE, 4, stream)


def test_update_is_forward_and_backward_of_the_whole_batch(word_records):
    config = word_runs.CONFIG  # 4 rows in micro-batches of 2
    one = flops.flops_per_update(config, word_runs.VOCAB_SIZE)
    of_two_rows = from_config(config, word_runs.VOCAB_SIZE, 2)
    assert one == pytest.approx(3 * 2 * of_two_rows, abs=6)  # each is rounded
    # Position vectors are made once for what is computed at once.
    whole = changed(config, training={"micro_batch_size": None})
    assert flops.flops_per_update(whole, word_runs.VOCAB_SIZE) < one
    four = flops.flops_per_update(whole, word_runs.VOCAB_SIZE, num_processes=4)
    of_one_row = from_config(config, word_runs.VOCAB_SIZE, 1)
    assert four == pytest.approx(3 * 4 * of_one_row, abs=12)


HELD = {"attention_dropout": 0.1}
FUSED = {"attention_dropout": 0.0}


@pytest.mark.parametrize(
    "model, recompute_layers",
    [
        pytest.param(HELD, False, id="all held"),
        pytest.param(FUSED, False, id="no attention weights held"),
        pytest.param(HELD, True, id="layers recomputed"),
        pytest.param(FUSED, True, id="both"),
    ],
)
def test_backward_pass_is_two_products_for_each_of_the_forward_pass(
    model, recompute_layers
):
    training = {"recompute_layers": recompute_layers}
    config = changed(small_config(), model=model, training=training)
    inputs = ArithmeticInputs()
    pretrainer = pretraining.build_pretrainer(config, inputs)
    batch = next(iter(inputs.train_dataset(4)))
    with count_products() as counter, tf.GradientTape() as tape:
        results, _ = pretrainer._forward(batch, True)
        loss = results["masked_lm"].loss[0]
        gradients = tape.gradient(loss, pretrainer.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    of_model = flops.flops_per_update(config, VOCAB_SIZE)
    again = flops.recomputed_flops_per_update(config, VOCAB_SIZE)
    assert counter.flops == of_model + again
    assert of_model == flops.flops_per_update(small_config(), VOCAB_SIZE)
    assert bool(again) == (model is FUSED or recompute_layers)


def test_vocabulary_of_the_config_comes_before_that_of_the_records():
    config = changed(small_config(), model={"vocab_size": VOCAB_SIZE})
    assert from_config(config, 7, 1) == from_config(small_config(), VOCAB_SIZE, 1)


def test_bert_base_costs_about_six_times_its_weights_for_each_token():
    """Kaplan et al., 2020, section 2.1; attention over 512 positions adds 10 %."""
    config = configuration.RunConfig(name="bert", paper="bert_base")
    weights = 12 * (4 * 768**2 + 2 * 768 * 3072)
    tokens = config.training.batch_size * 512
    found = flops.flops_per_update(config, 30_522) / (6 * weights * tokens)
    assert 1.1 < found < 1.2


def test_typical_text_is_close_to_a_word_vocabulary():
    """About a fifth of the words of English are none of the 4,096 most frequent."""
    config = changed(word_runs.CONFIG, model={"cutoffs": (4_096, 16_384)})
    stream = flops.typical_stream(config, 32_768)
    assert 0.15 < sum(stream.tail_shares) < 0.25
    assert stream.distances["paragraph"] < stream.distances["sentence"] == stream.runs


def test_model_of_no_known_cost_is_refused():
    @dataclasses.dataclass(frozen=True)
    class OtherConfig:
        implementation: ClassVar[str] = "some.module:Model"
        vocab_size: int = 5

    config = dataclasses.replace(small_config(), model=OtherConfig())
    with pytest.raises(ValueError, match=r"`config.model`.*OtherConfig"):
        flops.flops_per_update(config, VOCAB_SIZE)
