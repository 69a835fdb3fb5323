"""Strings to features inside keras-hub, for BERT, BERT with P.S. and SegaBERT."""

# Shape key: B batch, L sequence length.

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from seg_tf.interop.encoder_tokenizer import EncoderTokenizer
from seg_tf.models.encoder import Encoder


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
        sequence_length: int. `L`.
        num_token_types: int. Rows of the encoder's table of token types, below which
            the number of the text stays; 0 where it reads none.
        **kwargs: of `keras_hub.models.Preprocessor`.

    Call arguments:
        texts: strings `(B,)`, or several such, of texts that belong together.

    Returns:
        Dict of tensors `(B, L)`: int32 `token_ids`, bool `padding_mask`, an index
        for each table and, with `num_token_types`, `token_type`: which text, from 0.
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
        self._packer = None

    def build(self, input_shape: Any) -> None:
        # A tokenizer that is loaded gets its vocabulary, and so its ids, by now.
        self._packer = keras_hub.layers.MultiSegmentPacker(
            start_value=self.tokenizer.cls_token_id,
            end_value=self.tokenizer.sep_token_id,
            pad_value=self.tokenizer.pad_token_id,
            sequence_length=self.sequence_length,
        )
        self.built = True

    def call(self, texts: Any) -> dict[str, tf.Tensor]:
        texts = texts if isinstance(texts, tuple) else (texts,)
        pieces = tuple(self.tokenizer(tf.convert_to_tensor(text)) for text in texts)
        token_ids_BL, text_BL = (
            tf.convert_to_tensor(one, tf.int32) for one in self._packer(pieces)
        )
        mask_BL = tf.not_equal(token_ids_BL, self.tokenizer.pad_token_id)
        position_BL = tf.zeros_like(token_ids_BL) + tf.range(self.sequence_length)
        indices = {
            "position_index": position_BL,
            "paragraph_index": text_BL,
            "sentence_index": tf.zeros_like(position_BL),
            "token_index": position_BL - self._starts(text_BL, mask_BL, len(texts)),
            "token_type": text_BL,
        }
        types = {"token_type": self.num_token_types} if self.num_token_types else {}
        features = {"token_ids": token_ids_BL, "padding_mask": mask_BL}
        for name, rows in {**self.index_tables, **types}.items():
            capped_BL = tf.clip_by_value(indices[name], 0, rows - 1)
            features[name] = tf.where(mask_BL, capped_BL, 0)
        return features

    def _starts(
        self, text_BL: tf.Tensor, mask_BL: tf.Tensor, num_texts: int
    ) -> tf.Tensor:
        """Position of the first piece of the text that each position is of."""
        start_BL = tf.ones_like(text_BL)
        for number in range(1, num_texts):
            lengths_B1 = tf.reduce_sum(
                tf.cast(mask_BL & (text_BL < number), tf.int32), axis=1, keepdims=True
            )
            start_BL = tf.where(text_BL == number, lengths_B1, start_BL)
        return start_BL

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "index_tables": self.index_tables,
            "sequence_length": self.sequence_length,
            "num_token_types": self.num_token_types,
        }
