"""Frozen dataclasses, one per component, and how a run's config is overridden.

A run is one `RunConfig`. Its parts say in `implementation` which class they
configure; `build` imports that class and unpacks the fields into plain
arguments, so layers, models and pipelines never see a config. A new model,
objective, optimizer or input view is a new dataclass here (or anywhere, once
`register`ed) and a new file: nothing that reads configs changes.
"""

import dataclasses
import importlib
import types
import typing
from collections.abc import Mapping
from typing import Any, ClassVar

import ml_collections

_TYPE_KEY = "type"
_REGISTRY: dict[str, type] = {}
_DTYPE_POLICIES = ("float32", "mixed_bfloat16", "bfloat16", "mixed_float16")


def register(cls: type) -> type:
    """Class decorator: lets a config of this class be read back by its name."""
    _REGISTRY[cls.__name__] = cls
    return cls


def build(config: Any, **extra: Any) -> Any:
    """Builds what `config` configures, from its fields and `extra` arguments.

    Args:
        config: a config dataclass with an `implementation` of the form
            `"package.module:Name"`.
        **extra: arguments known only at run time. They win over fields.

    Returns:
        `Name(**fields, **extra)`.
    """
    module_name, _, attribute = config.implementation.partition(":")
    implementation = getattr(importlib.import_module(module_name), attribute)
    fields = {
        field.name: getattr(config, field.name) for field in dataclasses.fields(config)
    }
    return implementation(**{**fields, **extra})


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


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Which positions masked LM predicts, and what stands there instead.

    Defaults are BERT's: 15 % of the positions, at most `max_predictions` of
    them; 80 % become `[MASK]`, 10 % a random piece, the rest stay.
    """

    implementation: ClassVar[str] = "data_pipelines.masking:TokenMasking"

    mask_rate: float = 0.15
    max_predictions: int = 80
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1

    def __post_init__(self):
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

    implementation: ClassVar[str] = "data_pipelines.span_masking:SpanMasking"

    max_span_length: int = 3
    span_end_rate: float = 0.2

    def __post_init__(self):
        super().__post_init__()
        if self.max_span_length < 1:
            raise ValueError(
                "`max_span_length` must be at least 1. Received: "
                f"max_span_length={self.max_span_length}"
            )
        if not 0 < self.span_end_rate <= 1:
            raise ValueError(
                "`span_end_rate` must be positive and at most 1. Received: "
                f"span_end_rate={self.span_end_rate}"
            )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowInputsConfig:
    """One window of a document a row: `[CLS] pieces [SEP]`, padded to a length."""

    implementation: ClassVar[str] = "data_pipelines.window_inputs:WindowInputs"

    # Further arguments of a model that reads such rows.
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    window_length: int = 512
    masking: MaskingConfig = MaskingConfig()

    @property
    def row_length(self) -> int:
        """Positions of a row."""
        return self.window_length


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedWindowInputsConfig:
    """Several windows a row, each as in a row of its own, told apart by the model.

    Attributes:
        window_length: positions of a full window, and of a row.
        masking: what is predicted in each window.
        max_windows_per_row: the most windows of a row. More than three fill rows
            better only where most documents are far shorter than a window.
    """

    implementation: ClassVar[str] = (
        "data_pipelines.packed_window_inputs:packed_window_inputs"
    )
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType(
        {"packed_windows": True}
    )

    window_length: int = 512
    masking: MaskingConfig = MaskingConfig()
    max_windows_per_row: int = 8

    def __post_init__(self):
        if self.max_windows_per_row < 1:
            raise ValueError(
                "`max_windows_per_row` must be at least 1. Received: "
                f"max_windows_per_row={self.max_windows_per_row}"
            )

    @property
    def row_length(self) -> int:
        """Positions of a row."""
        return self.window_length


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceInputsConfig:
    """One window a row, `[SENT]` before every sentence, sentences shuffled (SLM).

    Attributes:
        window_length: positions of a full window without its `[SENT]` tokens.
        max_sentences: the most sentences of a row; where a window has more, adjacent
            ones are merged at random until so many are left. A row is as much longer
            than a window, so that no piece has to make room.
        shuffle_rate: probability that the sentences of a row are shuffled.
        masking: what is predicted.
    """

    implementation: ClassVar[str] = "data_pipelines.sentence_inputs:sentence_inputs"
    model_arguments: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})

    window_length: int = 492
    max_sentences: int = 20
    shuffle_rate: float = 0.5
    masking: MaskingConfig = SpanMaskingConfig()

    def __post_init__(self):
        if self.max_sentences < 1:
            raise ValueError(
                "`max_sentences` must be at least 1. Received: "
                f"max_sentences={self.max_sentences}"
            )
        if not 0 <= self.shuffle_rate <= 1:
            raise ValueError(
                "`shuffle_rate` must lie between 0 and 1. Received: "
                f"shuffle_rate={self.shuffle_rate}"
            )

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
class MaskedLMConfig:
    """Masked language modelling over gathered positions (Devlin et al., 2018)."""

    implementation: ClassVar[str] = "seg_tf.objectives.masked_lm:MaskedLM"

    loss_weight: float = 1.0


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceUnshufflingConfig:
    """Sentence unshuffling by a Sequence Reconstructor (SLM, section 2.1).

    Attributes:
        num_layers: layers of the reconstructor; their sizes are the encoder's.
    """

    implementation: ClassVar[str] = (
        "seg_tf.objectives.sentence_unshuffling:SentenceUnshuffling"
    )

    num_layers: int = 3
    loss_weight: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AdamFamilyConfig:
    """What optimizers with two moments share: their schedule and their moments.

    Attributes:
        learning_rate: the effective, global peak rate.
        warmup_updates: updates of linear warm-up; None takes 1 % of the run.
        decay_updates: updates after which the end rate is reached; None takes the
            whole run.
        decay_power: 1 is linear decay.
        decay_from_start: whether the decay is counted from the first update, not
            from the end of the warm-up, where the rate then drops.
        weight_decay: none on LayerNorm and bias.
    """

    learning_rate: float = 1e-4
    warmup_updates: int | None = None
    decay_updates: int | None = None
    decay_power: float = 1.0
    decay_from_start: bool = False
    end_learning_rate: float = 0.0
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamWConfig(_AdamFamilyConfig):
    """AdamW with linear warm-up and polynomial decay; defaults are BERT's."""

    implementation: ClassVar[str] = "seg_tf.training.optimizer:build_adamw"


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class LambConfig(_AdamFamilyConfig):
    """LAMB (You et al., 2019), the same schedule; defaults are NVIDIA's, phase 1.

    Attributes:
        adapt_excluded: whether LayerNorm and bias, which are not decayed, have a
            trust ratio too.
    """

    implementation: ClassVar[str] = "seg_tf.training.optimizer:build_lamb"

    learning_rate: float = 6e-3
    decay_power: float = 0.5
    decay_from_start: bool = True
    adapt_excluded: bool = True


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class LossScaleConfig:
    """Dynamic loss scale, used where the dtype policy is `mixed_float16` only.

    Attributes:
        initial: factor of the loss in the first step.
        growth_interval: updates without overflow after which the scale doubles.
        floor: the scale is never halved below this.
    """

    implementation: ClassVar[str] = "seg_tf.training.loss_scale:DynamicLossScale"

    initial: float = 2.0**15
    growth_interval: int = 2_000
    floor: float = 1.0

    def __post_init__(self):
        if not 0 < self.floor <= self.initial:
            raise ValueError(
                "`floor` must be positive and at most `initial`. Received: "
                f"floor={self.floor}, initial={self.initial}"
            )
        if self.growth_interval < 1:
            raise ValueError(
                "`growth_interval` must be at least 1. Received: "
                f"growth_interval={self.growth_interval}"
            )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Length of a run, its batch, and what it writes on the way.

    Attributes:
        num_updates: updates of the whole run; the schedule ends with them.
        batch_size: rows of an update, of all processes together.
        micro_batch_size: rows that a process computes at once; it adds up the
            gradients of its share of the batch in micro-batches of this size. None
            computes the whole share at once.
        clip_norm: bound on the global gradient norm; None does not clip.
        max_skipped_steps: how many steps in a row may be skipped because loss or
            gradient is not finite; one more ends the run.
        seed: of initial weights, dropout, the order of samples and their masks.
        dtype_policy: Keras dtype policy of the model.
        loss_scale: loss scale of `mixed_float16`.
        compress_gradients: whether gradients travel between processes as float16.
            Without a loss scale those below 6e-8 become 0 on the way, so that it
            goes well with `mixed_float16` only.
        jit_compile: whether XLA compiles the gradients and the update.
        deterministic_ops: whether TensorFlow may only use kernels that give the
            same bits each time. Without it a resumed run on a GPU is close to an
            uninterrupted one, not equal to it.
        log_interval: updates between two rows of the log.
        validation_interval: updates between two validations.
        validation_batches: batches of a validation, if there are as many.
        checkpoint_interval: updates between two checkpoints.
        keep_checkpoints: how many of the newest checkpoints stay; the best one by
            validation loss stays too.
    """

    num_updates: int = 500_000
    batch_size: int = 256
    micro_batch_size: int | None = None
    clip_norm: float | None = 1.0
    max_skipped_steps: int = 20
    seed: int = 0
    dtype_policy: str = "float32"
    loss_scale: LossScaleConfig = LossScaleConfig()
    compress_gradients: bool = False
    jit_compile: bool = False
    deterministic_ops: bool = True
    log_interval: int = 50
    validation_interval: int = 5_000
    validation_batches: int = 50
    checkpoint_interval: int = 5_000
    keep_checkpoints: int = 3

    def __post_init__(self):
        for name in (
            "num_updates",
            "batch_size",
            "log_interval",
            "validation_interval",
            "validation_batches",
            "checkpoint_interval",
            "keep_checkpoints",
        ):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be at least 1. Received: "
                    f"{name}={getattr(self, name)}"
                )
        if self.max_skipped_steps < 0:
            raise ValueError(
                "`max_skipped_steps` must be at least 0. Received: "
                f"max_skipped_steps={self.max_skipped_steps}"
            )
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise ValueError(
                "`clip_norm` must be positive, or None not to clip. Received: "
                f"clip_norm={self.clip_norm}"
            )
        size = self.micro_batch_size
        if size is not None and (size < 1 or self.batch_size % size):
            raise ValueError(
                "`micro_batch_size` must be at least 1 and divide `batch_size`. "
                f"Received: micro_batch_size={size}, batch_size={self.batch_size}"
            )
        if self.dtype_policy not in _DTYPE_POLICIES:
            raise ValueError(
                f"`dtype_policy` must be one of {', '.join(_DTYPE_POLICIES)}. "
                f"Received: dtype_policy={self.dtype_policy!r}"
            )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One pretraining run: everything that its result depends on but the text.

    Attributes:
        name: short name, used for folders and titles.
        paper: which column of `seg_tf.fidelity` the run is measured against.
    """

    name: str
    paper: str
    model: Any = EncoderConfig()
    inputs: Any = WindowInputsConfig()
    objectives: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({"masked_lm": MaskedLMConfig()})
    )
    optimizer: Any = AdamWConfig()
    training: TrainingConfig = TrainingConfig()

    def __post_init__(self):
        tables = getattr(self.model, "index_tables", {})
        for table, needed, what in (
            ("position_index", "row_length", "position of a row"),
            ("sentence_id", "num_candidates", "sentence, [CLS] and [SEP]"),
        ):
            rows, least = tables.get(table), getattr(self.inputs, needed, 0)
            if rows is not None and rows < least:
                raise ValueError(
                    f"`model.index_tables[{table!r}]` must have a row for every "
                    f"{what}. Received: {rows} rows, inputs.{needed}={least}"
                )


def to_config_dict(config: Any) -> ml_collections.ConfigDict:
    """The same config as a `ConfigDict`, whose fields flags can override."""
    return ml_collections.ConfigDict(_overridable(config), sort_keys=False)


def _overridable(config: Any) -> Any:
    """`to_dict`, but fields that may be None stay open to None and to values."""
    if isinstance(config, Mapping):
        return {name: _overridable(value) for name, value in config.items()}
    if not dataclasses.is_dataclass(config):
        return config
    hints = typing.get_type_hints(type(config))
    values = {_TYPE_KEY: type(config).__name__}
    for field in dataclasses.fields(config):
        value = _overridable(getattr(config, field.name))
        if types.NoneType in _alternatives(hints[field.name]):
            # A ConfigDict gives a field the type of its value for good, so None
            # could not be overridden, nor anything with None.
            value = ml_collections.FieldReference(value, field_type=object)
        values[field.name] = value
    return values


def to_dict(config: Any) -> Any:
    """The same config as plain dicts; each dataclass leaves its name as `type`."""
    if dataclasses.is_dataclass(config):
        fields = {
            field.name: to_dict(getattr(config, field.name))
            for field in dataclasses.fields(config)
        }
        return {_TYPE_KEY: type(config).__name__, **fields}
    if isinstance(config, Mapping):
        return {name: to_dict(value) for name, value in config.items()}
    return config


def from_config_dict(values: Any) -> Any:
    """The frozen config that `values`, maybe overridden, describes.

    Args:
        values: what `to_config_dict` or `to_dict` returned.

    Raises:
        ValueError: if a `type` is unknown, a field is unknown, or the values
            contradict one another.
    """
    if not isinstance(values, (Mapping, ml_collections.ConfigDict)):
        return values
    fields = {name: from_config_dict(value) for name, value in values.items()}
    type_name = fields.pop(_TYPE_KEY, None)
    if type_name is None:
        return types.MappingProxyType(fields)
    if type_name not in _REGISTRY:
        raise ValueError(
            f"`type` must be one of {sorted(_REGISTRY)}. Received: {type_name!r}"
        )
    cls = _REGISTRY[type_name]
    unknown = set(fields) - {field.name for field in dataclasses.fields(cls)}
    if unknown:
        raise ValueError(
            f"`{type_name}` has no field {sorted(unknown)}; it has "
            f"{[field.name for field in dataclasses.fields(cls)]}"
        )
    hints = typing.get_type_hints(cls)
    return cls(
        **{name: _typed(name, value, hints[name]) for name, value in fields.items()}
    )


def _typed(name: str, value: Any, hint: Any) -> Any:
    """`value`, if it is what the field's type hint allows; int passes for float."""
    allowed = _alternatives(hint)
    if not set(allowed) <= {int, float, bool, str, types.NoneType}:
        return value  # a part of the config or a mapping, which check themselves
    if type(value) in allowed:
        return value
    if float in allowed and type(value) is int:
        return float(value)
    expected = " or ".join(
        "None" if kind is types.NoneType else kind.__name__ for kind in allowed
    )
    raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a hint such as `int | None`."""
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint) if is_union else (hint,)
