"""Objectives."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, ClassVar

from seg_tf.configuration.registry import register


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLMConfig:
    """Masked language modelling over gathered positions (Devlin et al., 2018)."""

    implementation: ClassVar[str] = "seg_tf.objectives.masked_lm:MaskedLM"

    loss_weight: float = 1.0


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceUnshufflingConfig:
    """Sentence unshuffling by a Sequence Reconstructor (SLM, section 2.1).

    Attributes:
        num_layers: layers of the reconstructor; their sizes are the encoder's.
        initializer_range: standard deviation that the reconstructor's kernels start
            with; None is the encoder's.
        scale_pointers: divide pointer logits by the root of the width, as attention
            does; equation 2 has no scale.
    """

    implementation: ClassVar[str] = (
        "seg_tf.objectives.sentence_unshuffling:SentenceUnshuffling"
    )

    num_layers: int = 3
    initializer_range: float | None = None
    scale_pointers: bool = False
    loss_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.initializer_range is not None and not self.initializer_range > 0:
            raise ValueError(
                "`initializer_range` of SentenceUnshufflingConfig must be above 0, or "
                "None for the encoder's. Received: "
                f"initializer_range={self.initializer_range}"
            )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class ExchangeSentenceConfig:
    """Detection of sentences moved within their text (ReAT, section II.E)."""

    implementation: ClassVar[str] = (
        "seg_tf.objectives.exchange_sentence:ExchangeSentence"
    )

    loss_weight: float = 1.0


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class CausalLMConfig:
    """Prediction of the next word by an adaptive softmax (Transformer-XL)."""

    implementation: ClassVar[str] = "seg_tf.objectives.causal_lm:CausalLM"

    # Further arguments where XLA compiles the objective.
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )

    loss_weight: float = 1.0
