"""Runner, flags and grid of settings of each task."""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from seg_tf import tasks
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning import squad
from seg_tf.finetuning.classification import ClassificationRunner
from seg_tf.finetuning.optimizer import BERT_SETTINGS, DEFAULT_LEARNING_RATE
from seg_tf.finetuning.probing import ProbeRunner, probe_setting
from seg_tf.finetuning.squad import SquadRunner
from seg_tf.finetuning.trials import Setting, TaskRunner
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import OptimizerSettings

# In the folder of a task's trials: vectors of probes.
VECTORS_FOLDER = "vectors"
OPTIMIZER_FLAGS = tuple(field.name for field in dataclasses.fields(OptimizerSettings))
_TRAINING_FLAGS = (
    *("grid", "learning_rate", "batch_size", "epochs", "early_stopping"),
    *OPTIMIZER_FLAGS,
)
_COMMON_OPTIONS = ("limit", "max_length", "randomly_initialized", "dtype_policy")


@dataclasses.dataclass(frozen=True)
class RunnerKind:
    """A kind of tasks."""

    description: str
    options: tuple[str, ...]
    trial_flags: tuple[str, ...] = _TRAINING_FLAGS


CLASSIFICATION = RunnerKind(
    "tasks of classification that are fine-tuned",
    (
        *_COMMON_OPTIONS,
        *("keep_pooler", "freeze_encoder", "predict_test", "save_model"),
    ),
)
SQUAD = RunnerKind(
    "SQuAD", (*_COMMON_OPTIONS, "dev_limit", "max_rejected_share", "save_model")
)
PROBE = RunnerKind("probes of a frozen encoder", _COMMON_OPTIONS, ("probe",))
KINDS = (CLASSIFICATION, SQUAD, PROBE)


def task_names() -> tuple[str, ...]:
    """Names of all tasks that have a runner."""
    return (*tasks.names(), *squad.TASKS)


def kind_of_task(task: str, probe: str | None = None) -> RunnerKind:
    """The kind of a task, for fine-tuning or for a probe.

    Raises:
        ValueError: if there is no such task.
    """
    tasks.check_name(task, task_names())
    if task in squad.TASKS:
        return SQUAD
    return CLASSIFICATION if probe is None else PROBE


def check_flags(task: str, names: Collection[str], probe: str | None = None) -> None:
    """Checks that the flags that were set apply to a task.

    Raises:
        ValueError: if there is no such task, or a flag does not apply.
    """
    kind = kind_of_task(task, probe)
    for name in names:
        kinds = [other for other in KINDS if name in other.options + other.trial_flags]
        if kinds and kind not in kinds:
            raise ValueError(
                f"`--{name}` must be left out for {kind.description}: it is for "
                f"{' and '.join(other.description for other in kinds)}. Received: "
                f"--{name} with the task {task}"
            )


def make_runner(
    pretrained: Pretrained,
    task: str,
    data_dir: str | pathlib.Path,
    options: Mapping[str, Any],
    *,
    optimizer: OptimizerSettings = BERT_SETTINGS,
    probe: str | None = None,
    folder: pathlib.Path,
    report: Callable[[str], Any] = print,
) -> TaskRunner:
    """The runner of a task.

    Raises:
        ValueError: if there is no such task, the model does not support it, or files
            are not valid.
        OSError: if a file is missing.
    """
    kind = kind_of_task(task, probe)
    arguments = {name: options[name] for name in kind.options} | {"report": report}
    if kind is PROBE:
        vectors = folder / VECTORS_FOLDER
        return ProbeRunner(pretrained, task, data_dir, vectors, mode=probe, **arguments)
    make = SquadRunner if kind is SQUAD else ClassificationRunner
    return make(pretrained, task, data_dir, optimizer=optimizer, **arguments)


# === Settings ===

# The grid of the paper of the checkpoint's model.
PAPER = "paper"
GRIDS = (PAPER, *finetuning_settings.RECIPES)


@dataclasses.dataclass(frozen=True)
class Grid:
    """Settings and seeds to try.

    Attributes:
        settings: without repetitions.
        seeds: seeds of every setting.
        row_length: maximum row length; None where a paper does not name one.
        freezes_encoder: whether only the head is trained.
        optimizer: its settings other than the learning rate.
        notes: remarks on a paper's grid, as lines of text.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    row_length: int | None = None
    freezes_encoder: bool = False
    optimizer: OptimizerSettings = BERT_SETTINGS
    notes: tuple[str, ...] = ()


def make_grid(
    pretrained: Pretrained,
    task: str,
    grid: str | None = None,
    *,
    probe: str | None = None,
    learning_rates: Sequence[float] = (),
    batch_sizes: Sequence[int] = (),
    epochs: Sequence[int] = (),
    seeds: Sequence[int] = (),
) -> Grid:
    """A paper's grid for a task, or one of the given values.

    Raises:
        ValueError: if a value is not positive and finite, a seed is negative, or there
            is no such grid.
    """
    if any(seed < 0 for seed in seeds):
        raise ValueError(f"`seeds` must be 0 or more. Received: {list(seeds)}")
    seeds = tuple(dict.fromkeys(seeds))
    if probe is not None:
        setting = dataclasses.replace(probe_setting(task), probe=probe)
        return Grid((setting,), seeds or (1,))
    chosen = {
        "learning_rates": learning_rates,
        "batch_sizes": batch_sizes,
        "epochs": epochs,
    }
    for name, values in chosen.items():
        if any(not (value > 0 and math.isfinite(value)) for value in values):
            raise ValueError(
                f"`{name}` must be positive and finite. Received: {list(values)}"
            )
    if grid is None:
        rate = pretrained.finetuning_learning_rate or DEFAULT_LEARNING_RATE
        # In both papers' grids, and common since BERT.
        defaults = ((rate,), (32,), (3,))
        rest: dict[str, Any] = {"seeds": seeds or (1,)}
    else:
        if grid == PAPER:
            grid = pretrained.config.inputs.paper
        if not grid:
            raise ValueError(
                "`--grid=paper` needs a model whose paper fine-tunes with a grid: "
                f"BERT, SegaBERT or SLM. Received: {pretrained.folder}, the run "
                f"{pretrained.config.name!r}, whose model was of "
                f"{type(pretrained.config.model).__name__}. Give --learning_rate, "
                "--batch_size and --epochs"
            )
        recipe = finetuning_settings.get(grid, task)
        defaults = (recipe.learning_rates, recipe.batch_sizes, recipe.num_epochs)
        notes = []
        if recipe.num_runs is None:
            notes.append("does not say how many runs; here it is 1, or --seeds")
        if recipe.score == "best":
            notes.append(
                f"reports the best of {recipe.num_runs} runs; here the table has their "
                "mean and max"
            )
        rest = {
            "seeds": seeds or tuple(range(1, 1 + (recipe.num_runs or 1))),
            "row_length": recipe.row_length,
            "freezes_encoder": recipe.freezes_encoder,
            "optimizer": recipe.optimizer,
            "notes": tuple(f"{recipe.source}: {note}" for note in notes),
        }
    values = (
        some or default for some, default in zip(chosen.values(), defaults, strict=True)
    )
    settings = itertools.starmap(Setting, itertools.product(*values))
    return Grid(tuple(dict.fromkeys(settings)), **rest)
