"""A BERT of another program: what its files say, and where its tensors are."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf.interop import bert_parts
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.layouts import Layout
from seg_tf.interop.tensor_stores import TensorStore


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A foreign checkpoint: its tensors, sizes, settings and vocabulary.

    Attributes:
        format: one of `seg_tf.interop.formats.FORMATS`.
        store: its tensors.
        layout: which of them holds which part.
        sizes: those that its config says.
        table_rows: index feature, or `token_type`, -> rows of its table.
        idle_tables: those of these features that the model never reads.
        vocab_size: pieces of its vocabulary, as its config says; None where none says.
        layer_norm_epsilon: float.
        approximate_gelu: True for GELU by tanh.
        dropout: rate.
        initializer_range: standard deviation of what it was initialised with.
        vocabulary: its vocabulary file, if it has one.
        normalization: settings of `seg_tf.text.normalization.Normalization` that its
            files give; the vocabulary's rows say the rest.
        sentence_splitter: name and checksum of that of its text, where it is known.
        sentence_parameters: those of the splitter, as in `TextPreparation`.
        notes: lines for the report.
        files: the files that the weights came from.
    """

    format: str
    store: TensorStore
    layout: Layout
    sizes: BertSizes
    table_rows: Mapping[str, int]
    idle_tables: tuple[str, ...] = ()
    vocab_size: int | None = None
    layer_norm_epsilon: float = 1e-12
    approximate_gelu: bool = True
    dropout: float = 0.1
    initializer_range: float = 0.02
    vocabulary: pathlib.Path | None = None
    normalization: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    sentence_splitter: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sentence_parameters: bytes | None = None
    notes: tuple[str, ...] = ()
    files: tuple[pathlib.Path, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """Features whose tables have to be read; positions are BERT's at least."""
        is_bert = not self.is_segabert and bert_parts.POSITIONS in self.layout
        least = ("position_index",) if is_bert else ()
        return tuple(dict.fromkeys([*least, *self.table_rows]))

    @property
    def is_segabert(self) -> bool:
        """True if it has SegaBERT's tables."""
        return "token_index" in self.table_rows
