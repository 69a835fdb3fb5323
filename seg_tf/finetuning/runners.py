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

# In the folder of a task's trials: what probes read.
VECTORS_FOLDER = "vectors"
OPTIMIZER_FLAGS = tuple(field.name for field in dataclasses.fields(OptimizerSettings))
_TRAINING_FLAGS = (
    *("grid", "learning_rate", "batch_size", "epochs", "early_stopping"),
    *OPTIMIZER_FLAGS,
)
_ALL_HAVE = ("limit", "max_length", "randomly_initialized", "dtype_policy")


@dataclasses.dataclass(frozen=True)
class RunnerKind:
    """A kind of tasks.

    Attributes:
        described: its tasks, for messages.
        options: flags that its runner takes as arguments.
        trial_flags: further flags that apply to its trials.
    """

    described: str
    options: tuple[str, ...]
    trial_flags: tuple[str, ...] = _TRAINING_FLAGS


CLASSIFICATION = RunnerKind(
    "tasks of classification that are fine-tuned",
    (*_ALL_HAVE, "keep_pooler", "freeze_encoder", "predict_test", "save_model"),
)
SQUAD = RunnerKind("SQuAD", (*_ALL_HAVE, "dev_limit", "save_model"))
PROBE = RunnerKind("probes of a frozen encoder", _ALL_HAVE, ("probe",))
KINDS = (CLASSIFICATION, SQUAD, PROBE)


def task_names() -> tuple[str, ...]:
    """Names of all tasks that have a runner."""
    return (*tasks.names(), *squad.TASKS)


def kind_of(task: str, probe: str | None = None) -> RunnerKind:
    """The kind of a task.

    Args:
        task: name of the task.
        probe: how texts are encoded for a probe; None for fine-tuning.

    Raises:
        ValueError: if there is no such task.
    """
    tasks.check_name(task, task_names())
    if task in squad.TASKS:
        return SQUAD
    return CLASSIFICATION if probe is None else PROBE


def check_flags(task: str, given: Collection[str], probe: str | None = None) -> None:
    """Makes sure that flags apply to a task.

    Args:
        task: name of the task.
        given: names of flags that were set.
        probe: as for `kind_of`.

    Raises:
        ValueError: if there is no such task, or a flag is for others.
    """
    kind = kind_of(task, probe)
    for name in given:
        kinds = [one for one in KINDS if name in (*one.options, *one.trial_flags)]
        if kinds and kind not in kinds:
            raise ValueError(
                f"`--{name}` must be left out for {kind.described}: it is for "
                f"{' and '.join(one.described for one in kinds)}. Received: --{name} "
                f"with the task {task}"
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

    Args:
        pretrained: the checkpoint.
        task: name of the task.
        data_dir: folder of the benchmark, or of the task.
        options: values of `kind_of(task, probe).options`; others are ignored.
        optimizer: settings of fine-tuning other than the learning rate.
        probe: as for `kind_of`.
        folder: of the task's trials, where probes keep the vectors they read.
        report: called with lines of text.

    Raises:
        ValueError: if there is no such task, the model cannot do it, or files are not
            valid.
        OSError: if a file is missing.
    """
    kind = kind_of(task, probe)
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
        seeds: of every setting.
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

    Args:
        pretrained: the checkpoint.
        task: name of the task.
        grid: one of `GRIDS`; None takes the learning rate that the checkpoint names, or
            else 3e-5, batches of 32 and 3 epochs.
        probe: as for `kind_of`; a probe has one setting, that of its protocol.
        learning_rates: replace those of the grid, if there are any.
        batch_sizes: likewise.
        epochs: likewise.
        seeds: replace 1 up to the paper's number of runs.

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
    given = {
        "learning_rates": learning_rates,
        "batch_sizes": batch_sizes,
        "epochs": epochs,
    }
    for name, values in given.items():
        if any(not (value > 0 and math.isfinite(value)) for value in values):
            raise ValueError(
                f"`{name}` must be positive and finite. Received: {list(values)}"
            )
    if grid is None:
        rate = pretrained.finetuning_learning_rate or DEFAULT_LEARNING_RATE
        # In both papers' grids, and the usual ones since BERT.
        usual = ((rate,), (32,), (3,))
        more: dict[str, Any] = {"seeds": seeds or (1,)}
    else:
        recipe = finetuning_settings.get(_recipe_name(pretrained, grid), task)
        usual = (recipe.learning_rates, recipe.batch_sizes, recipe.num_epochs)
        notes = []
        if recipe.num_runs is None:
            notes.append("does not say how many runs; here it is 1, or --seeds")
        if recipe.score == "best":
            notes.append(
                f"reports the best of {recipe.num_runs} runs; here the table has their "
                "mean and max"
            )
        more = {
            "seeds": seeds or tuple(range(1, 1 + (recipe.num_runs or 1))),
            "row_length": recipe.row_length,
            "freezes_encoder": recipe.freezes_encoder,
            "optimizer": recipe.optimizer,
            "notes": tuple(f"{recipe.source}: {note}" for note in notes),
        }
    tried = (
        values or other for values, other in zip(given.values(), usual, strict=True)
    )
    settings = itertools.starmap(Setting, itertools.product(*tried))
    return Grid(tuple(dict.fromkeys(settings)), **more)


def _recipe_name(pretrained: Pretrained, grid: str) -> str:
    if grid != PAPER:
        return grid
    if pretrained.config.inputs.paper:
        return pretrained.config.inputs.paper
    raise ValueError(
        "`--grid=paper` needs a model whose paper fine-tunes with a grid: BERT, "
        f"SegaBERT or SLM. Received: {pretrained.folder}, the run "
        f"{pretrained.config.name!r}, whose model was of "
        f"{type(pretrained.config.model).__name__}. Give --learning_rate, --batch_size "
        "and --epochs"
    )
