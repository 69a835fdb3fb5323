"""A pretrained language model with memory, ready to be used on text."""

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.inference.generation import TextGenerator
from seg_tf.inference.sampling import Sampling
from seg_tf.layers.common import checked_names
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.text import encoding
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.vocabulary import WordVocabulary


class LanguageModel:
    """A (Sega-)Transformer-XL with its vocabulary and text preprocessing.

    Args:
        pretrained: the checkpoint.

    Attributes:
        encoder: from words and memory to vectors and memory.
        objective: from vectors to the losses, or the probabilities, of the next words.
        vocabulary: the words.
        inputs: how training read its corpus.
        tokenizer: what a word is, one of `seg_tf.text.encoding.TOKENIZERS`.

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
        """The model of a run or a checkpoint.

        Args:
            folder: the folder.
            memory_length: words before each that it attends to; None takes those of
                training.
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

    def generate(
        self,
        prompt: str = "",
        num_words: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> str:
        """A prompt, and the words that the model writes after it.

        Args:
            prompt: any text; lines are paragraphs, and the last goes on.
            num_words: how many words, ends of paragraphs included.
            sampling: how words are drawn; None draws from all, as probable as they are.
            seed: of the random draws.
        """
        generator = TextGenerator(self, prompt)
        words = generator.sample(sampling or Sampling(), np.random.default_rng(seed))
        shown = map(generator.text.shown, itertools.islice(words, num_words))
        return prompt + "".join(shown)

    def tree(self, paragraphs: Sequence[str]) -> DocumentTree:
        """Paragraphs as words in sentences, as training saw them, without `<eos>`."""
        return self._builder.build([paragraphs])[0]

    def encode(
        self, features: Mapping[str, Any], memory: Mapping[str, Any]
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Vectors of the words of a batch, and the memory for the batch after it."""
        return self.encoder({**features, **memory}, training=False)
