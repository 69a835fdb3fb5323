"""An encoder with index embeddings and BERT's or modern transformer layers."""

# Shape key: B batch, L sequence length, D hidden size.

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
from keras import ops

from seg_tf.config import EncoderConfig, configured_by
from seg_tf.features import INDEX_FEATURES
from seg_tf.layers.common import ArgumentsConfig, feature_inputs, select_features
from seg_tf.layers.embeddings import embedding_layers
from seg_tf.layers.transformer import ModernTransformerLayer, TransformerEncoder
from seg_tf.ops.attention import gather_vectors, rotary_sizes, rotations

_TOKEN_TYPE = "token_type"
_WINDOW_NUMBER = "window_number"


@configured_by(EncoderConfig)
@keras.saving.register_keras_serializable(package="seg_tf")
class Encoder(ArgumentsConfig, keras_hub.models.Backbone):
    """A transformer encoder whose positions are given by one or more index features.

    `index_tables` defines the model (Segatron, section 3.2 and table 6):

    * BERT: `{"position_index": 512}`;
    * SegaBERT: `{"paragraph_index": 50, "sentence_index": 100,
      "token_index": 256}`;
    * BERT with P.S.: `{"position_index": 512, "paragraph_index": 50,
      "sentence_index": 100}`.

    `trunk` selects the layers. In BERT's trunk, the sum of token and index embeddings
    is passed through LayerNorm, dropout and post-norm transformer layers. In the modern
    trunk, all norms are RMSNorms and there are no biases. It has one norm after the
    embeddings, one before each block of a `ModernTransformerLayer` and one at the end.
    There is no pooler, because pretraining would not train it.

    With `rotary_shares`, attention also depends on the distance between query and key,
    in either trunk (`seg_tf.ops.attention.rotations`).

    Args:
        vocab_size: int. Number of rows in the token table.
        index_tables: dict that maps index features, some of
            `seg_tf.features.INDEX_FEATURES`, to the sizes of their tables.
        num_layers: int. Number of transformer layers.
        hidden_size: int. Width `D`.
        num_heads: int. Number of attention heads. Must divide `hidden_size`.
        intermediate_size: int. Width inside the feed-forward blocks.
        dropout: float. Dropout rate after the embeddings and after each block.
        attention_dropout: float. Dropout rate of the attention weights. Defaults to
            `dropout`. With 0, attention needs less memory
            (`seg_tf.ops.attention.fused_attention`).
        layer_norm_epsilon: float. Epsilon of the norms.
        initializer_range: float. Standard deviation of the truncated normal
            distribution that initializes kernels and tables.
        approximate_gelu: bool. Whether to use the tanh approximation of GELU, as in
            BERT's published code.
        num_token_types: int. Number of rows in a token type table, whose row 0 is added
            at every position, as in the code of SegaBERT's authors. 0 means no table.
        reads_token_types: bool. Whether the feature `token_type` selects the row of
            that table, as in encoders loaded by `seg_tf.checkpoints.pretrained`.
        packed_windows: bool. Whether rows may contain several windows that do not
            attend to each other, numbered by the feature `window_number`.
        recompute_layers: bool. Whether to use gradient checkpointing, which is slower,
            needs less memory and does not change the results.
        trunk: str. `"bert"` or `"modern"`.
        rotary_shares: dict that maps index features to their relative shares of a
            head's dimensions (`seg_tf.ops.attention.rotary_sizes`). Empty or None means
            no rotary positions.
        gated: bool. Whether the modern trunk's feed-forward blocks are gated GELUs
            instead of squared ReLUs.
        local_window: int. Width of local attention in the modern trunk. If None, all
            layers have global attention.
        global_every: int. With `local_window`, layers whose number is a multiple of
            this have global attention: with 3, layers 0, 3, 6 and so on.
        dtype, name, trainable: as for `keras.Model`.

    Call arguments:
        inputs: dict of tensors `(B, L)`: int `token_ids`, bool or int `padding_mask`,
            each index feature (int), int `window_number` with `packed_windows`, and int
            `token_type` with `reads_token_types`. Other entries are ignored.

    Returns:
        Tensor `(B, L, D)` in the compute dtype, undefined at padding.

    Example:
    >>> encoder = Encoder(
    ...     vocab_size=100, index_tables={"position_index": 16}, num_layers=1,
    ...     hidden_size=8, num_heads=2, intermediate_size=16,
    ... )
    >>> encoder.feature_names
    ('token_ids', 'padding_mask', 'position_index')
    >>> ids = ops.array([[2, 5, 3]])
    >>> inputs = {"token_ids": ids, "padding_mask": ids > 0, "position_index": ids}
    >>> tuple(encoder(inputs).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        vocab_size: int,
        index_tables: Mapping[str, int],
        num_layers: int,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        approximate_gelu: bool = False,
        num_token_types: int = 0,
        reads_token_types: bool = False,
        packed_windows: bool = False,
        recompute_layers: bool = False,
        trunk: str = "bert",
        rotary_shares: Mapping[str, float] | None = None,
        gated: bool = False,
        local_window: int | None = None,
        global_every: int = 3,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool | None = None,
    ):
        index_tables, rotary_shares = dict(index_tables), dict(rotary_shares or {})
        _check_features(index_tables, rotary_shares)
        _check_trunk(trunk, gated, local_window)
        if num_heads < 1 or hidden_size % num_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_heads`. Received: "
                f"hidden_size={hidden_size}, num_heads={num_heads}"
            )
        if attention_dropout is None:
            attention_dropout = dropout
        initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)

        # === Config ===
        self.vocab_size = vocab_size
        self.index_tables = index_tables
        self.num_layers = num_layers
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.approximate_gelu = approximate_gelu
        self.num_token_types = num_token_types
        self.reads_token_types = reads_token_types
        self.packed_windows = packed_windows
        self.recompute_layers = recompute_layers
        self.trunk = trunk
        self.rotary_shares = rotary_shares
        self.gated = gated
        self.local_window = local_window
        self.global_every = global_every

        # === Layers ===
        is_modern = trunk == "modern"
        norm_arguments = {"epsilon": layer_norm_epsilon, "dtype": dtype}
        norm_class = (
            keras.layers.RMSNormalization
            if is_modern
            else keras.layers.LayerNormalization
        )
        embeddings = embedding_layers(
            vocab_size,
            self._tables,
            hidden_size,
            index_name="index_embedding",
            dropout=dropout,
            norm=norm_class(name="embeddings_layer_norm", **norm_arguments),
            initializer=initializer,
            dtype=dtype,
        )
        self.token_embedding = embeddings.tokens
        self.index_embedding = embeddings.indices
        self.embeddings_layer_norm = embeddings.norm
        self.embeddings_dropout = embeddings.dropout
        self.transformer_layers = []
        for number in range(num_layers):
            arguments: dict[str, Any] = {
                "intermediate_size": intermediate_size,
                "num_heads": num_heads,
                "dropout": dropout,
                "attention_dropout": attention_dropout,
                "layer_norm_epsilon": layer_norm_epsilon,
                "initializer_range": initializer_range,
                "approximate_gelu": approximate_gelu,
                "recompute": recompute_layers,
                "dtype": dtype,
                "name": f"transformer_layer_{number}",
            }
            if is_modern:
                window = local_window if number % global_every else None
                layer = ModernTransformerLayer(**arguments, gated=gated, window=window)
            else:
                layer = TransformerEncoder(**arguments)
            self.transformer_layers.append(layer)
        if is_modern:
            self.final_norm = norm_class(name="final_norm", **norm_arguments)

        # === Functional model ===
        inputs = row = feature_inputs(self.feature_names)
        # JAX has a faster kernel for rows whose tokens precede the padding.
        moves_tokens = keras.backend.backend() == "jax" and not (
            packed_windows or local_window
        )
        if moves_tokens:
            is_token_BL = ops.cast(ops.cast(inputs["padding_mask"], "bool"), "int32")
            order_BL = ops.argsort(1 - is_token_BL, axis=1)
            row = {
                name: ops.take_along_axis(feature_BL, order_BL, axis=1)
                for name, feature_BL in inputs.items()
            }
        token_ids = row["token_ids"]
        indices = {
            name: row[name] if name in row else ops.zeros_like(token_ids)
            for name in self._tables
        }
        hidden_BLD = embeddings(token_ids, indices)
        positions = [*_attention_groups(row)]
        if moves_tokens:
            # The number of visible keys, which come first.
            positions = [None, ops.sum(is_token_BL, axis=1)]
        if rotary_shares:
            sizes = rotary_sizes(hidden_size // num_heads, rotary_shares)
            positions.append(rotations(row, sizes))
        for layer in self.transformer_layers:
            hidden_BLD = layer(hidden_BLD, *positions)
        if is_modern:
            hidden_BLD = self.final_norm(hidden_BLD)
        if moves_tokens:
            hidden_BLD = gather_vectors(hidden_BLD, ops.argsort(order_BL, axis=1))
        super().__init__(
            inputs=inputs,
            outputs=hidden_BLD,
            dtype=dtype,
            name=name,
            trainable=trainable,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the encoder reads from a batch."""
        names = ["token_ids", "padding_mask"]
        names += [_WINDOW_NUMBER] if self.packed_windows else []
        names += [_TOKEN_TYPE] if self.reads_token_types else []
        return (*names, *{**self.index_tables, **self.rotary_shares})

    @property
    def index_caps(self) -> dict[str, int]:
        """Exclusive upper bound of each index feature, including token types."""
        return {**dict.fromkeys(self.rotary_shares, 2**30), **self._tables}

    @property
    def _tables(self) -> dict[str, int]:
        types = {_TOKEN_TYPE: self.num_token_types} if self.num_token_types else {}
        return {**self.index_tables, **types}

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        return super().__call__(select_features(inputs, self.feature_names), **kwargs)


def _attention_groups(inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Returns the groups of queries, `(B, L)` or `(B, 1)`, and of keys, `(B, L)`.

    Queries see the keys of their group. Each packed window is a group, and padding is a
    group that tokens do not see.
    """
    is_token_BL = ops.cast(inputs["padding_mask"], "bool")
    if _WINDOW_NUMBER in inputs:
        number_BL = ops.where(is_token_BL, inputs[_WINDOW_NUMBER], -1)
        return number_BL, number_BL
    # Reduce rows to length 1. The static length of a slice could be unknown, as if each
    # query had a separate group.
    one_group_B1 = ops.ones_like(ops.any(is_token_BL, axis=1, keepdims=True))
    return ops.cast(one_group_B1, "int32"), ops.cast(is_token_BL, "int32")


def _check_trunk(trunk: str, gated: bool, local_window: int | None) -> None:
    if trunk not in ("bert", "modern") or (
        trunk == "bert" and (gated or local_window is not None)
    ):
        raise ValueError(
            "`trunk` must be 'bert', or 'modern' with `gated` or `local_window`. "
            f"Received: trunk={trunk!r}, gated={gated}, local_window={local_window}"
        )


def _check_features(
    index_tables: Mapping[str, int], rotary_shares: Mapping[str, float]
) -> None:
    for argument, names in (
        ("index_tables", index_tables),
        ("rotary_shares", rotary_shares),
    ):
        unknown = [name for name in names if name not in INDEX_FEATURES]
        if unknown:
            raise ValueError(
                f"`{argument}` must be named after index features of the batch "
                f"contract ({', '.join(INDEX_FEATURES)}). Received: {unknown}"
            )
    if not (index_tables or rotary_shares):
        raise ValueError(
            "`index_tables` or `rotary_shares` must name an index: without one the "
            "encoder does not know the order of the tokens. Received: neither"
        )
