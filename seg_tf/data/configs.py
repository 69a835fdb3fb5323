"""Configs of inputs and maskings; without TensorFlow, which takes seconds to import."""

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

# At least one word next to <SS>, <Attn> and </s>.
_SentenceLength = Annotated[int, Range("be at least 4", 4)]


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Positions that masked LM predicts, and their replacements in the input.

    Defaults are BERT's: 15 % of the positions, at most `max_predictions` of
    them; 80 % become `[MASK]`, 10 % a random piece, the rest stay.
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
    """`MaskingConfig` that predicts spans of pieces of one sentence.

    Attributes:
        max_span_length: maximum number of pieces of a span.
        span_end_rate: p of the geometric distribution of lengths.
    """

    max_span_length: Count = 3
    span_end_rate: Share = 0.2


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowInputsConfig(Ranged):
    """One window of a document per row: `[CLS] pieces [SEP]`, padded to a length.

    Attributes:
        window_length: positions of a full window.
        masking: the predictions in each window.
        block_rows: consecutive rows that are read at about the same time, for remote
            records. None permutes all rows of an epoch.
        blocks_at_once: blocks whose rows are mixed.
    """

    # Whether several folders of records can be mixed.
    can_mix: ClassVar[bool] = True
    # The paper whose fine-tuning settings apply; None has none.
    paper: ClassVar[str | None] = "segatron"
    # Arguments of a model that reads such rows.
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
    """Several windows per row, which the model separates.

    Attributes:
        max_windows_per_row: maximum number of windows of a row.
    """

    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"packed_windows": True}
    )

    max_windows_per_row: Count = 8


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ShuffledWindowInputsConfig(WindowInputsConfig):
    """One window per row, sentences shuffled, without a token for them (SLM, table 4).

    Attributes:
        max_sentences: maximum number of sentences of a row; random adjacent sentences
            of larger windows are merged.
        shuffle_rate: probability that the sentences of a row are shuffled.
    """

    paper: ClassVar[str | None] = "slm"

    masking: MaskingConfig = SpanMaskingConfig()
    max_sentences: Count = 20
    shuffle_rate: Rate = 0.5


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceInputsConfig(ShuffledWindowInputsConfig):
    """One window per row, `[SENT]` before every sentence, sentences shuffled (SLM).

    A row is longer than a window by `max_sentences`, so that no piece is dropped
    for a `[SENT]`.
    """

    window_length: Count = 492

    @property
    def row_length(self) -> int:
        return self.window_length + self.max_sentences

    @property
    def num_candidates(self) -> int:
        """`[CLS]`, the sentences and `[SEP]`: also the values of `sentence_id`."""
        return self.max_sentences + 2


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReATInputsConfig(WindowInputsConfig):
    """Texts as sentences, `<SS> <Attn> words </s>`, several texts per row (ReAT).

    A window of the records is cut completely into texts of whole sentences, in two
    ways: short texts of short sentences, and long ones. A sentence that is too long is
    cut into even parts, which count as sentences. A row contains texts of one kind.

    Attributes:
        window_length: positions of the records' windows, from which texts are cut.
            Long texts need long windows.
        row_length: positions of a row, a multiple of the model's `block_length`.
        sentences_per_row: maximum number of sentences of a row.
        short_sentence_length: positions of the longest sentence of a short text, its
            three special tokens included.
        short_max_sentences: maximum number of sentences of a short text.
        long_sentence_length: as for short texts.
        long_max_sentences: as for short texts.
        long_rate: share of the rows with long texts.
        exchange_rate: share of the sentences that are moved; parts of a cut sentence
            stay and do not count.
        exchange_within: "text", or "row" for places in all texts of a row, which is
            learned far sooner.
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
    """A corpus as one stream of words, read in parallel lanes (Transformer-XL).

    A batch has a row for every lane, its next `target_length` words; the next batch
    continues each lane. In training the batch size is the number of lanes.

    Attributes:
        target_length: words of a row; each predicts the next one.
        validation_lanes: lanes of held-out text.
    """

    can_mix: ClassVar[bool] = False
    paper: ClassVar[str | None] = None
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    target_length: Count = 150
    validation_lanes: Count = 10

    @property
    def row_length(self) -> int:
        return self.target_length
