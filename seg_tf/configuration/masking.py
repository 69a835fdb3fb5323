"""Configs of the choice of positions that a model predicts."""

import dataclasses
from typing import ClassVar

from seg_tf.configuration.bounds import check_at_least
from seg_tf.configuration.registry import register


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Positions that masked LM predicts, and their replacements in the input.

    Defaults are BERT's: 15 % of the positions, at most `max_predictions` of
    them; 80 % become `[MASK]`, 10 % a random piece, the rest stay.
    """

    implementation: ClassVar[str] = "data_pipelines.loading.masking:TokenMasking"

    mask_rate: float = 0.15
    max_predictions: int = 80
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1

    def __post_init__(self) -> None:
        check_at_least(self, 1, "max_predictions")
        if not 0 < self.mask_rate < 1:
            raise ValueError(
                "`mask_rate` must lie between 0 and 1. "
                f"Received: mask_rate={self.mask_rate}"
            )
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

    implementation: ClassVar[str] = "data_pipelines.loading.span_masking:SpanMasking"

    max_span_length: int = 3
    span_end_rate: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "max_span_length")
        if not 0 < self.span_end_rate <= 1:
            raise ValueError(
                "`span_end_rate` must be positive and at most 1. Received: "
                f"span_end_rate={self.span_end_rate}"
            )
