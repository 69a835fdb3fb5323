"""A pretrained language model with memory: generation, and perplexity of texts.

Shape key: n words of the text, B lanes, L target length.
"""

import dataclasses
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.inference.generation import Sampling, TextGenerator, word_counters
from seg_tf.layers.common import checked_names
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.text import encoding
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.vocabulary import WordVocabulary

# Of an article; headings of its sections have more signs, ` = = Heading = = `.
_TITLE = re.compile(r"= (?!=).*(?<!=) =")


@dataclasses.dataclass(frozen=True, eq=False)
class WordText:
    """The words of texts, which are read as one.

    Attributes:
        token_ids: int32 array `(n,)`.
        sentences: int64 array `(n,)`, the sentence of each word, from 0.
        paragraphs: int64 array `(n,)`, the paragraph of each word, from 0.
    """

    token_ids: np.ndarray
    sentences: np.ndarray
    paragraphs: np.ndarray

    def segments(
        self, num_lanes: int, target_length: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the text in lanes side by side, a batch for every time step.

        Every word but the first is to be predicted, by one lane. As in validation, the
        last segments are padded without words to predict, while their counters continue
        from the beginning of the text.

        Args:
            num_lanes: B.
            target_length: L.

        Returns:
            Batches `{feature name: array (B, L)}`.

        Raises:
            ValueError: if there are fewer words to predict than lanes.
        """
        num_words = len(self.token_ids)
        check_lanes(num_words, num_lanes)
        lane_length = -(-(num_words - 1) // num_lanes)
        firsts_B1 = np.arange(num_lanes)[:, None] * lane_length

        def segment(begin: int) -> dict[str, np.ndarray]:
            in_lane_L = np.arange(begin, begin + target_length)
            places_BL = firsts_B1 + in_lane_L
            is_target_BL = (in_lane_L < lane_length) & (places_BL < num_words - 1)
            rounds_BL, words_BL = np.divmod(places_BL, num_words)
            next_words_BL = (words_BL + 1) % num_words
            # Counters wrap around where they exceed int32: differences stay right.
            counters = {
                "stream_token": places_BL,
                "stream_sentence": self.sentences[words_BL]
                + rounds_BL * _count(self.sentences),
                "stream_paragraph": self.paragraphs[words_BL]
                + rounds_BL * _count(self.paragraphs),
            }
            return {
                "token_ids": np.where(is_target_BL, self.token_ids[words_BL], 0),
                "target_ids": np.where(is_target_BL, self.token_ids[next_words_BL], 0),
                "padding_mask": is_target_BL,
                **{name: array.astype(np.int32) for name, array in counters.items()},
            }

        return map(segment, range(0, lane_length, target_length))


@dataclasses.dataclass(frozen=True)
class Measured:
    """Sums over the words that were predicted.

    Attributes:
        loss_sum: negative log probabilities, in nats.
        num_predicted: number of words, including ends of paragraphs.
        num_unknown: number of them that are `<unk>`.
    """

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


class LanguageModel:
    """A (Sega-)Transformer-XL with its vocabulary and text preprocessing.

    Args:
        pretrained: the checkpoint.

    Attributes:
        encoder: maps words and memory to vectors and memory.
        objective: maps vectors to losses, or probabilities, of the next words.
        vocabulary: the words.
        inputs: config of the inputs of training.
        tokenizer: one of `seg_tf.text.encoding.TOKENIZERS`.

    Raises:
        ValueError: if the checkpoint is of another model.

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

    @classmethod
    @checked_names
    def from_preset(
        cls,
        folder: str | pathlib.Path,
        memory_length: int | None = None,
        *,
        sentence_function: str | None = None,
    ) -> Self:
        """Loads the model of a run or a checkpoint.

        Args:
            folder: the folder.
            memory_length: number of previous words that a word attends to; None uses
                that of training.
            sentence_function: as for `load_pretrained`.

        Raises:
            CheckpointError: if there is no checkpoint, or it is damaged.
            ValueError: if it is of another model, or an argument is unknown.
        """
        settings = {} if memory_length is None else {"memory_length": memory_length}
        return cls(
            load_pretrained(
                folder, model_settings=settings, sentence_function=sentence_function
            )
        )

    def tree(self, paragraphs: Sequence[str]) -> DocumentTree:
        """Words and sentences of paragraphs as in training, without `<eos>`."""
        return self._builder.build([paragraphs])[0]

    def encode(
        self, features: Mapping[str, Any], memory: Mapping[str, Any]
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the vectors of a batch's words, and the memory for the next batch."""
        return self.encoder({**features, **memory}, training=False)

    def generate(
        self,
        prompt: str = "",
        num_words: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> str:
        """Returns a prompt followed by sampled words.

        Args:
            prompt: any text; lines are paragraphs, and the last one is continued.
            num_words: number of words, including ends of paragraphs.
            sampling: how to sample; None samples from the full distribution.
            seed: seed of the random draws.
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
        """Sums the losses of all words to be predicted.

        Args:
            batches: features of causal LM, all of one shape. Each row continues the
                same row of the previous batch.
            on_progress: called with the number of words of each batch.

        Raises:
            ValueError: if there is nothing to predict.
        """
        names = (*self.encoder.feature_names, "target_ids", "padding_mask")

        def run(features: Mapping[str, Any], memory: Mapping[str, Any]) -> tuple:
            hidden, memory = self.encode(features, memory)
            loss_sum, _ = self.objective(hidden, features, training=False).loss
            return loss_sum, memory

        step = memory = None
        loss_sum, num_predicted, num_unknown = 0.0, 0, 0
        for batch in batches:
            features = {name: tf.constant(batch[name]) for name in names}
            if step is None:
                memory = self.encoder.initial_memory(len(batch["token_ids"]))
                specs = tf.nest.map_structure(
                    tf.TensorSpec.from_tensor, (features, memory)
                )
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


def _count(numbers: np.ndarray) -> int:
    """Number of items that are numbered from 0 without a gap."""
    return int(numbers[-1]) + 1 if len(numbers) else 0
