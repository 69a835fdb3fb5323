"""Length of a run, its batch, its precision, and what it writes on the way."""

import dataclasses
import re
from typing import ClassVar

from seg_tf.configuration.bounds import Count, Positive, Seed, Whole, check_ranges
from seg_tf.configuration.registry import register

_DTYPE_POLICIES = ("float32", "mixed_bfloat16", "bfloat16", "mixed_float16")
_REFERENCE = re.compile(r"[\w.]+:\w+")


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class LossScaleConfig:
    """Dynamic loss scale, used where the dtype policy is `mixed_float16` only.

    Attributes:
        initial: factor of the loss in the first step.
        growth_interval: updates without overflow after which the scale doubles.
        floor: the scale is never halved below this.
    """

    implementation: ClassVar[str] = (
        "seg_tf.training.optimizers.loss_scale:DynamicLossScale"
    )

    initial: Positive = 2.0**15
    growth_interval: Count = 2_000
    floor: Positive = 1.0

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.floor > self.initial:
            raise ValueError(
                "`floor` must be at most `initial`. Received: "
                f"floor={self.floor}, initial={self.initial}"
            )


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Length of a run, its batch, and what it writes on the way.

    Attributes:
        num_updates: updates of the whole run; the schedule ends with them. The one
            setting of what is learned that may change when a run is resumed.
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
        recompute_layers: whether the backward pass computes each transformer layer
            again instead of holding its inner values: less memory for a forward pass
            more. What is learned is the same, but for rounding.
        compress_gradients: whether gradients travel between processes as float16.
            Without a loss scale those below 6e-8 become 0 on the way, so that it
            goes well with `mixed_float16` only.
        gradient_groups: groups in which gradients are summed over processes, those that
            the backward pass has first, first: where XLA does not compile them, the sum
            of one group travels while the next is computed.
        jit_compile: whether XLA compiles the gradients and the update. None does so
            where there is a GPU, unless `deterministic_ops` is true; JAX always does.
        vocab_multiple: multiple to which the logits of words are padded. None takes 8
            on a GPU, whose kernels are slower for other sizes, and 1 elsewhere. What is
            learned and checkpoints are the same for any.
        deterministic_ops: whether TensorFlow may only use kernels that give the
            same bits each time. None does so where there is no GPU; on a GPU they
            copy through the host what they scatter into, and cannot be combined with
            `jit_compile`. Without them a resumed run on a GPU is close to an
            uninterrupted one, not equal to it.
        log_interval: updates between two rows of the log.
        validation_interval: updates between two validations; 0 trains without any,
            as on records that hold nothing out.
        validation_batches: batches of a validation, if there are as many.
        checkpoint_interval: updates between two checkpoints.
        keep_checkpoints: how many of the newest checkpoints stay; the best one by
            validation loss stays too.
        callbacks: Keras callbacks of one's own, each `"package.module:function"`, which
            is called with the run's folder and returns one
            (`seg_tf.training.outputs.run_callbacks`).
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

    def __post_init__(self) -> None:
        check_ranges(self)
        size = self.micro_batch_size
        if size is not None and self.batch_size % size:
            raise ValueError(
                "`micro_batch_size` must divide `batch_size`. "
                f"Received: micro_batch_size={size}, batch_size={self.batch_size}"
            )
        if self.dtype_policy not in _DTYPE_POLICIES:
            raise ValueError(
                f"`dtype_policy` must be one of {', '.join(_DTYPE_POLICIES)}. "
                f"Received: dtype_policy={self.dtype_policy!r}"
            )
        if not isinstance(self.callbacks, tuple) or not all(
            isinstance(one, str) and _REFERENCE.fullmatch(one) for one in self.callbacks
        ):
            raise ValueError(
                "`callbacks` must be a tuple of names package.module:function. "
                f"Received: callbacks={self.callbacks!r}"
            )
