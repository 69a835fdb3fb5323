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
    # Whether it takes the `vocab_multiple` of the run.
    pads_vocabulary: ClassVar[bool] = True

    loss_weight: float = 1.0


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceUnshufflingConfig:
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

    num_layers: int = 3
    scale_pointers: bool = False
    normalize_first: bool = False
    loss_weight: float = 1.0


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
    pads_vocabulary: ClassVar[bool] = True

    # Further arguments where XLA compiles the objective.
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )

    loss_weight: float = 1.0
