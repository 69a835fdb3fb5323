"""The tiny SLM that the tests of this folder use."""

import pytest

from seg_tf.training.pretrained import load_pretrained
from tests.inference import tiny_slm


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    return tiny_slm.write_checkpoint(tmp_path_factory.mktemp("slm"))


@pytest.fixture(scope="session")
def pretrained(run_dir):
    return load_pretrained(run_dir)
