"""Writes words after a prompt with a language model.

Shape key: V words of the vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from seg_tf.text.encoding import WHITESPACE
from seg_tf.text.tree import DocumentTree

if TYPE_CHECKING:
    from seg_tf.inference.language_model import LanguageModel

# Marks without a space before or after them, where words were cut at punctuation.
_CLOSING = frozenset(".,;:!?)]}%…")
_OPENING = frozenset("([{")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """Truncation and temperature of a distribution to sample from.

    Attributes:
        temperature: below 1 favours probable words, above 1 improbable ones; 0 takes
            the most probable.
        top_k: samples from the `top_k` most probable words; 0 means all.
        top_p: samples from the fewest words, the most probable first, that reach this
            share of the probability of the `top_k`; 1 means all.

    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self):
        if self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                "`temperature` and `top_k` must be at least 0, `top_p` above 0 and at "
                f"most 1. Received: temperature={self.temperature}, "
                f"top_k={self.top_k}, top_p={self.top_p}"
            )

    def choose(self, log_probabilities: np.ndarray, random: np.random.Generator) -> int:
        """Samples an index of log probabilities `(V,)`, which may lack a constant."""
        order = np.argsort(-log_probabilities, kind="stable")
        order = order[np.isfinite(log_probabilities[order])]
        if self.temperature == 0:
            return int(order[0])
        order = order[: self.top_k or None]
        differences = log_probabilities[order] - log_probabilities[order[0]]
        sums = np.cumsum(np.exp(differences / self.temperature))
        sums = sums[: 1 + np.searchsorted(sums, self.top_p * sums[-1])]
        return int(order[np.searchsorted(sums, random.random() * sums[-1], "right")])


def word_counters(tree: DocumentTree) -> tuple[np.ndarray, np.ndarray]:
    """Sentence and paragraph of every word, each counted from 0: int64 `(n,)`."""
    sentences = np.arange(len(tree.sentence_lengths))
    paragraphs = np.repeat(
        np.arange(len(tree.paragraph_lengths)), tree.paragraph_lengths
    )
    return (
        np.repeat(sentences, tree.sentence_lengths),
        np.repeat(paragraphs, tree.sentence_lengths),
    )


class GrowingText:
    """A prompt and the words after it, with the counters that training assigns.

    The text begins with an `<eos>`, as if a paragraph had ended before it. The last
    line of the prompt is continued, unless a blank line follows it. Punkt decides
    whether a word begins a sentence, given the paragraph up to the word.

    Attributes:
        token_ids: int32 array of `<eos>` and the words of the prompt.
        sentences: int64 array, the sentence of each, from 0.
        paragraphs: int64 array, the paragraph of each, from 0.
    """

    def __init__(self, model: LanguageModel, prompt: str = ""):
        self._model = model
        *lines, last = map(str.strip, prompt.removesuffix("\n").split("\n"))
        eos_id = model.vocabulary.eos_id
        tree = model.tree(list(filter(None, lines))).with_paragraph_ends(eos_id)
        sentences, paragraphs = word_counters(tree)
        open_ = model.tree([last])
        self._text = last if len(open_.token_ids) else ""  # of the open paragraph
        self._paragraph = 1 + len(tree.paragraph_lengths)
        self._first_sentence = 1 + len(tree.sentence_lengths)
        self.token_ids = np.concatenate([[eos_id], tree.token_ids, open_.token_ids])
        first = self._first_sentence, self._paragraph
        self.sentences, self.paragraphs = (
            np.concatenate([[0], 1 + before, start + last_line])
            for before, last_line, start in zip(
                (sentences, paragraphs), word_counters(open_), first, strict=True
            )
        )
        self._sentence = int(self.sentences[-1])

    @property
    def begins_paragraph(self) -> bool:
        """Returns True if the next word is the first of a paragraph."""
        return not self._text

    def spell(self, token_id: int) -> str:
        """Spells a word that may follow, with the space before it, if any."""
        if token_id == self._model.vocabulary.eos_id:
            return "\n"
        (word,) = self._model.vocabulary.tokens_of([token_id])
        # Punkt needs marks at their words, from which the tokenizer cut them.
        is_joined = self._model.tokenizer != WHITESPACE and (
            word in _CLOSING or self._text[-1:] in _OPENING
        )
        return word if self.begins_paragraph or is_joined else f" {word}"

    def append(self, token_id: int) -> tuple[int, int]:
        """Adds a word or an `<eos>`; returns its sentence and paragraph."""
        paragraph = self._paragraph
        if token_id == self._model.vocabulary.eos_id:
            self._text = ""
            self._paragraph += 1
            self._first_sentence = self._sentence + 1
        else:
            self._text += self.spell(token_id)
            num_sentences = len(self._model.tree([self._text]).sentence_lengths)
            # Punkt may revise its decision about a mark; counters never fall.
            self._sentence = max(
                self._sentence, self._first_sentence + num_sentences - 1
            )
        return self._sentence, paragraph


class TextGenerator:
    """Samples the words that follow a prompt.

    The prompt is read in segments as in training. Every further word is a segment of
    its own, which attends to the memory: as long as that holds the whole text,
    probabilities equal those in a single pass.

    Attributes:
        text: the `GrowingText`.
        log_probabilities: float64 array `(V,)` of the next word.
    """

    def __init__(self, model: LanguageModel, prompt: str = ""):
        self.text = GrowingText(model, prompt)
        self._model = model
        self._memory = model.encoder.initial_memory(1)
        self._num_read = 0
        names, words = model.encoder.feature_names, tf.TensorSpec([1, None], tf.int32)
        signature = (
            dict.fromkeys(names, words),
            tf.nest.map_structure(tf.TensorSpec.from_tensor, self._memory),
        )

        def run(features: Mapping[str, Any], memory: Mapping[str, Any]) -> tuple:
            hidden, memory = model.encoder({**features, **memory}, training=False)
            return model.objective.log_probabilities(hidden[:, -1]), memory

        self._step = tf.function(
            run, autograph=False, input_signature=signature
        ).get_concrete_function()
        text = self.text
        for begin in range(0, len(text.token_ids), model.inputs.target_length):
            words = slice(begin, begin + model.inputs.target_length)
            self._read(
                text.token_ids[words], text.sentences[words], text.paragraphs[words]
            )

    def append(self, token_id: int) -> None:
        """Adds a word."""
        sentence, paragraph = self.text.append(token_id)
        self._read([token_id], [sentence], [paragraph])

    def sample(self, sampling: Sampling, random: np.random.Generator) -> Iterator[int]:
        """Yields sampled words without end.

        A word is added to the text when the next one is requested. `<unk>` is never
        sampled, nor an `<eos>` right after another: no paragraph of training is empty.
        """
        vocabulary = self._model.vocabulary
        while True:
            allowed = self.log_probabilities.copy()
            allowed[vocabulary.unk_id] = -np.inf
            if self.text.begins_paragraph:
                allowed[vocabulary.eos_id] = -np.inf
            token_id = sampling.choose(allowed, random)
            yield token_id
            self.append(token_id)

    def _read(
        self,
        token_ids: Sequence[int],
        sentences: Sequence[int],
        paragraphs: Sequence[int],
    ) -> None:
        values = {
            "token_ids": token_ids,
            "stream_token": self._num_read + np.arange(len(token_ids)),
            "stream_sentence": sentences,
            "stream_paragraph": paragraphs,
        }
        features = {
            name: tf.constant([list(row)], tf.int32) for name, row in values.items()
        }
        log_probabilities, self._memory = self._step(features, self._memory)
        self.log_probabilities = log_probabilities.numpy()[0].astype(np.float64)
        self._num_read += len(token_ids)
