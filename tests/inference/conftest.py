"""The tiny SLM, loaded."""

import pytest

from seg_tf.checkpoints.pretrained import load_pretrained


@pytest.fixture(scope="session")
def pretrained(run_dir):
    return load_pretrained(run_dir)
