"""The models that come with the package: whole, small, and of use."""

import json
import pathlib
import re

import numpy as np
import pytest

import seg_tf
from seg_tf.checkpoints import contents, folders
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import find_sentences
from seg_tf.demo.demo_model import DemoModel
from tests import command_calls

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


def test_all_are_there():
    assert folders.included() == list(NAMES)


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


@pytest.mark.parametrize("name", NAMES)
def test_cosines_that_distinguish_nothing_are_warned_of(name, tmp_path, capsys):
    texts = [text.replace("[MASK]", answer) for text, answer in MASKED]
    (tmp_path / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    corpus = f"--corpus={tmp_path / 'text.txt'}"

    def find(vectors, *arguments):
        index = f"--index_dir={tmp_path / vectors}"
        arguments = (f"--checkpoint={name}", index, f"--vectors={vectors}", *arguments)
        command_calls.run(find_sentences, *arguments)
        return capsys.readouterr()

    # A warning would be an error.
    means = seg_tf.SentenceEncoder.from_preset(name).encode(texts)
    found = find("mean", corpus)
    assert re.search(r"20 sentences in .*; mean cosine of two: 0\.[678]", found.out)
    assert "Warning" not in found.err
    vectors = np.load(tmp_path / "mean" / "shard-00000" / "vectors.npy")
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, means, atol=1e-5)
    shown = DemoModel(load_pretrained(name)).neighbours("\n".join(texts))
    assert shown["warning"] is None

    if name != "segabert_slm_mini_en":
        with pytest.raises(ValueError, match=r"one of mean\. Received: 'sent'"):
            find("sent", corpus)
        return
    with pytest.warns(UserWarning, match=r"a cosine of 0\.9.* may well be unrelated"):
        seg_tf.SentenceEncoder.from_preset(name).encode(texts, vectors="sent")
    # Later queries warn, too.
    for arguments in ([corpus], ["--query=He was born in Rome."]):
        found = find("sent", *arguments)
        assert "; mean cosine of two: 0.9" in found.out
        assert "Warning: Any two of these vectors have a cosine of 0.9" in found.err
