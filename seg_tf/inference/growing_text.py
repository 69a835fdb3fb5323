"""A text that grows word by word, and where each word stands in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seg_tf.inference import word_segments
from seg_tf.text.encoding import WHITESPACE

if TYPE_CHECKING:
    from seg_tf.inference.language_model import LanguageModel

# Marks that stand behind a word without a space, and before one, where words were cut
# at punctuation.
_CLOSING = frozenset(".,;:!?)]}%…")
_OPENING = frozenset("([{")


class GrowingText:
    """A prompt and the words that follow it, with the counters that training gives.

    The text begins with an `<eos>`, as if a paragraph had ended before it. The last
    line of the prompt goes on, unless a blank one follows it; all before are complete
    paragraphs.

    Whether a sentence has begun is known once there is a word behind its mark, and
    Punkt is asked then, about the whole paragraph as far as it goes. Where words were
    cut at punctuation, marks are joined to their words for that.

    Args:
        model: what says what words and sentences are.
        prompt: any text; none gives the `<eos>` alone.

    Attributes:
        token_ids: int32 array of `<eos>` and the words of the prompt.
        sentences: int64 array, the sentence of each, counted through.
        paragraphs: int64 array, likewise.
    """

    def __init__(self, model: LanguageModel, prompt: str = ""):
        self._model = model
        self._separates_all = model.tokenizer == WHITESPACE
        *lines, last = map(str.strip, prompt.removesuffix("\n").split("\n"))
        eos_id = model.vocabulary.eos_id
        ended = model.tree(list(filter(None, lines))).with_paragraph_ends(eos_id)
        begun = model.tree([last])
        self._paragraph = 1 + len(ended.paragraph_lengths)
        self._first_sentence = 1 + len(ended.sentence_lengths)
        sentences, paragraphs = word_segments.counters(ended)
        sentences_begun, _ = word_segments.counters(begun)
        parts = [
            ([eos_id], [0], [0]),
            (ended.token_ids, 1 + sentences, 1 + paragraphs),
            (
                begun.token_ids,
                self._first_sentence + sentences_begun,
                np.full(len(begun.token_ids), self._paragraph),
            ),
        ]
        self.token_ids, self.sentences, self.paragraphs = map(
            np.concatenate, zip(*parts, strict=True)
        )
        # Of the paragraph that goes on, and of the last word.
        self._text = last if len(begun.token_ids) else ""
        self._sentence = int(self.sentences[-1])

    @property
    def begins_paragraph(self) -> bool:
        """Returns True if the next word is the first of a paragraph."""
        return not self._text

    def shown(self, token_id: int) -> str:
        """Spelling of a following word, with the space before it, if any."""
        if token_id == self._model.vocabulary.eos_id:
            return "\n"
        (word,) = self._model.vocabulary.tokens_of([token_id])
        is_joined = not self._separates_all and (
            word in _CLOSING or self._text[-1:] in _OPENING
        )
        return word if self.begins_paragraph or is_joined else f" {word}"

    def append(self, token_id: int) -> tuple[int, int]:
        """Adds a word, or an `<eos>`.

        Returns:
            Its sentence and its paragraph, counted through.
        """
        paragraph = self._paragraph
        if token_id == self._model.vocabulary.eos_id:
            self._text = ""
            self._paragraph += 1
            self._first_sentence = self._sentence + 1
        else:
            self._text += self.shown(token_id)
            num_sentences = len(self._model.tree([self._text]).sentence_lengths)
            # Never back, should Punkt think otherwise of a mark once more follows.
            self._sentence = max(
                self._sentence, self._first_sentence + num_sentences - 1
            )
        return self._sentence, paragraph
