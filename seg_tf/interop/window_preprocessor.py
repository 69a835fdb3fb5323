"""Strings to features inside keras-hub, for BERT, BERT with P.S. and SegaBERT."""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import tensorflow as tf
import tensorflow_text

from seg_tf.interop.encoder_tokenizer import EncoderTokenizer
from seg_tf.layouts.windows import window_rows
from seg_tf.models.encoder import Encoder
from seg_tf.text.graph.trees import Trees


@keras.saving.register_keras_serializable(package="seg_tf")
class WindowPreprocessor(keras_hub.models.Preprocessor):
    """Makes `[CLS] A [SEP] B [SEP]` of texts, each of them one sentence.

    The indices are those of fine-tuning: text n is sentence 0 of paragraph n, its token
    index starts at 0; `[CLS]` shares the indices of the first piece, `[SEP]` goes on
    behind the last. It finds no sentences: for texts of many, export the model with
    its text encoding.

    Args:
        tokenizer: an `EncoderTokenizer`.
        index_tables: the encoder's; indices stay below the rows of their tables.
        sequence_length: int. Positions of a row.
        num_token_types: int. Rows of the encoder's table of token types, below which
            the number of the text stays; 0 where it reads none.
        **kwargs: of `keras_hub.models.Preprocessor`.

    Call arguments:
        texts: strings `(B,)`, or several such, of texts that belong together.

    Returns:
        Dict of tensors `(B, sequence_length)`: int32 `token_ids`, bool `padding_mask`,
        an index for each table and, with `num_token_types`, `token_type`: the number
        of the text, from 0.
    """

    backbone_cls = Encoder
    tokenizer_cls = EncoderTokenizer

    def __init__(
        self,
        tokenizer: Any,
        index_tables: Mapping[str, int],
        sequence_length: int = 512,
        num_token_types: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.index_tables = dict(index_tables)
        self.sequence_length = sequence_length
        self.num_token_types = num_token_types

    def build(self, input_shape: Any) -> None:
        # A tokenizer that is loaded gets its vocabulary by now.
        self.built = True

    def call(self, texts: Any) -> dict[str, tf.Tensor]:
        texts = texts if isinstance(texts, tuple) else (texts,)
        pieces = [self._spell(text) for text in texts]
        capacity = self.sequence_length - 1 - len(texts)
        kept = tensorflow_text.RoundRobinTrimmer(capacity).trim(pieces)
        types = {"token_type": self.num_token_types} if self.num_token_types else {}
        features = window_rows(
            Trees.of_texts(kept),
            special_ids={
                "cls": self.tokenizer.cls_token_id,
                "sep": self.tokenizer.sep_token_id,
                "pad": self.tokenizer.pad_token_id,
            },
            row_length=self.sequence_length,
            caps={**self.index_tables, **types},
        )
        del features["sentence_number"]
        return features

    def _spell(self, texts: Any) -> tf.RaggedTensor:
        pieces = self.tokenizer(tf.convert_to_tensor(texts))
        # Outside of a graph, keras-hub turns ragged tensors into lists.
        if not isinstance(pieces, tf.RaggedTensor):
            pieces = tf.ragged.constant(pieces, tf.int32, ragged_rank=1)
        return tf.cast(pieces, tf.int32)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "index_tables": self.index_tables,
            "sequence_length": self.sequence_length,
            "num_token_types": self.num_token_types,
        }
