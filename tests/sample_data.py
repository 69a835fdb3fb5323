"""Where the real text for tests lies, and the skip where it does not."""

import os
import pathlib

import pytest

from seg_tf.text.vocabulary import Vocabulary

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def sample_data(*parts: str) -> pathlib.Path:
    """Path below the sample-data folder; skips the test where it is absent."""
    default = _REPOSITORY.parent / "shared" / "data"
    path = pathlib.Path(os.environ.get("SEG_TF_DATA", default)).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"sample data not found: {path} (set SEG_TF_DATA)")
    return path


def released_vocabulary() -> Vocabulary:
    """The vocabulary of BERT's uncased models."""
    path = sample_data("bert_vocab", "bert-base-uncased-vocab.txt")
    return Vocabulary.from_file(path)
