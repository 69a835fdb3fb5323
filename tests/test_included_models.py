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
# Sentences of our own, each after what its mask hides; the five most frequent pieces
# would fill two of them.
FILE = pathlib.Path(__file__).parents[1] / "examples" / "masked_sentences.tsv"
MASKED = [line.split("\t") for line in FILE.read_text().splitlines()]


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
    fillings = filler.predict([text for _, text in MASKED], num_best=5)
    fits = [
        answer in [one.piece for one in best]
        for (answer, _), (best,) in zip(MASKED, fillings, strict=True)
    ]
    assert np.sum(fits) >= 19
