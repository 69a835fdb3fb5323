"""A pretrained language model with memory, ready to be used on text."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from seg_tf import configuration
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.text import encoding
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.word_vocabulary import WordVocabulary


class LanguageModel:
    """A (Sega-)Transformer-XL with its vocabulary and text preprocessing.

    Args:
        pretrained: the checkpoint.
        splitter: what finds the sentences of a paragraph.

    Attributes:
        encoder: from words and memory to vectors and memory.
        objective: from vectors to the losses, or the probabilities, of the next words.
        vocabulary: the words.
        inputs: how training read its corpus.
        tokenizer: what a word is, one of `seg_tf.text.encoding.TOKENIZERS`.

    Raises:
        ValueError: if the checkpoint is of another model.
    """

    def __init__(self, pretrained: Pretrained, splitter: SentenceSplitter):
        config = pretrained.config
        found = [
            objective
            for objective in pretrained.objectives.values()
            if isinstance(objective, CausalLM)
        ]
        is_of_lanes = isinstance(config.inputs, configuration.LaneInputsConfig)
        if not (found and is_of_lanes):
            raise ValueError(
                "`checkpoint` must be of a language model that reads a stream of words "
                "(Transformer-XL or Sega-Transformer-XL). Received: "
                f"{pretrained.folder}, the run {config.name!r}, whose objectives are "
                f"{', '.join(pretrained.objectives)} on inputs of "
                f"{type(config.inputs).__name__}"
            )
        self.encoder = pretrained.encoder
        self.objective = found[0]
        self.vocabulary: WordVocabulary = pretrained.vocabulary
        self.inputs = config.inputs
        self.tokenizer = pretrained.tokenizer
        self._builder = TreeBuilder(
            encoding.sentence_splitter(self.tokenizer, splitter),
            pretrained.text_encoder().encode,
        )

    def tree(self, paragraphs: Sequence[str]) -> DocumentTree:
        """Paragraphs as words in sentences, as training saw them, without `<eos>`."""
        return self._builder.build([paragraphs])[0]

    def encode(
        self, features: Mapping[str, Any], memory: Mapping[str, Any]
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Vectors of the words of a batch, and the memory for the batch after it."""
        return self.encoder({**features, **memory}, training=False)
