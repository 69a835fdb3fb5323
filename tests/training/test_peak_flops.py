import pytest
import tensorflow as tf

from seg_tf.training import peak_flops
from seg_tf.training.peak_flops import find_peak, in_words, measure, peak_by_name


@pytest.mark.parametrize(
    "name, dtype, tera",
    [
        ("NVIDIA A100-SXM4-80GB", "bfloat16", 312),
        ("NVIDIA A100-PCIE-40GB", "float16", 312),
        ("NVIDIA A100 80GB PCIe", "float32", 156),
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989.4),
        ("NVIDIA H100 PCIe", "bfloat16", 756),
        ("NVIDIA H200", "float32", 494.7),
        ("Tesla V100-SXM2-16GB", "float16", 125),
        ("Tesla V100-SXM2-16GB", "float32", 15.7),  # no TensorFloat-32
        ("Tesla T4", "float16", 65),
        ("NVIDIA L4", "bfloat16", 121),
        ("NVIDIA L40S", "bfloat16", 362),
        ("NVIDIA GeForce RTX 3090", "float16", 71),
        ("NVIDIA RTX A6000", "float32", 77.4),
    ],
)
def test_known_gpus_have_the_peak_of_their_data_sheet(name, dtype, tera):
    peak = peak_by_name(name, dtype)
    assert peak.flops_per_second == tera * 1e12
    assert name in peak.source


def test_float32_without_tensor_float_32_is_slower():
    peak = peak_by_name("NVIDIA A100-SXM4-40GB", "float32", tensor_float_32=False)
    assert peak.flops_per_second == 19.5e12


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "float16"),
        ("NVIDIA GeForce RTX 3080 Ti", "float16"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "float16"),
        ("NVIDIA A10G", "float16"),
        ("Tesla T4", "bfloat16"),  # which it can only emulate
        ("NVIDIA A100-SXM4-80GB", "float64"),
        ("", "float32"),
    ],
)
def test_other_gpus_and_dtypes_are_not_guessed(name, dtype):
    assert peak_by_name(name, dtype) is None


def test_measurement_is_the_best_of_growing_products():
    now, sizes = 0.0, []

    def multiply(size, dtype):
        assert dtype == "bfloat16"

        def product():
            nonlocal now
            sizes.append(size)
            now += 2 * size**3 / (100e9 if sizes.count(size) == 4 else 50e9)

        return product

    assert measure("bfloat16", multiply, clock=lambda: now) == pytest.approx(100e9)
    # 2 * 1024³ FLOPs take 21 ms at 100 GFLOP/s, which is long enough.
    assert sorted(set(sizes)) == [256, 512, 1024]


def test_this_machine_can_be_measured():
    peak = find_peak("float32")
    assert 1e6 < peak.flops_per_second < 1e17
    assert "float32" in peak.source
    assert find_peak("float32") is peak  # measured once in a process


def test_unknown_gpu_is_measured_and_named(monkeypatch):
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [gpu])
    details = {"device_name": "NVIDIA X9000"}
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda device: details
    )
    monkeypatch.setattr(peak_flops, "measure", lambda dtype: 5e12)
    peak = find_peak.__wrapped__("float16")
    assert peak.flops_per_second == 5e12
    assert "NVIDIA X9000" in peak.source
    assert "no data sheet" in peak.source

    details["device_name"] = "NVIDIA L4"
    assert find_peak.__wrapped__("float16").flops_per_second == 121e12


def test_words_have_a_fitting_unit():
    assert in_words(989.4e12) == "989.4 TFLOP/s"
    assert in_words(7.9152e15) == "7.915 PFLOP/s"
    assert in_words(123.456e9) == "123.5 GFLOP/s"
    assert in_words(5e8) == "0.5 GFLOP/s"
