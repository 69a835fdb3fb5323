"""Settings that precede the import of test modules, seeds, and worlds."""

import gc
import os
import pathlib
import random
import sys
from collections.abc import Iterator

# Read when TensorFlow is imported. tf-models-official, an oracle of some tests, needs
# the Keras of its time; our own code imports `keras` and does not see the difference.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"
# There is a worker for each core, which more threads would only slow down.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
# Programs run a few times: most of the time would go into optimizing machine code.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false",
)

import numpy as np
import pytest

pytest_plugins = ["tests.forked_files", "tests.worlds"]

# The longest files, started first so that workers end together.
_LONGEST = (
    "test_distributed_runs.py",
    "training/test_jax_engine.py",
    "conformance/test_conformance.py",
    "training/test_horovod.py",
    "test_run_pretraining.py",
    "finetuning/test_text_classifier.py",
    "test_run_finetuning.py",
    "training/test_leaks.py",
    "test_examples.py",
    "training/test_lane_memory.py",
    "data_pipelines/test_buckets.py",
    "training/test_pretraining.py",
    "inference/test_sentence_encoder.py",
    "data_pipelines/test_interrupted_builds.py",
    "export/test_served_models.py",
    "export/test_onnx_file.py",
    "finetuning/test_squad.py",
    "test_installation.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the tests of long files before those of others."""
    folder = pathlib.Path(__file__).parent
    place = {folder / name: number for number, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepares tables of all characters, which the processes of all files share.

    The garbage collector ignores imported objects and runs rarely: traced graphs are
    millions of objects and little garbage.
    """
    if hasattr(session.config, "workerinput") and "tensorflow" in sys.modules:
        from seg_tf.text.graph import punkt, word_pieces
        from seg_tf.text.normalization import CASED, UNCASED

        for normalization in (UNCASED, CASED):
            word_pieces.normalized_characters(normalization)
        punkt.character_flags()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """The same random weights whichever tests run, and in whichever order."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what Keras and others draw from
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """What a command sets in this process does not reach other tests."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)
    if "tensorflow" in sys.modules:
        # There is no public way back from `enable_op_determinism`.
        from tensorflow.python.framework import config

        if config.is_op_determinism_enabled():
            config.disable_op_determinism()


@pytest.fixture(scope="module", autouse=True)
def _graphs(request: pytest.FixtureRequest) -> None:
    """Graphs are executed as traced, except in modules with `REWRITE_GRAPHS`.

    Rewriting a graph takes longer than a test's few executions of it gain. In modules
    with `EAGER`, whose subject is not the graph, nothing but datasets is traced.
    """
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        disabled = not getattr(request.module, "REWRITE_GRAPHS", False)
        options = {"disable_meta_optimizer": disabled}
        tf.config.optimizer.set_experimental_options(options)
        tf.config.run_functions_eagerly(getattr(request.module, "EAGER", False))


@pytest.fixture
def traced(request: pytest.FixtureRequest) -> Iterator[None]:
    """Functions are traced, as users have it, in a module with `EAGER` too."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(getattr(request.module, "EAGER", False))


@pytest.fixture(scope="session", autouse=True)
def _child_processes() -> None:
    """Python processes that tests start import less."""
    folders = [os.path.join(os.path.dirname(__file__), "child_processes")]
    if "PYTHONPATH" in os.environ:
        folders.append(os.environ["PYTHONPATH"])
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
