"""Configs of the choice of positions that a model predicts."""

import dataclasses
from typing import ClassVar

from seg_tf.configuration.bounds import Count, Fraction, Rate, Share, check_ranges
from seg_tf.configuration.registry import register


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Positions that masked LM predicts, and their replacements in the input.

    Defaults are BERT's: 15 % of the positions, at most `max_predictions` of
    them; 80 % become `[MASK]`, 10 % a random piece, the rest stay.
    """

    implementation: ClassVar[str] = "seg_tf.data.masking:TokenMasking"

    mask_rate: Fraction = 0.15
    max_predictions: Count = 80
    mask_token_rate: Rate = 0.8
    random_token_rate: Rate = 0.1

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.mask_token_rate + self.random_token_rate > 1:
            raise ValueError(
                "`mask_token_rate` and `random_token_rate` must not exceed 1 "
                f"together. Received: mask_token_rate={self.mask_token_rate}, "
                f"random_token_rate={self.random_token_rate}"
            )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanMaskingConfig(MaskingConfig):
    """`MaskingConfig`, but what is predicted are spans of pieces of one sentence.

    Attributes:
        max_span_length: the most pieces of a span.
        span_end_rate: p of the geometric distribution of lengths, cut off (and made to
            sum to 1 again) at `max_span_length`.
    """

    implementation: ClassVar[str] = "seg_tf.data.span_masking:SpanMasking"

    max_span_length: Count = 3
    span_end_rate: Share = 0.2
