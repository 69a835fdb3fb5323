"""Configs of inputs and masking. Importing them does not load TensorFlow."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from seg_tf.config import register_config
from seg_tf.config.base import (
    Count,
    Fraction,
    Range,
    Ranged,
    Rate,
    Share,
    check_choice,
    check_ranges,
)

# `<SS>`, `<Attn>`, `</s>` and at least one word.
_SentenceLength = Annotated[int, Range("be at least 4", 4)]


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Settings of masked language modeling, with BERT's defaults.

    Attributes:
        mask_rate: float. Fraction of the word pieces of a row to predict.
        max_predictions: int. Maximum number of predictions per row.
        mask_token_rate: float. Fraction of predicted pieces replaced by `[MASK]`.
        random_token_rate: float. Fraction of predicted pieces replaced by random ones.
            The rest is kept. Together, the two fractions are at most 1.
    """

    mask_rate: Fraction = 0.15
    max_predictions: Count = 80
    mask_token_rate: Rate = 0.8
    random_token_rate: Rate = 0.1

    def __post_init__(self) -> None:
        check_ranges(self)
        if (total := self.mask_token_rate + self.random_token_rate) > 1:
            raise ValueError(
                "`mask_token_rate` and `random_token_rate` must not exceed 1 "
                f"together. Received: {total}"
            )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanMaskingConfig(MaskingConfig):
    """Settings of masked language modeling that predicts spans inside sentences.

    Attributes:
        max_span_length: int. Maximum number of pieces of a span.
        span_end_rate: float. Parameter p of the geometric distribution of span lengths.
    """

    max_span_length: Count = 3
    span_end_rate: Share = 0.2


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowInputsConfig(Ranged):
    """Settings of rows with one window each: `[CLS] pieces [SEP]` and padding.

    Attributes:
        window_length: int. The records' `window_length`, with `[CLS]` and `[SEP]`.
        masking: `MaskingConfig`. Settings of the masking.
        block_rows: int. Number of consecutive rows per block. Rows of a block are read
            at about the same time, which suits remote records. If None, all rows of an
            epoch are permuted together.
        blocks_at_once: int. Number of blocks whose rows are permuted together.
    """

    # Whether several folders of records can be mixed.
    can_mix: ClassVar[bool] = True
    # The paper whose fine-tuning settings apply, if any.
    paper: ClassVar[str | None] = "segatron"
    # Arguments for a model that reads these rows.
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    window_length: Count = 512
    masking: MaskingConfig = MaskingConfig()
    block_rows: Count | None = None
    blocks_at_once: Count = 64

    @property
    def row_length(self) -> int:
        return self.window_length


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedWindowInputsConfig(WindowInputsConfig):
    """Settings of rows that pack at most `max_windows_per_row` independent windows."""

    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"packed_windows": True}
    )

    max_windows_per_row: Count = 8


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ShuffledWindowInputsConfig(WindowInputsConfig):
    """Settings of rows with shuffled sentences and no `[SENT]` (SLM, table 4).

    Attributes:
        max_sentences: int. Maximum number of sentences per row. In windows with more
            sentences, random adjacent sentences are merged.
        shuffle_rate: float. Probability that the sentences of a row are shuffled.
    """

    paper: ClassVar[str | None] = "slm"

    masking: MaskingConfig = SpanMaskingConfig()
    max_sentences: Count = 20
    shuffle_rate: Rate = 0.5


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceInputsConfig(ShuffledWindowInputsConfig):
    """Settings of rows with shuffled sentences, each after a `[SENT]` token (SLM)."""

    window_length: Count = 492

    @property
    def row_length(self) -> int:
        # No piece is dropped to make room for a `[SENT]`.
        return self.window_length + self.max_sentences

    @property
    def num_candidates(self) -> int:
        """Maximum number of pointer candidates: sentences, `[CLS]` and `[SEP]`."""
        return self.max_sentences + 2


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReATInputsConfig(WindowInputsConfig):
    """Settings of rows of texts, whose sentences are `<SS> <Attn> words </s>` (ReAT).

    Each window of the records is split at sentence boundaries twice: into short texts,
    and into long texts. Sentences that are too long are split into even parts, which
    count as sentences. A row contains only short texts or only long texts.

    Attributes:
        window_length: int. The records' `window_length`. Long texts need long windows.
        row_length: int. Length of a row, a multiple of the model's `block_length`.
        sentences_per_row: int. Maximum number of sentences per row.
        short_sentence_length: int. Maximum length of a sentence of a short text,
            including its three special tokens.
        short_max_sentences: int. Maximum number of sentences of a short text.
        long_sentence_length: int. Like `short_sentence_length`, for long texts.
        long_max_sentences: int. Like `short_max_sentences`, for long texts.
        long_rate: float. Fraction of the rows that contain long texts.
        exchange_rate: float. Fraction of the sentences that exchange positions. Parts
            of a split sentence never move and do not count.
        exchange_within: str. "text" moves sentences within their text. "row" moves them
            among all texts of a row, which models learn to detect much faster.
    """

    paper: ClassVar[str | None] = None

    window_length: Count = 16_384
    masking: MaskingConfig = MaskingConfig(max_predictions=1_076)
    # About 256 sentences of 27 positions.
    row_length: Count = 7_168
    sentences_per_row: Count = 336
    short_sentence_length: _SentenceLength = 48
    short_max_sentences: Count = 16
    long_sentence_length: _SentenceLength = 128
    long_max_sentences: Count = 128
    long_rate: Rate = 0.1
    exchange_rate: Rate = 0.2
    exchange_within: str = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("exchange_within", self.exchange_within, ("text", "row"))


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class LaneInputsConfig(Ranged):
    """Settings for reading a corpus as parallel streams, called lanes (Transformer-XL).

    Lanes start at equally spaced words of the corpus. Each row of a batch contains the
    next words of one lane. In training, the batch size is the number of lanes.

    Attributes:
        target_length: int. Number of words per row, each with the next word as target.
        validation_lanes: int. Number of lanes into which the held-out text is divided.
    """

    can_mix: ClassVar[bool] = False
    paper: ClassVar[str | None] = None
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    target_length: Count = 150
    validation_lanes: Count = 10

    @property
    def row_length(self) -> int:
        return self.target_length
