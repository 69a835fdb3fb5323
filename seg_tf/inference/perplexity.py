"""Perplexity of a language model on text that it reads segment by segment."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.inference.language_model import LanguageModel


@dataclasses.dataclass(frozen=True)
class Measured:
    """Sums over the words that were predicted.

    Attributes:
        loss_sum: negative log probabilities, in nats.
        num_predicted: words, ends of paragraphs included.
        num_unknown: those of them that are `<unk>`.
    """

    loss_sum: float
    num_predicted: int
    num_unknown: int

    def loss(self, num_tokens: int | None = None) -> float:
        """Nats a token, of so many tokens; None takes those predicted."""
        return self.loss_sum / (num_tokens or self.num_predicted)

    def perplexity(self, num_tokens: int | None = None) -> float:
        """The exponential of that; infinite where there is no such float."""
        try:
            return math.exp(self.loss(num_tokens))
        except OverflowError:
            return math.inf


def measure(
    model: LanguageModel,
    batches: Iterable[Mapping[str, np.ndarray]],
    on_progress: Callable[[int], Any] = bool,
) -> Measured:
    """Sums the losses of all words to be predicted.

    Each row remembers what it read in the batches before.

    Args:
        model: what predicts.
        batches: features of causal LM, all of one shape; row b of each goes on where
            that of the batch before it stopped.
        on_progress: called with the number of words of each batch that is done.

    Raises:
        ValueError: if there is nothing to predict.
    """
    names = (*model.encoder.feature_names, "target_ids", "padding_mask")
    unknown = model.vocabulary.unk_id
    step = memory = None
    loss_sum, num_predicted, num_unknown = 0.0, 0, 0
    for batch in batches:
        features = {name: tf.constant(batch[name]) for name in names}
        if step is None:
            memory = model.encoder.initial_memory(len(batch["token_ids"]))
            step = _compile(model, features, memory)
        loss, memory = step(features, memory)
        loss_sum += float(loss)
        targets = batch["target_ids"][batch["padding_mask"]]
        num_predicted += len(targets)
        num_unknown += int(np.sum(targets == unknown))
        on_progress(len(targets))
    if not num_predicted:
        raise ValueError("There must be a word to predict. Received: none")
    return Measured(loss_sum, num_predicted, num_unknown)


def _compile(
    model: LanguageModel, features: Mapping[str, Any], memory: Mapping[str, Any]
) -> Callable:
    """A function from features and memory to the sum of losses and new memory."""

    def run(features: Mapping[str, Any], memory: Mapping[str, Any]) -> tuple:
        hidden, memory = model.encode(features, memory)
        loss_sum, _ = model.objective(hidden, features, training=False).loss
        return loss_sum, memory

    specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, (features, memory))
    # Concrete, for TensorFlow warns of functions that are made again and again.
    return tf.function(run, autograph=False).get_concrete_function(*specs)
