"""Models."""

import dataclasses
import types
from collections.abc import Mapping
from typing import ClassVar

from seg_tf.configuration.registry import register


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes of a BERT-family encoder. Defaults are the base SegaBERT.

    Attributes:
        vocab_size: rows of the token table; None takes the records' vocabulary.
        index_tables: which index features are embedded and summed onto the token
            embedding, and the rows of each table, which are also the caps that
            the input pipeline applies. `position_index` alone is BERT;
            `paragraph_index`, `sentence_index` and `token_index` are SegaBERT.
        dropout: rate after the embeddings, on the attention weights and after both
            blocks of a layer; one rate, as in BERT.
        approximate_gelu: GELU by tanh, as in BERT's published code, not by erf.
        num_token_types: rows of a token-type table, whose row 0 is added at every
            position, as in the code of SegaBERT's authors; 0 has no table.
    """

    implementation: ClassVar[str] = "seg_tf.models.encoder:Encoder"

    vocab_size: int | None = None
    index_tables: Mapping[str, int] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType(
            {"paragraph_index": 50, "sentence_index": 100, "token_index": 256}
        )
    )
    num_layers: int = 12
    hidden_size: int = 768
    num_heads: int = 12
    intermediate_size: int = 3072
    dropout: float = 0.1
    layer_norm_epsilon: float = 1e-12
    initializer_range: float = 0.02
    approximate_gelu: bool = False
    num_token_types: int = 0

    def __post_init__(self):
        if self.hidden_size % self.num_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_heads`. Received: "
                f"hidden_size={self.hidden_size}, num_heads={self.num_heads}"
            )
        for name, rows in self.index_tables.items():
            if not isinstance(rows, int) or rows < 1:
                raise ValueError(
                    "`index_tables` must give every table at least one row. "
                    f"Received: index_tables[{name!r}]={rows}"
                )
