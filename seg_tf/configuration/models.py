"""Models."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, ClassVar

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

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        """What the inputs of such a model have to know of it."""
        return {"index_tables": self.index_tables, "vocab_size": self.vocab_size}


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerXLConfig:
    """Sizes of a Transformer-XL. Defaults are the base Sega-Transformer-XL.

    Attributes:
        vocab_size: words; None takes the records' vocabulary.
        position_parts: which distances the relative position vector speaks of, in
            this order, each with its share of the width. `("token",)` is
            Transformer-XL; all three are Sega-Transformer-XL.
        position_form: `eq3` computes the paper's equation 3; `released` computes what
            the authors' code does, which lets words see later sentence breaks.
        hidden_size: width of the layers; heads have a size of their own.
        intermediate_size: width inside the feed-forward blocks.
        memory_length: positions before a segment that it sees.
        dropout: rate after the embeddings, on the position vectors and after both
            blocks of a layer.
        attention_dropout: rate on the attention weights.
        cutoffs: words of a frequency rank below the first are in the head of the
            adaptive softmax, those between two in one of its tails.
        embedding_size: width of the word vectors of the head.
        tail_divisor: each tail's word vectors are narrower by this factor than those
            of the part before it; 1 keeps one width.
        initializer_range: standard deviation that weights start with.
        projection_range: that of the projections of word vectors.
    """

    implementation: ClassVar[str] = "seg_tf.models.transformer_xl:TransformerXL"

    # Further arguments where XLA compiles the model.
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )

    vocab_size: int | None = None
    position_parts: tuple[str, ...] = ("token", "sentence", "paragraph")
    position_form: str = "eq3"
    num_layers: int = 16
    hidden_size: int = 410
    num_heads: int = 10
    head_size: int = 41
    intermediate_size: int = 2100
    memory_length: int = 150
    dropout: float = 0.1
    attention_dropout: float = 0.0
    cutoffs: tuple[int, ...] = (20_000, 40_000, 200_000)
    embedding_size: int = 410
    tail_divisor: int = 1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    projection_range: float = 0.01

    def __post_init__(self):
        least = {
            "memory_length": 0,
            "num_layers": 1,
            "num_heads": 1,
            "head_size": 1,
            "tail_divisor": 1,
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(
                    f"`{name}` must be at least {bound}. Received: "
                    f"{name}={getattr(self, name)}"
                )

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        """What the inputs of such a model have to know of it."""
        return {"vocab_size": self.vocab_size}
