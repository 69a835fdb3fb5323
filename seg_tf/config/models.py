"""Configs of models and objectives."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, ClassVar

from seg_tf.config.base import (
    Count,
    Dropout,
    NonNegative,
    Ranged,
    Share,
    Whole,
    register_config,
)


def attention_rate(model: "EncoderConfig | ReATConfig") -> float:
    """Returns `attention_dropout` or, if it is None, `dropout`."""
    rate = model.attention_dropout
    return model.dropout if rate is None else rate


def _attention_activations(
    model: "EncoderConfig | ReATConfig", num_heads: int, num_keys: int
) -> int:
    """Counts the attention activations per position, 0 without attention dropout."""
    return 3 * num_heads * num_keys if attention_rate(model) else 0


def _matrices(width: int, intermediate_size: int) -> int:
    """Counts the weights in the attention and feed-forward matrices of a layer."""
    return width * (4 * width + 2 * intermediate_size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ModelConfig(Ranged):
    # Model arguments for gradient checkpointing.
    recomputing_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"recompute_layers": True}
    )

    vocab_size: Count | None = None

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        """Arguments of the input pipeline that depend on the model."""
        return {"vocab_size": self.vocab_size}

    def row_activations(
        self, inputs: Any, vocab_size: int, recompute_layers: bool = False
    ) -> int:
        """Estimates the number of activations stored per row for the backward pass.

        With `recompute_layers`, counts the inputs of all layers and one full layer.
        """
        layers = self._layers(inputs)
        if recompute_layers:
            numbers = sum(count * width for count, width, _ in layers)
            numbers += max((inside for _, _, inside in layers), default=0)
        else:
            numbers = sum(count * inside for count, _, inside in layers)
        return inputs.row_length * (numbers + self._output_activations(vocab_size))

    def _layers(self, inputs: Any) -> list[tuple[int, int, int]]:
        """Returns (number, width, activations per position) for each kind of layer."""
        raise NotImplementedError

    def _output_activations(self, vocab_size: int) -> int:
        return 0


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig(_ModelConfig):
    """Arguments of `seg_tf.models.Encoder`. Defaults to SegaBERT base.

    If `attention_dropout` is None, `dropout` is used. Layers store attention weights
    only if the rate is above 0. If `vocab_size` is None, it is read from the records.
    """

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
        super().__post_init__()
        for name, rows in self.index_tables.items():
            if type(rows) is not int or not 1 <= rows < 2**31:
                raise ValueError(
                    "`index_tables` must give every table at least one row. "
                    f"Received: index_tables[{name!r}]={rows}"
                )

    def least_weights(self, vocab_size: int) -> int:
        """Counts the weights in tables and matrices, a lower bound on all weights."""
        rows = vocab_size + sum(self.index_tables.values())
        return self.hidden_size * rows + self.num_layers * _matrices(
            self.hidden_size, self.intermediate_size
        )

    @property
    def inputs_arguments(self) -> Mapping[str, Any]:
        # Rotary indices are not limited by a table.
        caps = {**dict.fromkeys(self.rotary_shares, 2**30), **self.index_tables}
        return {"index_tables": caps, "vocab_size": self.vocab_size}

    def _layers(self, inputs: Any) -> list[tuple[int, int, int]]:
        inside = (
            20 * self.hidden_size
            + 2 * self.intermediate_size
            + _attention_activations(self, self.num_heads, inputs.row_length)
        )
        return [(self.num_layers, self.hidden_size, inside)]


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReATConfig(_ModelConfig):
    """Arguments of `seg_tf.models.ReAT`. Defaults to the base model."""

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

    def _layers(self, inputs: Any) -> list[tuple[int, int, int]]:
        # Positions attend to their block and, in alpha layers, also to all sentences.
        num_keys = self.block_length
        sentence_layer = (
            20 * self.hidden_size
            + 2 * self.intermediate_size
            + _attention_activations(self, self.num_heads, num_keys)
        )
        num_keys += inputs.sentences_per_row
        alpha_layer = (
            40 * self.alpha_hidden_size
            + 4 * self.alpha_intermediate_size
            + _attention_activations(self, self.alpha_num_heads, num_keys)
        )
        return [
            (self.num_sentence_layers, self.hidden_size, sentence_layer),
            (self.num_alpha_layers, self.alpha_hidden_size, alpha_layer),
        ]


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerXLConfig(_ModelConfig):
    """Arguments of `seg_tf.models.TransformerXL`. Defaults to Sega-Transformer-XL."""

    # Model arguments for compilation with XLA.
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )

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

    def least_weights(self, vocab_size: int) -> int:
        head = min((vocab_size, *self.cutoffs))
        inside = 4 * self.num_heads * self.head_size + 2 * self.intermediate_size
        layers = self.num_layers * self.hidden_size * inside
        return head * self.embedding_size + vocab_size - head + layers

    def _layers(self, inputs: Any) -> list[tuple[int, int, int]]:
        inside = (
            20 * self.hidden_size
            + 2 * self.intermediate_size
            + 5 * self.num_heads * (self.memory_length + inputs.row_length)
        )
        return [(self.num_layers, self.hidden_size, inside)]

    def _output_activations(self, vocab_size: int) -> int:
        return 4 * (*self.cutoffs, vocab_size)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ObjectiveConfig(Ranged):
    # Weight of this loss in the total loss.
    loss_weight: NonNegative = 1.0


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLMConfig(_ObjectiveConfig):
    """Masked language modeling (Devlin et al., 2018, section 3.1)."""

    # Whether the objective pads its logits to the run's `vocab_multiple`.
    pads_vocabulary: ClassVar[bool] = True


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceUnshufflingConfig(_ObjectiveConfig):
    """Sentence unshuffling with a Sequence Reconstructor (SLM, section 2.1).

    Attributes:
        num_layers: number of reconstructor layers, which have the encoder's sizes.
        scale_pointers: whether to divide pointer logits by the square root of the
            width, as in attention but unlike equation 2.
        normalize_first: whether to normalize the inputs of the reconstructor's blocks
            (pre-norm) instead of their outputs.
    """

    num_layers: Count = 3
    scale_pointers: bool = False
    normalize_first: bool = False

    def least_weights(self, hidden_size: int) -> int:
        """Counts the weights in attention matrices, a lower bound on all weights."""
        return self.num_layers * 8 * hidden_size**2


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class ExchangeSentenceConfig(_ObjectiveConfig):
    """Detection of sentences that the input pipeline moved (ReAT, section II.E)."""


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class CausalLMConfig(_ObjectiveConfig):
    """Prediction of the next word with an adaptive softmax (Transformer-XL)."""

    pads_vocabulary: ClassVar[bool] = True
    compiled_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"static_shapes": True}
    )
