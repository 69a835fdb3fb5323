"""Text as a stream of words, cut into segments as those that training reads.

Shape key: n words of the text, B lanes, L target length.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seg_tf.inference import texts
from seg_tf.text.tree import DocumentTree

if TYPE_CHECKING:
    from seg_tf.inference.language_model import LanguageModel

# Of an article; headings of its sections have more signs, ` = = Heading = = `.
_TITLE = re.compile(r"= (?!=).*(?<!=) =")


@dataclasses.dataclass(frozen=True, eq=False)
class WordText:
    """Words with what they belong to, counted through.

    Attributes:
        token_ids: int32 array `(n,)`.
        sentences: int64 array `(n,)`, which sentence, from 0.
        paragraphs: int64 array `(n,)`, which paragraph, from 0.
        num_lines: lines that the words come from.
        num_standard_tokens: words between white space, and an `<eos>` for every line,
            blank ones too: the count that perplexities of WikiText are over. None
            where a file has no titles of WikiText.
    """

    token_ids: np.ndarray
    sentences: np.ndarray
    paragraphs: np.ndarray
    num_lines: int
    num_standard_tokens: int | None

    @property
    def num_blank_lines(self) -> int:
        """Lines without a word, which are no paragraphs."""
        return self.num_lines - _count(self.paragraphs)


def read_text(sources: Mapping[str, pathlib.Path], model: LanguageModel) -> WordText:
    """Reads the words of files, one file after the other, each line a paragraph.

    An `<eos>` follows every line that has words; it belongs to the last sentence.

    Args:
        sources: name -> file.
        model: what says what words and sentences are.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if one is not UTF-8, naming it and the line.
    """
    lines, is_wikitext = [], True
    for path in sources.values():
        with open(path, "rb") as file:
            of_file = list(texts.decoded(file, str(path)))
        lines += of_file
        is_wikitext = is_wikitext and _has_titles(of_file)
    num_standard_tokens = len(lines) + sum(len(line.split()) for line in lines)
    tree = model.tree(list(filter(None, map(str.strip, lines))))
    tree = tree.with_paragraph_ends(model.vocabulary.eos_id)
    sentences, paragraphs = counters(tree)
    return WordText(
        token_ids=tree.token_ids.astype(np.int32),
        sentences=sentences,
        paragraphs=paragraphs,
        num_lines=len(lines),
        num_standard_tokens=num_standard_tokens if is_wikitext else None,
    )


def _has_titles(lines: Sequence[str]) -> bool:
    """Tells whether a line among blank ones is a title of WikiText, ` = Title = `."""
    stripped = ["", *(line.strip() for line in lines), ""]
    return any(
        _TITLE.fullmatch(line) and not before and not after
        for before, line, after in zip(
            stripped, stripped[1:], stripped[2:], strict=False
        )
    )


def counters(tree: DocumentTree) -> tuple[np.ndarray, np.ndarray]:
    """Sentence and paragraph of every word, counted through from 0: int64 `(n,)`."""
    sentences = np.arange(len(tree.sentence_lengths))
    paragraphs = np.arange(len(tree.paragraph_lengths))
    return (
        np.repeat(sentences, tree.sentence_lengths),
        np.repeat(np.repeat(paragraphs, tree.paragraph_lengths), tree.sentence_lengths),
    )


def segments(
    text: WordText, num_lanes: int, target_length: int
) -> Iterator[dict[str, np.ndarray]]:
    """The text in lanes side by side, a batch for every time step.

    Every word but the first is to be predicted, by one lane. The last segments are
    filled up as in validation: with no word to predict, while counters go on over the
    beginning of the text.

    Args:
        text: what is read.
        num_lanes: B.
        target_length: L.

    Returns:
        Batches `{feature name: array (B, L)}`.

    Raises:
        ValueError: if there are fewer words to predict than lanes.
    """
    num_words = len(text.token_ids)
    check_lanes(num_words, num_lanes)
    lane_length = -(-(num_words - 1) // num_lanes)
    first_words_B1 = np.arange(num_lanes)[:, None] * lane_length

    def segment(begin: int) -> dict[str, np.ndarray]:
        in_lane_L = np.arange(begin, begin + target_length)
        places_BL = first_words_B1 + in_lane_L
        is_target_BL = (in_lane_L < lane_length) & (places_BL < num_words - 1)
        return _features(text, places_BL, is_target_BL)

    return map(segment, range(0, lane_length, target_length))


def check_lanes(num_words: int, num_lanes: int) -> None:
    """Raises a ValueError unless there is a word to predict for every lane."""
    if num_words - 1 < num_lanes:
        raise ValueError(
            "There must be a word to predict for each of the `lanes`, and one before "
            f"them all. Received: {num_words:,} words, <eos> included, for "
            f"{num_lanes:,} lanes"
        )


def _features(
    text: WordText, places_BL: np.ndarray, is_target_BL: np.ndarray
) -> dict[str, np.ndarray]:
    """Features at positions of the text, repeated without end."""
    rounds_BL, words_BL = np.divmod(places_BL, len(text.token_ids))
    next_words_BL = (words_BL + 1) % len(text.token_ids)
    sentences_BL = text.sentences[words_BL] + rounds_BL * _count(text.sentences)
    paragraphs_BL = text.paragraphs[words_BL] + rounds_BL * _count(text.paragraphs)
    return {
        "token_ids": np.where(is_target_BL, text.token_ids[words_BL], 0),
        "target_ids": np.where(is_target_BL, text.token_ids[next_words_BL], 0),
        "padding_mask": is_target_BL,
        # Counters wrap around where they leave int32: differences stay right.
        "stream_token": places_BL.astype(np.int32),
        "stream_sentence": sentences_BL.astype(np.int32),
        "stream_paragraph": paragraphs_BL.astype(np.int32),
    }


def _count(numbers: np.ndarray) -> int:
    """Number of items that are numbered from 0 without a gap."""
    return int(numbers[-1]) + 1 if len(numbers) else 0
