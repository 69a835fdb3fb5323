"""Objectives."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, ClassVar

from seg_tf.configuration.bounds import Count, NonNegative, check_ranges
from seg_tf.configuration.registry import register


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ObjectiveConfig:
    """Settings of every objective.

    Attributes:
        loss_weight: factor of its loss in the sum.
    """

    loss_weight: NonNegative = 1.0

    def __post_init__(self) -> None:
        check_ranges(self)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLMConfig(_ObjectiveConfig):
    """Masked language modelling over gathered positions (Devlin et al., 2018)."""

    implementation: ClassVar[str] = "seg_tf.objectives.masked_lm:MaskedLM"
    # Whether it takes the `vocab_multiple` of the run.
    pads_vocabulary: ClassVar[bool] = True


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceUnshufflingConfig(_ObjectiveConfig):
    """Sentence unshuffling by a Sequence Reconstructor (SLM, section 2.1).

    Attributes:
        num_layers: layers of the reconstructor; their sizes are the encoder's.
        scale_pointers: divide pointer logits by the root of the width, as attention
            does; equation 2 has no scale.
        normalize_first: normalise the inputs of the reconstructor's blocks (pre-norm),
            not their outputs.
    """

    implementation: ClassVar[str] = (
        "seg_tf.objectives.sentence_unshuffling:SentenceUnshuffling"
    )

    num_layers: Count = 3
    scale_pointers: bool = False
    normalize_first: bool = False

    def least_weights(self, hidden_size: int) -> int:
        """Fewest weights of the reconstructor: its attention has eight matrices."""
        return self.num_layers * 8 * hidden_size**2


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class ExchangeSentenceConfig(_ObjectiveConfig):
    """Detection of sentences moved within their text (ReAT, section II.E)."""

    implementation: ClassVar[str] = (
        "seg_tf.objectives.exchange_sentence:ExchangeSentence"
    )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class CausalLMConfig(_ObjectiveConfig):
    """Prediction of the next word by an adaptive softmax (Transformer-XL)."""

    implementation: ClassVar[str] = "seg_tf.objectives.causal_lm:CausalLM"
    pads_vocabulary: ClassVar[bool] = True

    # Further arguments where XLA compiles the objective.
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )
