"""Configs of a run, its training settings and its loss scale."""

import dataclasses
import re
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any

import ml_collections

from seg_tf.config.base import (
    Count,
    Positive,
    Ranged,
    Seed,
    Whole,
    check_choice,
    check_ranges,
    register_config,
    to_config_dict,
)
from seg_tf.config.models import EncoderConfig, MaskedLMConfig
from seg_tf.config.optimizers import AdamWConfig

_DTYPE_POLICIES = ("float32", "mixed_bfloat16", "bfloat16", "mixed_float16")
_REFERENCE = re.compile(r"[\w.]+:\w+")


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class LossScaleConfig(Ranged):
    """Dynamic loss scale, used only with the dtype policy `mixed_float16`.

    Doubles after `growth_interval` finite steps. Halves on overflow, down to `floor`.
    """

    initial: Positive = 2.0**15
    growth_interval: Count = 2_000
    floor: Positive = 1.0


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Training settings of a run, such as its length, batch size and outputs.

    Attributes:
        num_updates: number of updates in the run, after which the schedule ends. May be
            changed when a run is resumed, although the weights depend on it.
        batch_size: number of rows per update, over all processes.
        micro_batch_size: number of rows that a process computes at once, with gradient
            accumulation. If None, a process computes all its rows at once.
        clip_norm: maximum global gradient norm. None disables clipping.
        max_skipped_steps: number of consecutive steps that may be skipped because the
            loss or gradient is not finite. One more ends the run.
        seed: random seed of initial weights, dropout, sample order and masks.
        dtype_policy: Keras policy float32, mixed_bfloat16, bfloat16 or mixed_float16.
        loss_scale: loss scale for `mixed_float16`.
        recompute_layers: whether to use gradient checkpointing, which recomputes each
            transformer layer in the backward pass to save memory.
        compress_gradients: whether to send gradients between processes as float16.
            Without the loss scale of `mixed_float16`, values below 6e-8 become 0.
        gradient_groups: number of groups in which gradients are summed over processes.
            Without XLA, one group is sent while the next is computed.
        jit_compile: whether XLA compiles the gradients and the update. If None, True
            on a GPU unless `deterministic_ops` is set. JAX always compiles.
        vocab_multiple: multiple to which vocabulary logits are padded. If None, 8 on a
            GPU, where this is faster, and 1 elsewhere. Checkpoints are not padded.
        deterministic_ops: whether TensorFlow uses only deterministic kernels. If None,
            True without a GPU. On a GPU, these kernels are slow, exclude `jit_compile`,
            and make resumed runs identical to uninterrupted ones.
        log_interval: number of updates between log rows.
        validation_interval: number of updates between validations. 0 disables them.
        validation_batches: maximum number of batches per validation.
        checkpoint_interval: number of updates between checkpoints.
        keep_checkpoints: number of newest checkpoints to keep. The best is also kept.
        callbacks: functions as `"package.module:function"`, each called with the run's
            folder to create a Keras callback.
        probes: downstream measures to add to each validation, as `"blimp=FOLDER"` and
            `"sts-b=FOLDER"` (see `seg_tf.inference.probes.Probes`).
    """

    num_updates: Count = 500_000
    batch_size: Count = 256
    micro_batch_size: Count | None = None
    clip_norm: Positive | None = 1.0
    max_skipped_steps: Whole = 20
    seed: Seed = 0
    dtype_policy: str = "float32"
    loss_scale: LossScaleConfig = LossScaleConfig()
    recompute_layers: bool = False
    compress_gradients: bool = False
    gradient_groups: Count = 4
    jit_compile: bool | None = None
    vocab_multiple: Count | None = None
    deterministic_ops: bool | None = None
    log_interval: Count = 50
    validation_interval: Whole = 5_000
    validation_batches: Count = 50
    checkpoint_interval: Count = 5_000
    keep_checkpoints: Count = 3
    callbacks: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranges(self)
        size = self.micro_batch_size
        if size is not None and self.batch_size % size:
            raise ValueError(
                "`micro_batch_size` must divide `batch_size`. "
                f"Received: micro_batch_size={size}, batch_size={self.batch_size}"
            )
        check_choice("dtype_policy", self.dtype_policy, _DTYPE_POLICIES)
        if not isinstance(self.callbacks, tuple) or not all(
            isinstance(name, str) and _REFERENCE.fullmatch(name)
            for name in self.callbacks
        ):
            raise ValueError(
                "`callbacks` must be a tuple of names package.module:function. "
                f"Received: callbacks={self.callbacks!r}"
            )


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a pretraining run, which determine its result for a given text.

    `inputs`, `model`, `optimizer` and the values of `objectives` are configs.

    Attributes:
        name: short name for folders and titles (see `named_runs`).
        paper: column of `seg_tf.papers` to compare the run with.
        records_dir: folder of the records, or a weighted mixture of several, such as
            "wikipedia:3,books:1". Overridden by the flag `--records_dir`.
    """

    name: str = ""
    paper: str = ""
    inputs: Any
    model: Any = EncoderConfig()
    objectives: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({"masked_lm": MaskedLMConfig()})
    )
    optimizer: Any = AdamWConfig()
    training: TrainingConfig = TrainingConfig()
    records_dir: str | None = None

    def __post_init__(self) -> None:
        parts = {name: getattr(self, name) for name in ("model", "inputs", "optimizer")}
        if not isinstance(self.objectives, Mapping):
            raise ValueError(
                "`objectives` must map names to configs. Received: "
                f"objectives={self.objectives!r}"
            )
        parts |= {f"objectives.{name}": part for name, part in self.objectives.items()}
        for name, part in parts.items():
            if not dataclasses.is_dataclass(part):
                raise ValueError(
                    f"`{name}` must be a config, with the name of its class as `type`. "
                    f"Received: {name}={part!r}"
                )
        # Custom optimizers need not have a schedule.
        if hasattr(self.optimizer, "check_length"):
            self.optimizer.check_length(self.training.num_updates)
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

    def decay_begin(self, num_updates: int) -> int | None:
        """Returns the last update unaffected by the run's length, if any, else None."""
        if not hasattr(self.optimizer, "decay_begin"):
            return None
        return self.optimizer.decay_begin(num_updates)


def named_runs(family: str, **runs: RunConfig) -> dict[str, RunConfig]:
    """Returns a config file's runs by variant, each named `family_variant`.

    The name is also the default of `RunConfig.paper`.
    """
    named = {}
    for variant, run in runs.items():
        name = f"{family}_{variant}"
        named[variant] = dataclasses.replace(run, name=name, paper=run.paper or name)
    return named


def config_getter(
    runs: Mapping[str, RunConfig],
) -> Callable[[str], ml_collections.ConfigDict]:
    """Returns the `get_config` function of a config file.

    The function maps a variant's name to a config that flags can change, or raises
    ValueError. A name without a size, such as `modern`, selects the tiny variant.
    """

    def get_config(variant: str = "tiny") -> ml_collections.ConfigDict:
        run = runs.get(variant) or runs.get(f"{variant}_tiny")
        if run is None:
            check_choice("variant", variant, runs)
        return to_config_dict(run)

    return get_config


def follow_source(
    config: RunConfig, source: Mapping[str, Any], user_fields: Collection[str]
) -> tuple[RunConfig, dict[str, tuple[Any, Any]]]:
    """Adapts an encoder's config to the pretrained weights that it starts from.

    `source` has the fields of an `EncoderConfig`. Adopts its LayerNorm epsilon and kind
    of GELU, and the larger size for token types and common index tables, so that no
    pretrained row is lost. Fields in `user_fields` are not changed. Returns the config,
    and a dict from the path of each adopted setting to (old, new).
    """
    model = config.model
    if not isinstance(model, EncoderConfig):
        return config, {}
    adopted: dict[str, tuple[Any, Any]] = {}

    def adopt(name: str, ours: Any, theirs: Any) -> Any:
        path = f"model.{name}"
        if path in user_fields or path.rpartition(".")[0] in user_fields:
            return ours
        if ours != theirs:
            adopted[path] = (ours, theirs)
        return theirs

    # Weights of other libraries depend on these, but no tensor shape reveals them.
    changes: dict[str, Any] = {
        name: adopt(name, getattr(model, name), source[name])
        for name in ("layer_norm_epsilon", "approximate_gelu")
    }
    types_before = model.num_token_types
    changes["num_token_types"] = adopt(
        "num_token_types", types_before, max(source["num_token_types"], types_before)
    )
    tables = source["index_tables"]
    changes["index_tables"] = {
        name: adopt(f"index_tables.{name}", rows, max(tables.get(name, 0), rows))
        for name, rows in model.index_tables.items()
    }
    if not adopted:
        return config, {}
    model = dataclasses.replace(model, **changes)
    return dataclasses.replace(config, model=model), adopted


def describe_taken(adopted: Mapping[str, tuple[Any, Any]]) -> str:
    """Formats settings like `model.approximate_gelu=True (the config says False)`."""
    return "; ".join(
        f"{path}={theirs} (the config says {ours})"
        for path, (ours, theirs) in adopted.items()
    )
