"""A pretrained language model with memory: generation, and perplexity of texts.

Shape key: n words of the text, B lanes, L target length, V words of the vocabulary.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop import FromPreset
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.text import encoding
from seg_tf.text.encoding import WHITESPACE
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.vocabulary import WordVocabulary

# Of an article; headings of its sections have more signs, ` = = Heading = = `.
_TITLE = re.compile(r"= (?!=).*(?<!=) =")
# Marks without a space before or after them, where words were cut at punctuation.
_CLOSING = frozenset(".,;:!?)]}%…")
_OPENING = frozenset("([{")


@dataclasses.dataclass(frozen=True, eq=False)
class WordText:
    """Words of texts that are read as one, their sentences and paragraphs, `(n,)`."""

    token_ids: np.ndarray
    sentences: np.ndarray
    paragraphs: np.ndarray

    def segments(
        self, num_lanes: int, target_length: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the text in lanes side by side, a batch `(B, L)` for every time step.

        Every word but the first is to be predicted, by one lane. As in validation, the
        last segments are padded, without words to predict.
        """
        num_words = len(self.token_ids)
        check_lanes(num_words, num_lanes)
        lane_length = -(-(num_words - 1) // num_lanes)
        firsts_B1 = np.arange(num_lanes)[:, None] * lane_length

        def segment(begin: int) -> dict[str, np.ndarray]:
            in_lane_L = np.arange(begin, begin + target_length)
            places_BL = firsts_B1 + in_lane_L
            is_target_BL = (in_lane_L < lane_length) & (places_BL < num_words - 1)
            words_BL = np.minimum(places_BL, num_words - 2)
            return {
                "token_ids": np.where(is_target_BL, self.token_ids[words_BL], 0),
                "target_ids": np.where(is_target_BL, self.token_ids[words_BL + 1], 0),
                "padding_mask": is_target_BL,
                "stream_token": places_BL.astype(np.int32),
                "stream_sentence": self.sentences[words_BL].astype(np.int32),
                "stream_paragraph": self.paragraphs[words_BL].astype(np.int32),
            }

        return map(segment, range(0, lane_length, target_length))


@dataclasses.dataclass(frozen=True)
class Measured:
    """Sum of negative log probabilities, in nats, of words, some of them `<unk>`."""

    loss_sum: float
    num_predicted: int
    num_unknown: int

    def loss(self, num_tokens: int | None = None) -> float:
        """Nats per token, of `num_tokens`; None means the predicted words."""
        return self.loss_sum / (num_tokens or self.num_predicted)

    def perplexity(self, num_tokens: int | None = None) -> float:
        """The exponential of `loss`; infinity if it overflows."""
        try:
            return math.exp(self.loss(num_tokens))
        except OverflowError:
            return math.inf


class LanguageModel(FromPreset):
    """A (Sega-)Transformer-XL with its vocabulary and text preprocessing.

    Attributes:
        encoder: maps words and memory to vectors and memory.
        objective: maps vectors to losses, or probabilities, of the next words.
        vocabulary: the words.
        inputs: config of the inputs of training.
        tokenizer: one of `seg_tf.text.encoding.TOKENIZERS`.

    Example:
    ```
    model = LanguageModel.from_preset("runs/sega_transformer_xl_base")
    print(model.generate("The old man said", num_words=50))
    ```
    """

    def __init__(self, pretrained: Pretrained):
        self.objective = pretrained.objective(
            CausalLM, "a language model (Transformer-XL or Sega-Transformer-XL)"
        )
        self.encoder = pretrained.encoder
        self.vocabulary: WordVocabulary = pretrained.vocabulary
        self.inputs = pretrained.config.inputs
        self.tokenizer = pretrained.tokenizer
        self._builder = TreeBuilder(
            encoding.sentence_splitter(self.tokenizer, pretrained.splitter()),
            pretrained.text_encoder().encode,
        )

    def tree(self, paragraphs: Sequence[str]) -> DocumentTree:
        """Words and sentences of paragraphs as in training, without `<eos>`."""
        return self._builder.build([paragraphs])[0]

    def generate(
        self,
        prompt: str = "",
        num_words: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> str:
        """Returns a prompt, whose last line is continued, and sampled words.

        `num_words` includes ends of paragraphs. Without `sampling`, words are sampled
        from the full distribution.
        """
        generator = TextGenerator(self, prompt)
        words = generator.sample(sampling or Sampling(), np.random.default_rng(seed))
        spelled = map(generator.text.spell, itertools.islice(words, num_words))
        return prompt + "".join(spelled)

    def word_text(self, paragraphs: Iterable[str]) -> WordText:
        """Returns the words of paragraphs; an `<eos>` ends each that has any."""
        tree = self.tree(list(filter(str.strip, paragraphs)))
        tree = tree.with_paragraph_ends(self.vocabulary.eos_id)
        return WordText(tree.token_ids.astype(np.int32), *word_counters(tree))

    def measure(
        self,
        batches: Iterable[Mapping[str, np.ndarray]],
        on_progress: Callable[[int], Any] = bool,
    ) -> Measured:
        """Sums the losses of all words to be predicted; a ValueError if there are none.

        Args:
            batches: features of causal LM, all of one shape. Each row continues the
                same row of the previous batch.
            on_progress: called with the number of words of each batch.
        """
        names = (*self.encoder.feature_names, "target_ids", "padding_mask")

        def run(features: Mapping[str, Any], memory: Mapping[str, Any]) -> tuple:
            hidden, memory = self.encoder({**features, **memory}, training=False)
            loss_sum, _ = self.objective(hidden, features, training=False).loss
            return loss_sum, memory

        step = memory = None
        loss_sum, num_predicted, num_unknown = 0.0, 0, 0
        for batch in batches:
            features = {name: tf.constant(batch[name]) for name in names}
            if step is None:
                memory = self.encoder.initial_memory(len(batch["token_ids"]))
                of = tf.TensorSpec.from_tensor
                specs = tf.nest.map_structure(of, (features, memory))
                # Concrete: TensorFlow warns if functions are traced again and again.
                step = tf.function(run, autograph=False).get_concrete_function(*specs)
            loss, memory = step(features, memory)
            loss_sum += float(loss)
            targets = batch["target_ids"][batch["padding_mask"]]
            num_predicted += len(targets)
            num_unknown += int(np.sum(targets == self.vocabulary.unk_id))
            on_progress(len(targets))
        if not num_predicted:
            raise ValueError("There must be a word to predict. Received: none")
        return Measured(loss_sum, num_predicted, num_unknown)


def standard_count(paths: Iterable[pathlib.Path]) -> int | None:
    """Counts WikiText's tokens: words between white space, and all ends of lines.

    Returns None unless every file has titles such as ` = Homarus gammarus = `, each
    between blank lines.
    """
    count = 0
    for path in paths:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            lines = [line.strip() for line in file]
        if not any(
            _TITLE.fullmatch(line) and not before and not after
            for before, line, after in zip(
                ["", *lines], lines, [*lines[1:], ""], strict=False
            )
        ):
            return None
        count += len(lines) + sum(len(line.split()) for line in lines)
    return count


def check_lanes(num_words: int, num_lanes: int) -> None:
    """Raises a ValueError unless there is a word to predict for every lane."""
    if num_words - 1 < num_lanes:
        raise ValueError(
            "There must be a word to predict for each of the `lanes`, and one before "
            f"them all. Received: {num_words:,} words, <eos> included, for "
            f"{num_lanes:,} lanes"
        )


# --- Generation ---------------------------------------------------------------------


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
