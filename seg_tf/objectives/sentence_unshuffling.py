"""Sentence unshuffling, which points at a row's sentences in their gold order."""

# Shape key: B batch, L sequence length, D hidden size, C candidates, S steps.

from typing import Any

import keras
from keras import ops

from seg_tf.config import SentenceUnshufflingConfig, configured_by
from seg_tf.layers.common import select_features
from seg_tf.layers.sequence_reconstructor import SequenceReconstructor
from seg_tf.objectives.base import Features, ObjectiveLayer, ObjectiveOutput
from seg_tf.ops import order_metrics
from seg_tf.ops.attention import gather_vectors
from seg_tf.ops.losses import masked_accuracy, masked_cross_entropy

_FEATURES = (
    "candidate_positions",
    "candidate_mask",
    "gold_candidates",
    "gold_lengths",
    "gold_paragraphs",
    "is_shuffled",
)


@configured_by(SentenceUnshufflingConfig)
@keras.saving.register_keras_serializable(package="seg_tf")
class SentenceUnshuffling(ObjectiveLayer):
    """SLM's sentence-level language modeling (section 2.1, eq. 1 to 3).

    A Sequence Reconstructor reads only the encoder's outputs at `[CLS]`, at each
    `[SENT]` in the row's order, and at `[SEP]`. It points at the sentences in gold
    order, then at `[SEP]`. The loss of a row is the mean over its steps. Rows whose
    sentences were not shuffled also contribute to the loss.

    Metrics cover shuffled rows with at least two sentences. They come with two
    baselines: `chance`, a random guess, and `longest_first`, sorting by length.

    Args:
        encoder: the encoder whose output is read. The reconstructor uses the same
            sizes, dropout, epsilon, activation, initializer and dtype policy.
        num_layers, scale_pointers, normalize_first: arguments of
            `seg_tf.layers.SequenceReconstructor`.
        loss_weight: float. Weight of this loss in the total loss.

    Call arguments:
        sequence_output: float tensor `(B, L, D)` from the encoder.
        features: dict with int `candidate_positions` `(B, C)`, bool `candidate_mask`
            `(B, C)`, int `gold_candidates`, `gold_lengths` and `gold_paragraphs`
            `(B, S)` (S = C - 1), and bool `is_shuffled` `(B,)`. See `seg_tf.features`.
        training: bool. Whether to apply dropout and skip the metrics of decoding.

    Returns:
        `ObjectiveOutput`. Its loss is `(0, 0)` without candidates. Its metrics are:

        * `pointer_accuracy`, `pointer_chance`, `pointer_longest_first`: fraction of
          steps that point at the right sentence after reading the gold order so far.
          The step for `[SEP]` does not count.
        * Unless `training`, metrics of the decoded order: `position_accuracy`, fraction
          of positions with the right sentence; `perfect_match`, fraction of rows in the
          right order; `kendall_tau` and `kendall_tau_in_paragraphs`, whose chance is 0.
          All have baselines `…_longest_first`, and the first two also `…_chance`.
    """

    def __init__(
        self,
        encoder: Any,
        num_layers: int = 3,
        scale_pointers: bool = False,
        normalize_first: bool = False,
        loss_weight: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(encoder, loss_weight, **kwargs)
        self.num_layers = num_layers
        self.scale_pointers = scale_pointers
        self.normalize_first = normalize_first
        self.reconstructor = SequenceReconstructor(
            num_layers=num_layers,
            num_heads=encoder.num_heads,
            intermediate_size=encoder.intermediate_size,
            dropout=encoder.dropout,
            layer_norm_epsilon=encoder.layer_norm_epsilon,
            initializer_range=encoder.initializer_range,
            approximate_gelu=encoder.approximate_gelu,
            scale_pointers=scale_pointers,
            normalize_first=normalize_first,
            dtype=encoder.dtype_policy,
            name="reconstructor",
        )

    def build(self, sequence_output_shape: Any, features_shape: Any = None) -> None:
        self.reconstructor.build((None, None, sequence_output_shape[-1]))

    def count(self, features: Features) -> Any:
        """Returns the number of rows with candidates, a float32 scalar."""
        has_candidates_B = ops.any(ops.cast(features["candidate_mask"], "bool"), axis=1)
        return ops.sum(ops.cast(has_candidates_B, "float32"))

    def call(
        self, sequence_output: Any, features: Features, training: bool | None = None
    ) -> ObjectiveOutput:
        select_features(features, _FEATURES)
        mask_BC = ops.cast(features["candidate_mask"], "bool")
        gold_BS = features["gold_candidates"]
        candidates_BCD = gather_vectors(
            sequence_output, features["candidate_positions"]
        )
        logits_BSC = self.reconstructor(
            candidates_BCD, mask_BC, gold_BS, training=training
        )
        num_steps_B = ops.sum(ops.cast(mask_BC, "int32"), axis=1) - 1
        num_steps_B1 = ops.cast(ops.maximum(num_steps_B, 1), "float32")[:, None]
        shares_BS = _first(num_steps_B, gold_BS) / num_steps_B1
        loss_sum, _ = masked_cross_entropy(logits_BSC, gold_BS, shares_BS)

        num_sentences_B = num_steps_B - 1
        is_shuffled_B = ops.cast(features["is_shuffled"], "bool")
        is_measured_B = ops.logical_and(is_shuffled_B, num_sentences_B >= 2)
        rows = (num_sentences_B, ops.cast(is_measured_B, "float32"))
        metrics = _pointer_metrics(logits_BSC, gold_BS, features["gold_lengths"], *rows)
        if not training:
            order_BS, _ = self.reconstructor.decode(candidates_BCD, mask_BC)
            metrics |= _order_metrics(order_BS, features, *rows)
        return ObjectiveOutput(loss=(loss_sum, self.count(features)), metrics=metrics)


def _pointer_metrics(
    logits_BSC: Any, gold_BS: Any, lengths_BS: Any, num_sentences_B: Any, weights_B: Any
) -> dict[str, tuple[Any, Any]]:
    weights_BS = _first(num_sentences_B, gold_BS) * weights_B[:, None]
    return {
        "pointer_accuracy": masked_accuracy(logits_BSC, gold_BS, weights_BS),
        "pointer_chance": order_metrics.pointer_chance(
            num_sentences_B, weights_B, ops.shape(gold_BS)[1]
        ),
        "pointer_longest_first": order_metrics.pointer_longest_first(
            gold_BS, lengths_BS, num_sentences_B, weights_B
        ),
    }


def _order_metrics(
    order_BS: Any, features: Features, num_sentences_B: Any, weights_B: Any
) -> dict[str, tuple[Any, Any]]:
    gold_BS, paragraphs_BS = features["gold_candidates"], features["gold_paragraphs"]
    rows = (num_sentences_B, weights_B)
    longest_first_BS = order_metrics.longest_first(
        gold_BS, features["gold_lengths"], num_sentences_B
    )
    decoded = (order_BS, gold_BS, *rows)
    longest_first = (longest_first_BS, gold_BS, *rows)
    return {
        "position_accuracy": order_metrics.position_accuracy(*decoded),
        "position_chance": order_metrics.position_chance(*rows),
        "position_longest_first": order_metrics.position_accuracy(*longest_first),
        "perfect_match": order_metrics.perfect_match(*decoded),
        "perfect_match_chance": order_metrics.perfect_match_chance(
            *rows, ops.shape(gold_BS)[1]
        ),
        "perfect_match_longest_first": order_metrics.perfect_match(*longest_first),
        "kendall_tau": order_metrics.kendall_tau(*decoded),
        "kendall_tau_longest_first": order_metrics.kendall_tau(*longest_first),
        "kendall_tau_in_paragraphs": order_metrics.kendall_tau(*decoded, paragraphs_BS),
        "kendall_tau_in_paragraphs_longest_first": order_metrics.kendall_tau(
            *longest_first, paragraphs_BS
        ),
    }


def _first(counts_B: Any, gold_BS: Any) -> Any:
    """Returns 1.0 at the first `counts_B` steps of each row, otherwise 0.0."""
    return ops.cast(order_metrics.is_place(counts_B, ops.shape(gold_BS)[1]), "float32")
