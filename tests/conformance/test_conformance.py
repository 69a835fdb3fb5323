"""The same properties for every public layer, model and objective."""

import importlib
import json
import pathlib
import pkgutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf import layers, models, objectives
from seg_tf.layers.transformer import TransformerLayer
from seg_tf.objectives.base import ObjectiveLayer
from tests import command_calls
from tests.conformance import jax_process
from tests.conformance.case import squares
from tests.conformance.cases import CASES, COMPILED

pytestmark = pytest.mark.slow
REWRITE_GRAPHS = True

# Outputs of each case, rounded, when it was first written.
GOLDEN = json.loads(pathlib.Path(__file__).with_name("golden.json").read_bytes())

each_case = pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in CASES]
)


def assert_close(actual, expected, **tolerance):
    """Compares nested outputs leaf by leaf."""
    actual, expected = keras.tree.flatten(actual), keras.tree.flatten(expected)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(
            np.asarray(one, "float64"), np.asarray(other, "float64"), **tolerance
        )


def assert_gradients_close(actual, expected, name=""):
    """Compares lists of gradients."""
    for one, other in zip(actual, expected, strict=True):
        # Rounding errors grow with the gradient: with the largest entry, since an
        # entry near zero is a difference of large ones.
        size = max(1.0, float(np.max(np.abs(other))))
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * size, err_msg=name)


def outputs_and_gradients(case, layer, inputs):
    """Outputs on TensorFlow, and the gradients of the sum of their squares."""
    with tf.GradientTape() as tape:
        outputs = keras.tree.flatten(case.apply(layer, inputs))
        total = squares(outputs)
    weights = [weight.value for weight in layer.trainable_weights]
    gradients = tape.gradient(total, weights, unconnected_gradients="zero")
    return outputs, [tf.convert_to_tensor(gradient) for gradient in gradients]


_BUILT = {}


def built(case, dtype=None):
    """The layer that `case.build` makes, one for all tests, which only call it."""
    key = case.name, dtype
    if key not in _BUILT:
        _BUILT[key] = case.build(dtype)
    return _BUILT[key]


_COMPUTED = {}


def on_tensorflow(case):
    """Inputs of a batch of 3, and its outputs and gradients, computed once."""
    if case.name not in _COMPUTED:
        tensors = {
            name: tf.constant(value) for name, value in case.inputs(batch=3).items()
        }
        computed = outputs_and_gradients(case, built(case), tensors)
        _COMPUTED[case.name] = tensors, *computed
    return _COMPUTED[case.name]


def plain(value):
    """A constructor argument as `get_config` stores it."""
    if hasattr(value, "get_config"):
        return keras.saving.serialize_keras_object(value)
    return value


def public_layers():
    """Every layer class that a public module of the three packages defines."""
    found = set()
    for package in (layers, models, objectives):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            found |= {
                value
                for name, value in vars(module).items()
                if isinstance(value, type)
                and issubclass(value, keras.layers.Layer)
                and value.__module__ == info.name
                and not name.startswith("_")
            }
    return found


def test_no_public_layer_is_missing_from_the_list():
    bases = {ObjectiveLayer, TransformerLayer}
    exported = {
        getattr(package, name)
        for package in (layers, models, objectives)
        for name in package.__all__
    }
    assert {case.cls for case in CASES} == exported == public_layers() - bases


@each_case
def test_golden_values(case):
    layer, inputs = built(case), case.inputs(batch=2, length=3)
    for outputs in (case.reference(layer, inputs), case.apply(layer, inputs)):
        found = list(map(np.asarray, keras.tree.flatten(outputs)))
        entry = json.dumps({case.name: [output.tolist() for output in found]})
        assert case.name in GOLDEN, f"golden.json needs the entry {entry}"
        for output, golden in zip(found, GOLDEN[case.name], strict=True):
            np.testing.assert_allclose(output, golden, rtol=1e-7, atol=1e-5)


@each_case
def test_saved_file_gives_the_same_layer(case, tmp_path):
    if case.saved_within:
        pytest.skip(f"saved within a {case.saved_within}, which has a case of its own")
    arguments = case.make_arguments()
    layer = built(case)
    inputs, outputs, _ = on_tensorflow(case)
    model = case.model(layer)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(inputs), outputs, atol=1e-6)
    (restored,) = [one for one in loaded.layers if isinstance(one, case.cls)]
    assert restored is not layer
    config = restored.get_config()
    for name, value in arguments.items():
        # Compared above; here they have names or a state of their own.
        if name not in ("encoder", "embedding"):
            assert config[name] == plain(value), name


@each_case
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision_is_close_to_float32(case, dtype):
    layer = built(case, f"mixed_{dtype}")
    inputs, exact, _ = on_tensorflow(case)
    outputs = keras.tree.flatten(case.apply(layer, inputs))
    is_float32 = case.float32_output or case.is_objective
    expected = "float32" if is_float32 else dtype
    assert {output.dtype.name for output in outputs} == {expected}
    assert {weight.dtype for weight in layer.trainable_weights} <= {"float32"}
    # TensorFlow keeps int32 variables on the host, where compiled code cannot read.
    assert "int32" not in {variable.dtype for variable in layer.variables}
    precision = {"float16": 5e-3, "bfloat16": 4e-2}[dtype]
    assert_close(outputs, exact, rtol=precision, atol=precision)


@each_case
def test_compiled_outputs_and_gradients_equal_eager(case):
    layer = built(case)
    tensors, eager_outputs, eager_gradients = on_tensorflow(case)

    def compute(inputs):
        return outputs_and_gradients(case, layer, inputs)

    assert any(map(np.any, eager_gradients)) == bool(layer.trainable_weights)
    plain = tf.function(compute, autograph=False).get_concrete_function(tensors)
    compiled = tf.function(lambda one: plain(one), autograph=False, jit_compile=True)
    for run in (plain, compiled) if not case.compiled_within else (plain,):
        outputs, gradients = run(tensors)
        assert_close(outputs, eager_outputs, atol=1e-5)
        assert_gradients_close(gradients, eager_gradients)


def assert_unbiased(share, ratio):
    """Makes sure that what `jax_process.dropped` found is within 4 standard errors."""
    error = 4 * np.sqrt(0.1 * 0.9 / 2**22)  # of a binomial share
    assert abs(share - 0.1) < error
    # Each input is scaled by 1 / 0.9 or dropped; they differ by up to a factor of 2.
    assert abs(ratio - 1) < error / 0.9 * np.sqrt(28 / 27)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dropout_is_unbiased(dtype):
    assert_unbiased(*jax_process.dropped(dtype))


@pytest.fixture(scope="module")
def on_jax(tmp_path_factory):
    """The folder of archives that a process on JAX wrote."""
    folder = tmp_path_factory.mktemp("on_jax")
    command_calls.run_on_jax("tests.conformance.jax_process", folder)
    return folder


def test_recomputed_layers_give_the_same_on_jax(on_jax):
    with np.load(on_jax / "recomputed.npz") as archive:
        arrays = dict(archive)
    assert [arrays.pop(f"{one}/checkpoints") for one in (False, True)] == [0, 2]
    plain, recomputed = (
        [value for name, value in arrays.items() if name.startswith(str(one))]
        for one in (False, True)
    )
    assert_gradients_close(recomputed, plain)


def test_outputs_and_gradients_on_jax_equal_those_on_tensorflow(on_jax):
    with np.load(on_jax / "computed.npz") as computed:
        for dtype in ("float16", "bfloat16"):
            assert_unbiased(*computed[f"dropped/{dtype}"])
        for case in COMPILED:
            _, outputs, gradients = on_tensorflow(case)
            found = jax_process.of_kind(computed, case, "outputs")
            assert_close(found, outputs, atol=1e-5, err_msg=case.name)
            found = jax_process.of_kind(computed, case, "gradients")
            assert_gradients_close(found, gradients, case.name)


@each_case
def test_rows_of_a_batch_do_not_meet(case):
    layer = built(case)
    inputs, outputs, _ = on_tensorflow(case)
    rows = [
        case.apply(
            layer, {name: value[row : row + 1] for name, value in inputs.items()}
        )
        for row in range(3)
    ]
    join = np.sum if case.is_objective else np.concatenate
    joined = keras.tree.map_structure(
        lambda *parts: join([np.asarray(part) for part in parts], axis=0), *rows
    )
    assert_close(joined, outputs, atol=1e-5)


@each_case
def test_one_trace_serves_every_batch_and_length(case):
    layer = built(case)
    signature = {
        name: tf.TensorSpec((None, *shape), dtype)
        for name, (shape, dtype) in case.specs.items()
    }
    serve = tf.function(
        lambda inputs: keras.tree.flatten(case.apply(layer, inputs)),
        input_signature=[signature],
        autograph=False,
    )
    for batch, length in ((1, 3), (4, 5)):
        inputs = case.inputs(batch, length)
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        assert_close(serve(tensors), case.apply(layer, inputs), atol=1e-6)
    assert serve.experimental_get_tracing_count() == 1
