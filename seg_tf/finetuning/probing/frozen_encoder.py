"""Vectors of texts by an encoder that stays as it is.

Shape key: R rows, T texts of a row, D width of the vectors, B rows of a batch.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import copy_encoder, seeded
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.features import FEATURES, Feature
from seg_tf.finetuning.segments import EncodedTexts, encode_texts
from seg_tf.layouts.layout import MeanOfPieces, RowShape
from seg_tf.layouts.rows import Example

PER_SENTENCE = "per_sentence"
JOINT = "joint"
MODES = (PER_SENTENCE, JOINT)

_TOKENS_PER_BATCH = 8_192
# What a config says that no vector depends on.
_NAMES = ("name", "trainable")


class FrozenEncoder:
    """Encodes texts, each alone or those of an example together, without dropout.

    The vector of a text is the last layer's output at its token, `[CLS]` (BERT,
    SegaBERT), its `[SENT]` (SLM) or its pooled `<SS>` (ReAT); or, for vectors that are
    compared without training, the mean of the outputs at its word pieces. DiscoEval's
    code wants to be told what of BERT it shall take: the `[CLS]` of a layer, the mean
    of its outputs at all layers, or its pooled output, which needs the pooler of next
    sentence prediction.

    Args:
        pretrained: what `load_pretrained` returned. It is left as it is.
        mode: "per_sentence" gives each text a separate row, as DiscoEval's code
            does; "joint" puts the texts of an example into one, where they see each
            other.
        num_texts: texts of an example.
        randomly_initialized: whether the encoder gets new weights, as the baseline
            that shows the effect of pretraining.
        mean: whether the vector is the mean over the pieces; a ReAT's stays its
            `<SS>`, which is made of them.
        seed: of the new weights.
        max_length: the most positions of a row; None takes those of pretraining.
        tokens_per_batch: about how many positions are run at once.

    Attributes:
        num_texts: texts of an example.
        row_texts: T: `num_texts`, or 1 where each has its own row.

    Raises:
        ValueError: if there is no such mode, the checkpoint is of no encoder, so many
            texts do not fit into a row, or they would have no vector each there.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        mode: str,
        num_texts: int,
        *,
        randomly_initialized: bool = False,
        mean: bool = False,
        seed: int = 0,
        max_length: int | None = None,
        tokens_per_batch: int = _TOKENS_PER_BATCH,
    ):
        if mode not in MODES:
            raise ValueError(
                f"`mode` must be one of {', '.join(MODES)}. Received: {mode!r}"
            )
        self.num_texts = num_texts
        self.row_texts = num_texts if mode == JOINT else 1
        self._layout = pretrained.layout(max_length)
        if self.row_texts > 1 and not self._layout.vectors_per_text:
            raise ValueError(
                f'`mode` must be "{PER_SENTENCE}" for a model without a token for '
                f"each text of a row; SLM and ReAT have one. Received: {mode!r} for "
                f"{pretrained.folder}, the run {pretrained.config.name!r}"
            )
        readout = self._layout.readout(self.row_texts)
        self._mean = mean and self._layout.holds_spans
        if self._mean:
            readout = MeanOfPieces(self.row_texts)
        self._capacity = self._layout.capacity(self.row_texts)
        self._word_pieces = pretrained.text_encoder()
        self._tokens_per_batch = tokens_per_batch
        with seeded(seed):
            self._encoder = copy_encoder(
                pretrained, randomly_initialized=randomly_initialized
            )
        self._names = (*self._encoder.feature_names, *readout.feature_names)
        self._settings = {
            "mode": mode,
            "num_texts": num_texts,
            "max_length": self._layout.max_length,
            "tokenizer": pretrained.tokenizer,
            **pretrained.normalization.described(),
            "vocab_sha256": pretrained.vocabulary.checksum,
            "dtype_policy": self._encoder.dtype_policy.name,
            **({"vectors": "mean of pieces"} if self._mean else {}),
        }

        def run(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
            sequence_BLD = self._encoder(features, training=False)
            vectors_BTD = readout.text_vectors(self._encoder, sequence_BLD, features)
            return tf.cast(vectors_BTD, tf.float32)

        # Of any sizes, so that it is compiled once. Concrete, since TensorFlow takes
        # function after function made of the same lines for one that is compiled again
        # and again, and warns.
        signature = {
            name: tf.TensorSpec([None] * len(feature.shape), feature.dtype)
            for name, feature in self._contract().items()
        }
        function = tf.function(run, input_signature=[signature], autograph=False)
        self._run = function.get_concrete_function()

    def describe(self) -> dict[str, Any]:
        """Settings that the vectors depend on, beside the texts."""
        return {**self._settings, "encoder_sha256": self._checksum()}

    def rows_of(self, examples: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """The texts of each row: examples, or all of their texts, one after another."""
        if self.row_texts == self.num_texts:
            return list(examples)
        return [(text,) for example in examples for text in example]

    def encode(
        self,
        rows: Sequence[tuple[str, ...]],
        on_progress: Callable[[int], Any] = bool,
    ) -> tuple[np.ndarray, int]:
        """Vectors of rows of texts.

        Rows of about one length are run together; what comes out for one does not hang
        on the others, but for rounding.

        Args:
            rows: at least one, each of T texts.
            on_progress: called with the number of rows of each batch that is done.

        Returns:
            float32 array `(R, T, D)`, and how many rows were too long and cut.
        """
        examples = encode_texts(self._word_pieces, rows, self._capacity)
        shapes = [self._layout.row_shape(example) for example in examples]
        vectors = None
        for shape, numbers in self._batches(examples, shapes):
            batch = [examples[number] for number in numbers]
            computed = self._run(self._features(batch, shape)).numpy()
            if vectors is None:
                vectors = np.zeros((len(rows), *computed.shape[1:]), np.float32)
            vectors[numbers] = computed
            on_progress(len(numbers))
        return vectors, examples.num_cut

    def _batches(
        self, examples: EncodedTexts, shapes: Sequence[RowShape]
    ) -> Iterator[tuple[RowShape, np.ndarray]]:
        """Numbers of the rows of each batch, all of one shape."""
        kinds, kind_of_row = np.unique(shapes, axis=0, return_inverse=True)
        for kind, sizes in enumerate(kinds.tolist()):
            shape = tuple(sizes)
            (numbers,) = np.nonzero(kind_of_row.reshape(-1) == kind)
            of_one = self._features([examples[numbers[0]]], shape)
            row_length = of_one["token_ids"].shape[1]
            batch_size = max(1, self._tokens_per_batch // row_length)
            for begin in range(0, len(numbers), batch_size):
                yield shape, numbers[begin : begin + batch_size]

    def _features(
        self, examples: Sequence[Example], shape: RowShape
    ) -> dict[str, tf.Tensor]:
        laid_out = self._layout.lay_out(examples, shape)
        if self._mean:
            laid_out["sentence_number"] = self._numbers(examples, laid_out["token_ids"])
        return {
            name: tf.constant(laid_out[name], feature.dtype)
            for name, feature in self._contract().items()
        }

    def _numbers(
        self, examples: Sequence[Example], token_ids: np.ndarray
    ) -> np.ndarray:
        """The number of its text, from 1, at each word piece."""
        numbers = np.zeros_like(token_ids)
        for row, example in zip(numbers, examples, strict=True):
            starts = self._layout.piece_starts(example)
            for number, (start, segment) in enumerate(
                zip(starts, example, strict=True), 1
            ):
                row[start : start + len(segment.pieces)] = number
        return numbers

    def _contract(self) -> dict[str, Feature]:
        """Of the features that are read."""
        return {name: FEATURES[name] for name in self._names}

    def _checksum(self) -> str:
        """SHA-256 of what the encoder is and of its weights."""
        config = {
            name: value
            for name, value in self._encoder.get_config().items()
            if name not in _NAMES
        }
        found = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
        for weight in self._encoder.get_weights():
            found.update(np.ascontiguousarray(weight).tobytes())
        return found.hexdigest()
