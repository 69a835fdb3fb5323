"""Configs of models and objectives."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from seg_tf.config.base import (
    Count,
    Dropout,
    NonNegative,
    Share,
    Whole,
    check_ranges,
    register_config,
)

# Further arguments where the backward pass computes layers again.
_RECOMPUTING = types.MappingProxyType({"recompute_layers": True})


def attention_rate(model: "EncoderConfig | ReATConfig") -> float:
    """Rate of dropout on attention weights: that of `dropout` unless it has its own."""
    rate = model.attention_dropout
    return model.dropout if rate is None else rate


def _held_weights(
    model: "EncoderConfig | ReATConfig", num_heads: int, num_keys: int
) -> int:
    """Numbers that the attention weights of a position leave: none without dropout."""
    return 3 * num_heads * num_keys if attention_rate(model) else 0


def _activations(layers: Sequence[tuple[int, int, int]], recompute_layers: bool) -> int:
    """Numbers that layers leave at a position for the backward pass.

    `layers` has, for each kind, their number, the width of their input and the numbers
    inside of one. Recomputed layers leave inputs, and the inside of one at a time.
    """
    if not recompute_layers:
        return sum(number * inside for number, _, inside in layers)
    inputs = sum(number * width for number, width, _ in layers)
    return inputs + max((inside for _, _, inside in layers), default=0)


def _matrices(width: int, intermediate_size: int) -> int:
    """Weights of the matrices of a layer: four of attention, two of its block."""
    return width * (4 * width + 2 * intermediate_size)


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes of a BERT-family encoder. Defaults are the base SegaBERT.

    Attributes:
        vocab_size: rows of the token table; None takes the records' vocabulary.
        index_tables: index features whose embeddings are summed onto the token's, and
            the rows of each table, at which the inputs cap the indices.
            `position_index` is BERT; `paragraph_index`, `sentence_index` and
            `token_index` are SegaBERT.
        dropout: rate after the embeddings and after both blocks of a layer.
        attention_dropout: rate on the attention weights; None is `dropout`, as in BERT.
            With 0 no layer holds the attention weights of all pairs of positions.
        approximate_gelu: GELU by tanh, as in BERT's published code, not by erf.
        num_token_types: rows of a token-type table, whose row 0 is added at every
            position, as in the code of SegaBERT's authors; 0 has no table.
        trunk: `bert` has post-norm layers with biases; `modern` has pre-norm layers
            with RMSNorm and without biases.
        rotary_shares: which index features rotate queries and keys, and the share of a
            head's dimensions that each gets. Empty has no rotary positions.
        gated: gated GELUs in the modern trunk instead of squared ReLUs.
        local_window: width of local attention in the modern trunk; None has global
            attention in all layers.
        global_every: with `local_window`, every layer whose number this divides has
            global attention.
    """

    recomputing_arguments: ClassVar[Mapping[str, Any]] = _RECOMPUTING

    vocab_size: Count | None = None
    index_tables: Mapping[str, int] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType(
            {"paragraph_index": 50, "sentence_index": 100, "token_index": 256}
        )
    )
    num_layers: Count = 12
    hidden_size: Count = 768
    num_heads: Count = 12
    intermediate_size: Count = 3072
    dropout: Dropout = 0.1
    attention_dropout: Dropout | None = None
    layer_norm_epsilon: Share = 1e-12
    initializer_range: Share = 0.02
    approximate_gelu: bool = False
    num_token_types: Whole = 0
    trunk: str = "bert"
    rotary_shares: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({})
    )
    gated: bool = False
    local_window: Count | None = None
    global_every: Count = 3

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.hidden_size % self.num_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_heads`. Received: "
                f"hidden_size={self.hidden_size}, num_heads={self.num_heads}"
            )
        for name, rows in self.index_tables.items():
            if type(rows) is not int or not 1 <= rows < 2**31:
                raise ValueError(
                    "`index_tables` must give every table at least one row. "
                    f"Received: index_tables[{name!r}]={rows}"
                )
        for name, share in self.rotary_shares.items():
            if type(share) not in (int, float) or not 0 < share < 2**31:
                raise ValueError(
                    "`rotary_shares` must give every index a positive number. "
                    f"Received: rotary_shares[{name!r}]={share!r}"
                )

    def least_weights(self, vocab_size: int) -> int:
        """Fewest weights of such an encoder: those of its tables and matrices."""
        rows = vocab_size + sum(self.index_tables.values())
        return self.hidden_size * rows + self.num_layers * _matrices(
            self.hidden_size, self.intermediate_size
        )

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        """Arguments that the input pipeline takes from the model."""
        caps = {
            # Rotary indices have no table to stay in.
            **dict.fromkeys(self.rotary_shares, 2**30),
            **self.index_tables,
        }
        return {"index_tables": caps, "vocab_size": self.vocab_size}

    @property
    def has_bert_layers(self) -> bool:
        """Returns True for BERT's layers, with no positions inside attention."""
        return self.trunk == "bert" and not self.rotary_shares

    def row_activations(
        self, inputs: Any, vocab_size: int, recompute_layers: bool = False
    ) -> int:
        """Numbers that a row of `inputs` leaves for the backward pass, roughly.

        Per position and layer 20 vectors of the model's width, two of the feed-forward
        blocks' and, where attention weights are dropped, three numbers for each head
        and other position. Predictions are counted with the masking.
        """
        length = inputs.row_length
        per_layer = (
            20 * self.hidden_size
            + 2 * self.intermediate_size
            + _held_weights(self, self.num_heads, length)
        )
        layers = [(self.num_layers, self.hidden_size, per_layer)]
        return length * _activations(layers, recompute_layers)


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReATConfig:
    """Sizes of ReAT. Defaults are the base model.

    Attributes:
        vocab_size: rows of the token table; None takes the records' vocabulary.
        block_length: positions of a row in which a sentence lies as a whole, alone or
            with others; the most positions of a sentence.
        max_sentences: the most sentences of a text.
        num_sentence_layers: layers inside sentences.
        num_alpha_layers: layers that mix the sentences of a text.
        hidden_size: width of the layers inside sentences.
        alpha_hidden_size: width of the alpha layers.
        dropout: rate after the embeddings and after every block of a layer.
        attention_dropout: rate on the attention weights; None is `dropout`. With 0 no
            layer holds the attention weights of all its pairs.
        approximate_gelu: GELU by tanh, as in BERT's published code, not by erf.
    """

    recomputing_arguments: ClassVar[Mapping[str, Any]] = _RECOMPUTING

    vocab_size: Count | None = None
    block_length: Count = 128
    max_sentences: Count = 128
    num_sentence_layers: Count = 3
    num_alpha_layers: Count = 4
    hidden_size: Count = 768
    alpha_hidden_size: Count = 1024
    num_heads: Count = 12
    alpha_num_heads: Count = 16
    intermediate_size: Count = 3072
    alpha_intermediate_size: Count = 4096
    dropout: Dropout = 0.1
    attention_dropout: Dropout | None = None
    layer_norm_epsilon: Share = 1e-12
    initializer_range: Share = 0.02
    approximate_gelu: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        for size, heads in (
            ("hidden_size", "num_heads"),
            ("alpha_hidden_size", "alpha_num_heads"),
        ):
            if getattr(self, size) % getattr(self, heads):
                raise ValueError(
                    f"`{size}` must be a multiple of `{heads}`. Received: "
                    f"{size}={getattr(self, size)}, {heads}={getattr(self, heads)}"
                )

    def least_weights(self, vocab_size: int) -> int:
        rows = vocab_size + self.block_length + self.max_sentences
        sentence = _matrices(self.hidden_size, self.intermediate_size)
        alpha = _matrices(self.alpha_hidden_size, self.alpha_intermediate_size)
        layers = self.num_sentence_layers * sentence + self.num_alpha_layers * alpha
        return self.hidden_size * rows + layers

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        index_tables = {
            "position_index": self.block_length,
            "sentence_position": self.max_sentences,
        }
        return {"index_tables": index_tables, "vocab_size": self.vocab_size}

    def row_activations(
        self, inputs: Any, vocab_size: int, recompute_layers: bool = False
    ) -> int:
        """As of `EncoderConfig`; positions see their block and all sentences."""
        sentence_layer = (
            20 * self.hidden_size
            + 2 * self.intermediate_size
            + _held_weights(self, self.num_heads, self.block_length)
        )
        seen = self.block_length + inputs.sentences_per_row
        alpha_layer = (
            40 * self.alpha_hidden_size
            + 4 * self.alpha_intermediate_size
            + _held_weights(self, self.alpha_num_heads, seen)
        )
        layers = [
            (self.num_sentence_layers, self.hidden_size, sentence_layer),
            (self.num_alpha_layers, self.alpha_hidden_size, alpha_layer),
        ]
        return inputs.row_length * _activations(layers, recompute_layers)


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerXLConfig:
    """Sizes of a Transformer-XL. Defaults are the base Sega-Transformer-XL.

    Attributes:
        vocab_size: words; None takes the records' vocabulary.
        position_parts: distances in the relative position vector, in this order, each
            with its share of the width. `("token",)` is Transformer-XL.
        hidden_size: width of the layers; heads have a separate size.
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

    # Further arguments where XLA compiles the model.
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )
    recomputing_arguments: ClassVar[Mapping[str, Any]] = _RECOMPUTING

    vocab_size: Count | None = None
    position_parts: tuple[str, ...] = ("token", "sentence", "paragraph")
    num_layers: Count = 16
    hidden_size: Count = 410
    num_heads: Count = 10
    head_size: Count = 41
    intermediate_size: Count = 2100
    memory_length: Whole = 150
    dropout: Dropout = 0.1
    attention_dropout: Dropout = 0.0
    cutoffs: tuple[int, ...] = (20_000, 40_000, 200_000)
    embedding_size: Count = 410
    tail_divisor: Count = 1
    layer_norm_epsilon: Share = 1e-5
    initializer_range: Share = 0.02
    projection_range: Share = 0.01

    def __post_init__(self) -> None:
        check_ranges(self)

    def least_weights(self, vocab_size: int) -> int:
        head = min((vocab_size, *self.cutoffs))
        inside = 4 * self.num_heads * self.head_size + 2 * self.intermediate_size
        layers = self.num_layers * self.hidden_size * inside
        return head * self.embedding_size + vocab_size - head + layers

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        return {"vocab_size": self.vocab_size}

    def row_activations(
        self, inputs: Any, vocab_size: int, recompute_layers: bool = False
    ) -> int:
        """As of `EncoderConfig`; positions see the memory too, and predict words."""
        length = inputs.row_length
        per_layer = (
            20 * self.hidden_size
            + 2 * self.intermediate_size
            + 5 * self.num_heads * (self.memory_length + length)
        )
        head = (*self.cutoffs, vocab_size)[0]
        layers = [(self.num_layers, self.hidden_size, per_layer)]
        return length * (_activations(layers, recompute_layers) + 4 * head)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ObjectiveConfig:
    # Factor of its loss in the sum.

    loss_weight: NonNegative = 1.0

    def __post_init__(self) -> None:
        check_ranges(self)


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLMConfig(_ObjectiveConfig):
    """Masked language modelling over gathered positions (Devlin et al., 2018)."""

    # Whether it takes the `vocab_multiple` of the run.
    pads_vocabulary: ClassVar[bool] = True


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceUnshufflingConfig(_ObjectiveConfig):
    """Sentence unshuffling by a Sequence Reconstructor (SLM, section 2.1).

    Attributes:
        num_layers: layers of the reconstructor; their sizes are the encoder's.
        scale_pointers: divide pointer logits by the root of the width, as attention
            does; equation 2 has no scale.
        normalize_first: normalise the inputs of the reconstructor's blocks (pre-norm),
            not their outputs.
    """

    num_layers: Count = 3
    scale_pointers: bool = False
    normalize_first: bool = False

    def least_weights(self, hidden_size: int) -> int:
        """Fewest weights of the reconstructor: its attention has eight matrices."""
        return self.num_layers * 8 * hidden_size**2


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ExchangeSentenceConfig(_ObjectiveConfig):
    """Detection of sentences moved within their text (ReAT, section II.E)."""


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class CausalLMConfig(_ObjectiveConfig):
    """Prediction of the next word by an adaptive softmax (Transformer-XL)."""

    pads_vocabulary: ClassVar[bool] = True

    # Further arguments where XLA compiles the objective.
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )
