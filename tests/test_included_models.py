"""The models that come with the package: whole, small, and of use."""

import json
import pathlib

import numpy as np
import pytest

import seg_tf
from seg_tf.checkpoints import contents, folders

pytestmark = pytest.mark.slow

NAMES = ("bert_mini_en", "segabert_mini_en", "segabert_slm_mini_en")
LARGEST = 12 * 2**20
# Sentences of our own; the five most frequent pieces would fill two of the masks.
MASKED = (
    ("It is one of the [MASK] important cities in the country.", "most"),
    ("He was born [MASK] London in 1850.", "in"),
    ("She had never [MASK] him before.", "seen"),
    ("They did [MASK] know what to do.", "not"),
    ("The town is larger [MASK] the village.", "than"),
    ("He had been dead for many [MASK].", "years"),
    ("He lives in the United [MASK] of America.", "states"),
    ("He took his hat as well [MASK] his coat.", "as"),
    ("She opened the [MASK] and went into the house.", "door"),
    ("He was the son [MASK] a king.", "of"),
    ("Do you know who [MASK] are?", "you"),
    ("The first of [MASK] books was written in 1901.", "his"),
    ("I do not [MASK] what you mean.", "know"),
    ("There is no doubt [MASK] it is true.", "that"),
    ("He looked at her and she looked at [MASK].", "him"),
    ("It was the [MASK] time that he had seen it.", "first"),
    ("She told him that [MASK] had been there.", "she"),
    ("The war ended after the [MASK] World War.", "second"),
    ("He went from one place to [MASK].", "another"),
    ("The two brothers loved each [MASK].", "other"),
)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_whole_and_small(name):
    folder = folders.find_checkpoint(pathlib.Path(name))
    state = folders.read(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LARGEST
    card = (folder / "README.md").read_text(encoding="utf-8")
    for section in ("Licence", "How it was made", "Training data", "Scores"):
        assert f"\n## {section}\n" in card
    assert state["checksums"][contents.ENCODER_FILE] in card
    # At BERT's 3e-5 so small a model hardly learns.
    assert state["finetuning_learning_rate"] == 5e-4
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    log = [json.loads(line) for line in lines]
    last = [line for line in log if line["kind"] == "validation"][-1]
    assert last["updates"] == state["updates"]
    assert last["loss"] == state["validation"]["loss"]


@pytest.mark.parametrize("name", NAMES)
def test_masks_are_filled_with_what_fits(name):
    filler = seg_tf.MaskFiller.from_preset(name)
    fillings = filler.predict([text for text, _ in MASKED], num_best=5)
    fits = [
        answer in [one.piece for one in best]
        for (_, answer), (best,) in zip(MASKED, fillings, strict=True)
    ]
    assert np.sum(fits) >= 13
