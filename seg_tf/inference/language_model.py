"""A pretrained language model with memory: generation, and perplexity of texts.

Shape key: n words of the text, B lanes, L target length.
"""

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
from seg_tf.inference.generation import Sampling, TextGenerator, word_counters
from seg_tf.interop import FromPreset
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.text import encoding
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.vocabulary import WordVocabulary

# Of an article; headings of its sections have more signs, ` = = Heading = = `.
_TITLE = re.compile(r"= (?!=).*(?<!=) =")


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
