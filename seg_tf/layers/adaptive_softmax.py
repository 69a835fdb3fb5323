"""A softmax over words that costs less for frequent ones."""

# Shape key: N positions, M positions of a tail, D hidden size, V words of a part (of
# all at the very end), E width of their vectors, H words of the head and T tails, H + T
# columns of the head.

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from seg_tf.layers.adaptive_embedding import AdaptiveEmbedding, split_rows
from seg_tf.ops.vocabulary_padding import pad_vocabulary


@keras.saving.register_keras_serializable(package="seg_tf")
class AdaptiveSoftmax(keras.layers.Layer):
    """Distribution of the next word over a head and tails (Grave et al., 2017).

    The head is a softmax over its words and over the tails, each of which has a vector
    there as words have one; a tail is a softmax over its words:

        P(w) = P(w | head)                       for a word of the head
        P(w) = P(tail | head) * P(w | tail)      for another

    so that a tail's words cost nothing where the target is none of them.

    Word vectors are those of the embedding, and so are the projections of the tails.
    The head has a separate projection, as in Transformer-XL; where the embedding has
    none, nothing is projected here either.

    Products are taken in the compute dtype, softmaxes in float32.

    Args:
        embedding: `AdaptiveEmbedding`. Where words, parts and vectors come from.
        static_shapes: bool. Whether to compute every tail at every position, which
            gives the same numbers in shapes that do not depend on the targets, for XLA
            and JAX. It costs the time and the memory of a softmax over all words.
        vocab_multiple: int. Multiple to which the words of every part are padded for
            the kernels of a GPU; weights and losses are the same for any.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: float tensor `(…, D)`.
        targets: int tensor `(…)`, each below the embedding's `vocab_size`.
        weights: float or bool tensor `(…)`, factors of the losses; None takes 1. No
            tail is computed for a weight of 0, unless `static_shapes`.

    Returns:
        float32 tensor `(…)`: the weighted negative log probability of each target.

    Example:
    >>> embedding = AdaptiveEmbedding(
    ...     vocab_size=100, hidden_size=8, embedding_size=8, cutoffs=(10, 40)
    ... )
    >>> softmax = AdaptiveSoftmax(embedding)
    >>> hidden = ops.zeros((2, 3, 8))
    >>> tuple(softmax(hidden, ops.array([[0, 11, 99], [5, 6, 7]])).shape)
    (2, 3)
    >>> tuple(softmax.log_probabilities(hidden).shape)
    (2, 3, 100)
    """

    def __init__(
        self,
        embedding: AdaptiveEmbedding,
        static_shapes: bool = False,
        vocab_multiple: int = 1,
        **kwargs: Any,
    ):
        # Losses and weights stay float32; what is multiplied is cast here.
        super().__init__(autocast=False, **kwargs)
        self.embedding = embedding
        self.static_shapes = static_shapes
        self.vocab_multiple = vocab_multiple

    def build(
        self,
        hidden_shape: Any = None,
        targets_shape: Any = None,
        weights_shape: Any = None,
    ) -> None:
        embedding = self.embedding
        if not embedding.built:
            embedding.build()
        head, *tails = embedding.parts
        self._projection = None
        if embedding.is_projected:
            self._projection = embedding.add_projection(self, "projection", head.width)
        self._bias = self.add_weight(
            name="bias",
            shape=(embedding.vocab_size,),
            initializer="zeros",
            autocast=False,
        )
        if tails:
            self._cluster_vectors = self.add_weight(
                name="cluster_vectors",
                shape=(len(tails), head.width),
                initializer="zeros",
                autocast=False,
            )
            self._cluster_bias = self.add_weight(
                name="cluster_bias",
                shape=(len(tails),),
                initializer="zeros",
                autocast=False,
            )

    def call(self, hidden: Any, targets: Any, weights: Any = None) -> Any:
        hidden_ND = self._flatten(hidden)
        targets_N = ops.reshape(targets, (-1,))
        weights_N = None
        if weights is not None:
            weights_N = ops.reshape(ops.cast(weights, "float32"), (-1,))
        head, *tails = (
            (projection, *pad_vocabulary(table, bias, self.vocab_multiple))
            for projection, table, bias in self._output_layers()
        )
        losses_N = _cross_entropy(_logits(hidden_ND, *head), self._columns(targets_N))
        tail_losses = _every_loss if self.static_shapes else _gathered_losses
        for part, layer in zip(self.embedding.parts[1:], tails, strict=True):
            is_in_tail_N = ops.logical_and(
                targets_N >= part.begin, targets_N < part.end
            )
            if weights_N is not None:
                is_in_tail_N = ops.logical_and(is_in_tail_N, weights_N != 0)
            words_N = ops.clip(targets_N - part.begin, 0, part.end - part.begin - 1)
            losses_N += tail_losses(hidden_ND, words_N, is_in_tail_N, layer)
        if weights_N is not None:
            losses_N *= weights_N
        return ops.reshape(losses_N, ops.shape(targets))

    def compute_output_spec(
        self, hidden: Any, targets: Any, weights: Any = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(targets.shape, "float32")

    def log_probabilities(self, hidden: Any) -> Any:
        """The natural log of every word's probability, of float32 `(…, V)`.

        Args:
            hidden: float tensor `(…, D)`.
        """
        hidden_ND = self._flatten(hidden)
        head, *tails = (
            ops.log_softmax(_logits(hidden_ND, *layer))
            for layer in self._output_layers()
        )
        num_words = self.embedding.parts[0].end
        parts = [head[:, :num_words]]
        for number, tail_NV in enumerate(tails, start=num_words):
            parts.append(head[:, number, None] + tail_NV)
        all_NV = ops.concatenate(parts, axis=1)
        return ops.reshape(all_NV, (*ops.shape(hidden)[:-1], self.embedding.vocab_size))

    def _flatten(self, hidden: Any) -> Any:
        size = self.embedding.hidden_size
        return ops.reshape(ops.cast(hidden, self.compute_dtype), (-1, size))

    def _output_layers(self) -> list[tuple[Any, Any, Any]]:
        """Projection, vectors and bias of the head, clusters among it, and the tails.

        Arguments of `_logits`: vectors in the compute dtype, bias in float32.
        """
        tables = self.embedding.part_tables()
        projections = self.embedding.part_projections()
        biases = split_rows(ops.cast(self._bias, "float32"), self.embedding.cutoffs)
        if self._projection is not None:
            projections[0] = ops.cast(self._projection, self.compute_dtype)
        if len(tables) > 1:
            vectors_TE = ops.cast(self._cluster_vectors, self.compute_dtype)
            bias_T = ops.cast(self._cluster_bias, "float32")
            tables[0] = ops.concatenate([tables[0], vectors_TE], axis=0)
            biases[0] = ops.concatenate([biases[0], bias_T], axis=0)
        return list(zip(projections, tables, biases, strict=True))

    def _columns(self, targets_N: Any) -> Any:
        """The column of the head that is right: the word's, or its tail's."""
        head, *tails = self.embedding.parts
        columns_N = ops.minimum(targets_N, head.end)
        for tail in tails[1:]:
            columns_N += ops.cast(targets_N >= tail.begin, columns_N.dtype)
        return columns_N

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embedding": keras.saving.serialize_keras_object(self.embedding),
            "static_shapes": self.static_shapes,
            "vocab_multiple": self.vocab_multiple,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "AdaptiveSoftmax":
        embedding = keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**{**config, "embedding": embedding})


def _every_loss(
    hidden_ND: Any, words_N: Any, is_in_tail_N: Any, layer: tuple[Any, ...]
) -> Any:
    """Losses of a tail, computed at every position and kept where it counts."""
    return ops.where(
        is_in_tail_N, _cross_entropy(_logits(hidden_ND, *layer), words_N), 0
    )


def _gathered_losses(
    hidden_ND: Any, words_N: Any, is_in_tail_N: Any, layer: tuple[Any, ...]
) -> Any:
    """The same, computed where it counts: shapes depend on how often that is."""
    (positions_M,) = ops.nonzero(is_in_tail_N)
    hidden_MD = ops.take(hidden_ND, positions_M, axis=0)
    words_M = ops.take(words_N, positions_M, axis=0)
    losses_M = _cross_entropy(_logits(hidden_MD, *layer), words_M)
    return ops.scatter(positions_M[:, None], losses_M, ops.shape(words_N))


def _logits(hidden_ND: Any, projection_ED: Any, vectors_VE: Any, bias_V: Any) -> Any:
    """Scores `(N, V)` in float32, of products in the dtype of the arguments."""
    if projection_ED is not None:
        hidden_ND = ops.matmul(hidden_ND, ops.transpose(projection_ED))
    logits_NV = ops.matmul(hidden_ND, ops.transpose(vectors_VE))
    return ops.cast(logits_NV, "float32") + bias_V


def _cross_entropy(logits_NV: Any, words_N: Any) -> Any:
    # One operator, which keeps one array of the size of the logits for the gradient.
    return ops.sparse_categorical_crossentropy(words_N, logits_NV, from_logits=True)
