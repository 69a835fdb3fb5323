"""Throughput against products counted one by one, scripted clocks and data sheets."""

import dataclasses
import math

import numpy as np
import psutil
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from seg_tf.training import build, throughput
from seg_tf.training.throughput import Throughput, peak_by_name
from tests.training import test_reat_run, test_sentence_unshuffling_run, word_runs
from tests.training.stand_ins import (
    VOCAB_SIZE,
    ArithmeticInputs,
    small_config,
)
from tests.worlds import NUM_WORDS

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


def count(config, inputs) -> float:
    """FLOPs of an update of `config`, from its first batch's forward pass."""
    learner = build.build_learner(config, inputs)
    batch = next(iter(inputs.train_dataset(4)))
    batch |= learner.encoder(batch)[1] if learner.memory.variables else {}
    counter = ProductCounter()
    op_callbacks.add_op_callback(counter)
    try:
        learner._forward(batch, True)
    finally:
        op_callbacks.remove_op_callback(counter)
    return 3 * counter.flops * config.training.batch_size / 4


@pytest.mark.parametrize("gated", [False, True])
def test_flops_of_an_encoder_with_masked_lm(gated):
    config = small_config()
    changes = {"trunk": "modern", "gated": True, "dropout": 0.0} if gated else {}
    model = dataclasses.replace(config.model, num_layers=3, num_heads=4, **changes)
    config = dataclasses.replace(config, model=model)
    expected = count(config, ArithmeticInputs())
    assert throughput.flops_per_update(config, VOCAB_SIZE) == expected


def test_flops_of_sentence_unshuffling_and_reat(sentence_records, text_records):
    for config, folder in (
        (test_sentence_unshuffling_run.CONFIG, sentence_records),
        (test_reat_run.CONFIG, text_records),
    ):
        inputs = build.build_inputs(config, str(folder))
        expected = count(config, inputs)
        assert throughput.flops_per_update(config, inputs.vocab_size) == expected


@pytest.mark.parametrize("cutoffs", [(), (10, 30)])
def test_flops_of_a_transformer_xl(word_records, cutoffs):
    model = dataclasses.replace(
        word_runs.CONFIG.model, position_parts=("token",), cutoffs=cutoffs
    )
    config = dataclasses.replace(word_runs.CONFIG, model=model)
    inputs = build.build_inputs(config, str(word_records))
    # Vectors of positions, computed once for a micro-batch, are left out; the text is
    # not distributed as Zipf has it.
    expected = count(config, inputs)
    flops = throughput.flops_per_update(config, NUM_WORDS)
    assert flops == pytest.approx(expected, rel=0.15)


def test_peaks_are_never_guessed():
    assert peak_by_name("NVIDIA A100-SXM4-80GB", "bfloat16") > 1e14
    for name, dtype in (
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "float16"),
        ("Tesla T4", "bfloat16"),  # which it can only emulate
    ):
        assert peak_by_name(name, dtype) is None


def test_speed_and_data_wait_leave_out_the_first_update_and_pauses():
    seconds = [0.0]
    speed = Throughput(flops_per_update=600, peak=400.0, clock=lambda: seconds[0])

    def batches():
        for wait in (50, 3, 1, 1, 2, 2):
            seconds[0] += wait
            yield

    iterator, figures = batches(), {}
    for updates in range(1, 7):
        speed.next_of(iterator)
        seconds[0] += 1  # an update
        speed.update_done(updates, lambda updates=updates: 4 * updates)
        if updates % 2 == 0:
            figures[updates] = speed.interval(updates, 4 * updates)
        if updates == 4:
            with speed.paused():  # a validation
                seconds[0] += 60
    # The first update, which builds the graph, is not in its interval.
    assert figures[2]["model_flops_utilization"] == 600 / (3 + 1) / 400
    for updates, wait in ((4, 2), (6, 4)):
        assert figures[updates]["tokens_per_second"] == 2 * 4 / (2 + wait)
        utilization = 2 * 600 / (2 + wait) / 400
        assert figures[updates]["model_flops_utilization"] == utilization
        assert figures[updates]["data_wait_share"] == wait / (2 + wait)


def test_host_memory_is_that_of_this_process():
    before = throughput.memory_use()
    held = np.ones(2**25)  # a quarter of a GiB
    during = throughput.memory_use()
    assert during["host_memory_bytes"] > before["host_memory_bytes"] + held.nbytes / 2
    assert during["host_memory_bytes"] <= psutil.virtual_memory().total
    del held
    after = throughput.memory_use()
    assert after["host_memory_bytes"] < during["host_memory_bytes"] - 2**27
    assert after["host_memory_peak_bytes"] > during["host_memory_bytes"] - 2**27
    assert not any(name.startswith("gpu") for name in after)
