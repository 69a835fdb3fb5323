"""Generates text and measures perplexity with a pretrained Transformer-XL.

Shape key: n words of the text, L target length, V vocabulary size.
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

# Title of an article. Section headings have more signs, ` = = Heading = = `.
_TITLE = re.compile(r"= (?!=).*(?<!=) =")
# Marks without a space before or after them, if words are split at punctuation.
_CLOSING = frozenset(".,;:!?)]}%…")
_OPENING = frozenset("([{")


@dataclasses.dataclass(frozen=True, eq=False)
class WordText:
    """Word ids of a text, and each word's sentence and paragraph number, `(n,)`."""

    token_ids: np.ndarray
    sentences: np.ndarray
    paragraphs: np.ndarray

    def segments(self, target_length: int) -> Iterator[dict[str, np.ndarray]]:
        """Yields consecutive segments, each a dict of features `(1, target_length)`.

        Every word except the first is a target once. The last segment is padded.
        """
        num_targets = len(self.token_ids) - 1
        for begin in range(0, num_targets, target_length):
            places_1L = np.arange(begin, begin + target_length)[None]
            is_target_1L = places_1L < num_targets
            words_1L = np.minimum(places_1L, num_targets - 1)
            yield {
                "token_ids": np.where(is_target_1L, self.token_ids[words_1L], 0),
                "target_ids": np.where(is_target_1L, self.token_ids[words_1L + 1], 0),
                "padding_mask": is_target_1L,
                "stream_token": places_1L.astype(np.int32),
                "stream_sentence": self.sentences[words_1L].astype(np.int32),
                "stream_paragraph": self.paragraphs[words_1L].astype(np.int32),
            }


@dataclasses.dataclass(frozen=True)
class Measured:
    """Total loss in nats, number of predicted words, and how many are `<unk>`."""

    loss_sum: float
    num_predicted: int
    num_unknown: int

    def loss(self, num_tokens: int | None = None) -> float:
        """Returns the loss in nats per token, by default per predicted word."""
        return self.loss_sum / (num_tokens or self.num_predicted)

    def perplexity(self, num_tokens: int | None = None) -> float:
        """Returns the exponential of `loss`."""
        return math.exp(self.loss(num_tokens))


class LanguageModel(FromPreset):
    """A (Sega-)Transformer-XL with its vocabulary and text preprocessing.

    Args:
        pretrained: `Pretrained`, a Transformer-XL. Other models raise a ValueError.

    Attributes:
        encoder: Keras model that returns the hidden states and the new memory.
        objective: maps hidden states to losses or log probabilities of the next words.
        inputs: config of the training inputs, such as `target_length`.
        vocabulary, tokenizer: see `seg_tf.checkpoints.pretrained.Pretrained`.

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
        """Returns the sentences and words of paragraphs as a tree without `<eos>`."""
        return self._builder.build([paragraphs])[0]

    def generate(
        self,
        prompt: str = "",
        num_words: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> str:
        """Continues the last line of a prompt with sampled words.

        The end of a paragraph counts as one of the `num_words` words. By default, any
        word but `<unk>` can be sampled. Returns the prompt with its continuation.
        """
        generator = TextGenerator(self, prompt)
        words = generator.sample(sampling or Sampling(), np.random.default_rng(seed))
        spelled = map(generator.text.spell, itertools.islice(words, num_words))
        begin = prompt if generator.text.begins_paragraph else prompt.rstrip()
        return begin + "".join(spelled)

    def word_text(self, paragraphs: Iterable[str]) -> WordText:
        """Returns the words of nonblank paragraphs. An `<eos>` ends each paragraph."""
        tree = self.tree(list(filter(str.strip, paragraphs)))
        tree = tree.with_paragraph_ends(self.vocabulary.eos_id)
        return WordText(tree.token_ids.astype(np.int32), *word_counters(tree))

    def measure(
        self,
        batches: Iterable[Mapping[str, np.ndarray]],
        on_progress: Callable[[int], Any] = bool,
    ) -> Measured:
        """Sums the losses of all predicted words, and counts these words and `<unk>`.

        Args:
            batches: features for causal language modeling, all of one shape. Each
                batch continues the previous one.
            on_progress: called with the number of predicted words in each batch.

        Raises:
            ValueError: if there are no words to predict.
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
                # Concrete: TensorFlow warns if functions are retraced repeatedly.
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
    """Counts tokens as for WikiText: whitespace-separated words and ends of lines.

    Returns None unless every file has a title like ` = Name = ` between blank lines.
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


# --- Generation ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """Options for sampling the next word: temperature, top-k and top-p.

    Attributes:
        temperature: float, at least 0. Values below 1 favor probable words. 0 always
            selects the most probable word.
        top_k: int. Samples only from the `top_k` most probable words; 0 means no limit.
        top_p: float, in (0, 1]. Samples only from the smallest set of most probable
            words whose total probability, among the `top_k`, is at least `top_p`.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self):
        if self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                "`temperature` and `top_k` must be at least 0, `top_p` above 0 and at "
                f"most 1. Received: {self}"
            )

    def choose(self, log_probabilities: np.ndarray, random: np.random.Generator) -> int:
        """Samples an index from log probabilities `(V,)`, which may be unnormalized."""
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
    """Returns two int64 arrays `(n,)`: each word's sentence and paragraph, from 0."""
    numbers = np.arange(len(tree.sentence_lengths)), tree.paragraph_of_sentence
    sentences, paragraphs = (np.repeat(n, tree.sentence_lengths) for n in numbers)
    return sentences, paragraphs


class GrowingText:
    """A prompt and its continuation, with the sentence and paragraph of each word.

    The text begins with an `<eos>`, as if a paragraph had ended before it. The last
    line of the prompt is continued, unless a blank line follows it. The splitter reads
    the paragraph up to each word to decide whether the word begins a sentence.

    Attributes:
        token_ids: int array of `<eos>` and the words of the prompt.
        sentences, paragraphs: int64 arrays. Each word's sentence and paragraph, from 0.
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
        return not self._text

    def spell(self, token_id: int) -> str:
        """Returns the next word with any space before it, or a newline for `<eos>`."""
        if token_id == self._model.vocabulary.eos_id:
            return "\n"
        (word,) = self._model.vocabulary.tokens_of([token_id])
        # Punkt expects punctuation attached to the words. The tokenizer splits it off.
        is_joined = self._model.tokenizer != WHITESPACE and (
            word in _CLOSING or self._text[-1:] in _OPENING
        )
        return word if self.begins_paragraph or is_joined else f" {word}"

    def append(self, token_id: int) -> tuple[int, int]:
        """Appends a word or `<eos>`. Returns its sentence and paragraph numbers."""
        paragraph = self._paragraph
        if token_id == self._model.vocabulary.eos_id:
            self._text = ""
            self._paragraph += 1
            self._first_sentence = self._sentence + 1
        else:
            self._text += self.spell(token_id)
            num_sentences = len(self._model.tree([self._text]).sentence_lengths)
            # Punkt may revise its decision about a mark. Counters never decrease.
            self._sentence = max(
                self._sentence, self._first_sentence + num_sentences - 1
            )
        return self._sentence, paragraph


class TextGenerator:
    """Samples the words that follow a prompt.

    The prompt is read in segments, as in training. Each later word is a separate
    segment that attends to the memory. If the memory contains the whole text, the
    probabilities are the same as in a single pass.

    Attributes:
        text: the prompt and all words appended to it.
        log_probabilities: float64 array `(V,)`. Distribution of the next word.
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
        """Appends a word, and computes the distribution of the next word."""
        sentence, paragraph = self.text.append(token_id)
        self._read([token_id], [sentence], [paragraph])

    def sample(self, sampling: Sampling, random: np.random.Generator) -> Iterator[int]:
        """Yields the ids of sampled words indefinitely.

        A word is appended to the text when the next word is requested. `<unk>` is never
        sampled. As in training, no paragraph is empty.
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
