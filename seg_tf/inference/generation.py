"""Writes on, word by word, with a language model.

Shape key: V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from seg_tf.inference.growing_text import GrowingText
from seg_tf.inference.sampling import Sampling

if TYPE_CHECKING:
    from seg_tf.inference.language_model import LanguageModel


class TextGenerator:
    """Samples the words that follow a prompt.

    The prompt is read in segments as those of training. Every word from then on is a
    segment of its own, which sees as many words before it as there is memory: while
    that holds the whole text, probabilities are those of one long pass.

    Args:
        model: what predicts.
        prompt: as for `GrowingText`.

    Attributes:
        text: the prompt and what was added to it.
        log_probabilities: float64 array `(V,)` of the next word.
    """

    def __init__(self, model: LanguageModel, prompt: str = ""):
        self.text = GrowingText(model, prompt)
        self._model = model
        self._memory = model.encoder.initial_memory(1)
        self._num_read = 0
        self._step = self._compile()
        text = self.text
        for begin in range(0, len(text.token_ids), model.inputs.target_length):
            segment = slice(begin, begin + model.inputs.target_length)
            self._read(
                text.token_ids[segment],
                text.sentences[segment],
                text.paragraphs[segment],
            )

    def append(self, token_id: int) -> None:
        """Adds a word, whoever has chosen it."""
        sentence, paragraph = self.text.append(token_id)
        self._read([token_id], [sentence], [paragraph])

    def sample(self, sampling: Sampling, random: np.random.Generator) -> Iterator[int]:
        """Draws one word after the other, without end.

        A word is added to the text when the next one is asked for. `<unk>` is never
        drawn, nor an `<eos>` right after another: no paragraph of training is empty.

        Args:
            sampling: how words are drawn.
            random: where chance comes from.
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
        tokens = self._num_read + np.arange(len(token_ids))
        features = {
            name: tf.constant(np.array([values], np.int32))
            for name, values in {
                "token_ids": token_ids,
                "stream_token": tokens,
                "stream_sentence": sentences,
                "stream_paragraph": paragraphs,
            }.items()
        }
        found, self._memory = self._step(features, self._memory)
        self.log_probabilities = found.numpy()[0].astype(np.float64)
        self._num_read += len(token_ids)

    def _compile(self) -> Callable:
        """A function from features and memory to the next word and new memory."""

        def run(features: Mapping[str, Any], memory: Mapping[str, Any]) -> tuple:
            hidden, memory = self._model.encode(features, memory)
            return self._model.objective.log_probabilities(hidden[:, -1]), memory

        signature = (
            {
                name: tf.TensorSpec([1, None], tf.int32)
                for name in self._model.encoder.feature_names
            },
            tf.nest.map_structure(tf.TensorSpec.from_tensor, self._memory),
        )
        function = tf.function(run, autograph=False, input_signature=signature)
        return function.get_concrete_function()
