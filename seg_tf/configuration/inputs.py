"""Configs of the input pipelines: the content of a row."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from seg_tf.configuration.bounds import Count, Range, Rate, check_ranges
from seg_tf.configuration.masking import MaskingConfig, SpanMaskingConfig
from seg_tf.configuration.registry import register

EXCHANGE_WITHIN = ("text", "row")
"""Where sentences may change places: in their text, or among all texts of a row."""


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowInputsConfig:
    """One window of a document a row: `[CLS] pieces [SEP]`, padded to a length.

    Attributes:
        window_length: positions of a full window.
        masking: what is predicted in each window.
        block_rows: rows that follow one another in the records and are read at about
            the same time, for records that are read from a bucket. None takes the rows
            of an epoch from everywhere.
        blocks_at_once: blocks whose rows are mixed.
    """

    implementation: ClassVar[str] = "seg_tf.data.window_inputs:WindowInputs"
    # Reads several folders of records as one; None where that is not possible.
    mixture: ClassVar[str | None] = "seg_tf.data.mixture_inputs:MixtureInputs"
    # Rows of whoever uses the model on texts; None where it reads none.
    layout: ClassVar[str | None] = "seg_tf.layouts.windows:WindowLayout"
    # Whose grid of fine-tuning settings it takes, one of seg_tf.finetuning's; or None.
    paper: ClassVar[str | None] = "segatron"

    # Further arguments of a model that reads such rows.
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    window_length: Count = 512
    masking: MaskingConfig = MaskingConfig()
    block_rows: Count | None = None
    blocks_at_once: Count = 64

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def row_length(self) -> int:
        """Positions of a row."""
        return self.window_length


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedWindowInputsConfig(WindowInputsConfig):
    """Several windows a row, told apart by the model, each as if alone.

    Attributes:
        max_windows_per_row: the most windows of a row. More than three fill rows
            better only where most documents are far shorter than a window.
    """

    implementation: ClassVar[str] = (
        "seg_tf.data.packed_window_inputs:packed_window_inputs"
    )
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"packed_windows": True}
    )

    max_windows_per_row: Count = 8


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class ShuffledWindowInputsConfig(WindowInputsConfig):
    """One window a row, sentences shuffled, without a token for them (SLM, table 4).

    Fine-tuning and all else that comes after pretraining read plain windows.

    Attributes:
        max_sentences: the most sentences of a row; where a window has more, adjacent
            ones are merged at random until so many are left.
        shuffle_rate: probability that the sentences of a row are shuffled.
    """

    implementation: ClassVar[str] = "seg_tf.data.sentence_inputs:shuffled_window_inputs"
    paper: ClassVar[str | None] = "slm"

    masking: MaskingConfig = SpanMaskingConfig()
    max_sentences: Count = 20
    shuffle_rate: Rate = 0.5


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceInputsConfig(ShuffledWindowInputsConfig):
    """One window a row, `[SENT]` before every sentence, sentences shuffled (SLM).

    A row is longer than a window by `max_sentences`, so that no piece is dropped
    for a `[SENT]`.
    """

    implementation: ClassVar[str] = "seg_tf.data.sentence_inputs:sentence_inputs"
    layout: ClassVar[str | None] = "seg_tf.layouts.sentences:SentenceLayout"

    window_length: Count = 492

    @property
    def row_length(self) -> int:
        """Positions of a row."""
        return self.window_length + self.max_sentences

    @property
    def num_candidates(self) -> int:
        """`[CLS]`, the sentences and `[SEP]`: also the values of `sentence_id`."""
        return self.max_sentences + 2


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReATInputsConfig(WindowInputsConfig):
    """Texts as sentences, `<SS> <Attn> words </s>`, as many texts a row as fit (ReAT).

    A window of the records is cut into texts of whole sentences, nothing left out, in
    two ways: short ones of short sentences, and long ones. A sentence that is too long
    is cut into even parts, each of which counts as a sentence. A row holds texts of
    one kind; its size is the budget that a batch is made by.

    Attributes:
        window_length: positions of the records' windows, from which texts are cut.
            Long windows, so that there are long texts.
        row_length: positions of a row, a multiple of the model's `block_length`.
        sentences_per_row: the most sentences of a row.
        short_sentence_length: positions of the longest sentence of a short text, its
            three special tokens included.
        short_max_sentences: the most sentences of a short text.
        long_sentence_length: as for short texts.
        long_max_sentences: as for short texts.
        long_rate: share of the rows that hold long texts.
        exchange_rate: share of the sentences that are displaced, among themselves;
            parts of a cut sentence stay and do not count.
        exchange_within: "text", or "row" for places in all texts of a row: then what
            moved is most often among strangers, which is learned far sooner.
    """

    implementation: ClassVar[str] = "seg_tf.data.reat_inputs:reat_inputs"
    layout: ClassVar[str | None] = "seg_tf.layouts.blocks:BlockLayout"
    paper: ClassVar[str | None] = None

    window_length: Count = 16_384
    masking: MaskingConfig = MaskingConfig(max_predictions=1_076)
    # About 256 sentences of 27 positions, or somewhat fewer longer ones.
    row_length: Count = 7_168
    sentences_per_row: Count = 336
    # Three positions of a sentence are taken by <SS>, <Attn> and </s>.
    short_sentence_length: Annotated[int, Range(4)] = 48
    short_max_sentences: Count = 16
    long_sentence_length: Annotated[int, Range(4)] = 128
    long_max_sentences: Count = 128
    long_rate: Rate = 0.1
    exchange_rate: Rate = 0.2
    exchange_within: str = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exchange_within not in EXCHANGE_WITHIN:
            raise ValueError(
                f"`exchange_within` must be one of {', '.join(EXCHANGE_WITHIN)}. "
                f"Received: {self.exchange_within!r}"
            )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class LaneInputsConfig:
    """A corpus as one stream of words, read in lanes side by side (Transformer-XL).

    A batch has a row for every lane, its next `target_length` words; the batch after
    it continues each lane. Training has as many lanes as a batch has rows.

    Attributes:
        target_length: words of a row, each of which predicts the one after it.
        validation_lanes: lanes that held-out text is read in.
    """

    implementation: ClassVar[str] = "seg_tf.data.lane_inputs:LaneInputs"
    mixture: ClassVar[str | None] = None
    layout: ClassVar[str | None] = None
    paper: ClassVar[str | None] = None

    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    target_length: Count = 150
    validation_lanes: Count = 10

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def row_length(self) -> int:
        """Positions of a row."""
        return self.target_length
