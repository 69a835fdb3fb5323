"""Writes `run.html`, a self-contained page about a finished run.

The page compares the loss with two reference values, and shows predictions for masked
words and nearest neighbors of sentences in held-out text.
"""

import base64
import pathlib
import random
import string
import tempfile
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from seg_tf import files
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.data import examples, shards
from seg_tf.data.manifest import Manifest, shard_paths, vocabulary_path
from seg_tf.inference.masked_lm import MaskFiller
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.interop import model_card
from seg_tf.text import encoding
from seg_tf.text.vocabulary import MASK
from seg_tf.training.run_folder import VALIDATION, RunFolder, read_log

FILE_NAME = "run.html"
_NUM_SENTENCES, _NUM_MASKS, _NUM_QUERIES, _NUM_NEAREST = 500, 8, 4, 2
_MAX_RECORDS = 300
_LENGTHS = range(6, 31)  # Words of a sentence that is shown.


def write(
    folder: pathlib.Path, records: pathlib.Path, expected_loss: float, next_steps: str
) -> pathlib.Path:
    """Writes the page of a finished run to the run's folder, and returns the path.

    `expected_loss` is the loss that was predicted from the run's size and length.
    `next_steps` is the text that the run printed at its end.
    """
    pretrained = load_pretrained(folder)
    sentences, split = _sentences(records)
    chosen = random.Random(0).sample(sentences, min(_NUM_SENTENCES, len(sentences)))
    with tempfile.TemporaryDirectory() as card_folder:
        card = model_card.write_model_card(pretrained, pathlib.Path(card_folder))
        card_text = card.read_text(encoding="utf-8")
    template = pathlib.Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    page = string.Template(template).substitute(
        name=escape(folder.absolute().name),
        losses=_losses(read_log(RunFolder(folder).log_file), expected_loss),
        curve=base64.b64encode(RunFolder(folder).curve_file.read_bytes()).decode(),
        source=f"Sentences of the {split} text, as the model reads them.",
        masks=_masks(MaskFiller(pretrained), chosen),
        num_sentences=f"{len(chosen):,}",
        neighbours=_neighbours(SentenceEncoder(pretrained), chosen),
        next_steps=escape(next_steps.strip()),
        card=escape(card_text),
    )
    path = folder / FILE_NAME
    files.write_text(path, page)
    return path


def _sentences(records: pathlib.Path) -> tuple[list[str], str]:
    """Returns distinct sentences and the kind of their text, held-out or training."""
    manifest = Manifest.load(records)
    split = "validation" if manifest.count("records", "validation") else "train"
    reader = shards.RecordReader(shard_paths(manifest, records, split))
    path = vocabulary_path(manifest, records)
    tokens = encoding.read_vocabulary(manifest.tokenizer, path).tokens
    unique: dict[str, None] = {}
    for number in range(min(len(reader), _MAX_RECORDS)):
        tree, _, _ = examples.decode(reader[number], manifest.number_widths)
        for ids in np.split(tree.token_ids, np.cumsum(tree.sentence_lengths)[:-1]):
            text = " ".join(tokens[i] for i in ids).replace(" ##", "")
            if len(text.split()) in _LENGTHS:
                unique[text] = None
    return list(unique), "held-out" if split == "validation" else "training"


def _losses(log: Sequence[dict], expected: float) -> str:
    rows = [row for row in log if row["kind"] == VALIDATION] or [{}]
    values = {
        "validation loss at the end": rows[-1].get("loss"),
        "lowest, that of the checkpoint used here": min(
            (row["loss"] for row in rows if row), default=None
        ),
        "expected of this size, time and amount of text": expected,
        "of a model that ignores the context": rows[-1].get("loss_without_context"),
    }
    known = ((name, f"{v:.2f}") for name, v in values.items() if v is not None)
    return _table(("", "loss"), known)


def _masks(filler: MaskFiller, sentences: Iterable[str]) -> str:
    rows = []
    for words in map(str.split, sentences):
        half = range(len(words) // 2, len(words))
        place = max(half, key=lambda number: len(words[number]))
        if len(rows) < _NUM_MASKS and words[place].isalpha():
            masked = " ".join([*words[:place], MASK, *words[place + 1 :]])
            ((best, *_),) = filler.predict([masked], 3)
            guesses = (f"{escape(piece)} {value:.0%}" for piece, value in best)
            word = f"<mark>{escape(words[place])}</mark>"
            text = escape(masked).replace(MASK, word)
            rows.append((text, ", ".join(guesses)))
    if not rows:
        return "<p>There is no sentence of a suitable length.</p>"
    return _table(("sentence", "three most probable pieces"), rows)


def _neighbours(encoder: SentenceEncoder, sentences: Sequence[str]) -> str:
    if len(sentences) < 5 * _NUM_QUERIES:
        return "<p>There are too few sentences of a suitable length.</p>"
    vectors = np.asarray(encoder.encode(sentences))
    # The mean of all vectors says nothing about a sentence.
    vectors = vectors - vectors.mean(axis=0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    rows = []
    for query in range(min(_NUM_QUERIES, len(sentences))):
        cosines = vectors @ vectors[query]
        cosines[query] = -np.inf
        for number in np.argsort(-cosines)[:_NUM_NEAREST]:
            neighbour = f"{escape(sentences[number])} ({cosines[number]:.2f})"
            rows.append((escape(sentences[query]), neighbour))
    return _table(("sentence", "nearest (cosine)"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        return "".join(f"<{tag}>{cell}</{tag}>" for cell in cells)

    body = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in rows)
    return f"<table><tr>{line(head, 'th')}</tr>{body}</table>"
