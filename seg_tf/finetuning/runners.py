"""Selects the runner, flags and settings for a task."""

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from seg_tf import tasks
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config.base import check_choice
from seg_tf.finetuning import squad
from seg_tf.finetuning.classification import ClassificationRunner
from seg_tf.finetuning.optimizer import BERT_SETTINGS, DEFAULT_LEARNING_RATE
from seg_tf.finetuning.probing import ProbeRunner, probe_recipe
from seg_tf.finetuning.squad import SquadRunner
from seg_tf.finetuning.trials import TaskRunner
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import OptimizerSettings, Recipe

OPTIMIZER_FLAGS = tuple(field.name for field in dataclasses.fields(OptimizerSettings))
# Selects the grid in the paper of the checkpoint's model.
PAPER = "paper"
GRIDS = (PAPER, *finetuning_settings.RECIPES)

CLASSIFICATION, SQUAD, PROBE = "classification", "SQuAD", "probes"
_COMMON_OPTIONS = ("limit", "max_length", "randomly_initialized", "dtype_policy")
# Maps each kind of task to the arguments of its runner.
OPTIONS = {
    CLASSIFICATION: (
        *_COMMON_OPTIONS,
        *("freeze_encoder", "predict_test", "save_model"),
    ),
    SQUAD: (*_COMMON_OPTIONS, "dev_limit", "save_model"),
    PROBE: _COMMON_OPTIONS,
}
_TRAINING_FLAGS = (
    *("grid", "learning_rate", "batch_size", "epochs", "early_stopping", "callbacks"),
    *OPTIMIZER_FLAGS,
)
_FLAGS = {
    CLASSIFICATION: (*OPTIONS[CLASSIFICATION], *_TRAINING_FLAGS),
    SQUAD: (*OPTIONS[SQUAD], *_TRAINING_FLAGS),
    PROBE: (*OPTIONS[PROBE], "probe"),
}


def kind_of_task(task: str, probe: str | None = None) -> str:
    """Returns a task's key in `OPTIONS`. Raises a ValueError for unknown tasks."""
    check_choice("task", task, (*tasks.names(), *squad.TASKS))
    if task in squad.TASKS:
        return SQUAD
    return CLASSIFICATION if probe is None else PROBE


def check_flags(task: str, names: Collection[str], probe: str | None = None) -> None:
    """Raises a ValueError for an unknown task or for flags that do not apply to it."""
    kind = kind_of_task(task, probe)
    for name in names:
        kinds = [other for other, known in _FLAGS.items() if name in known]
        if kinds and kind not in kinds:
            raise ValueError(
                f"`--{name}` is for {' and '.join(kinds)}. Received: --{name} with the "
                f"task {task}, for {kind}"
            )


def make_runner(
    pretrained: Pretrained,
    task: str,
    data_dir: str | pathlib.Path,
    options: Mapping[str, Any],
    *,
    optimizer: OptimizerSettings = BERT_SETTINGS,
    probe: str | None = None,
    report: Callable[[str], Any] = print,
) -> TaskRunner:
    """Creates the `TaskRunner` of a task.

    `probe`, a mode in `seg_tf.finetuning.probing.MODES`, selects a `ProbeRunner`, which
    ignores `optimizer`. It has no effect on SQuAD. `options` must contain the names in
    `OPTIONS[kind_of_task(task, probe)]`. Raises a ValueError for an unknown task, and
    the errors of the runner's constructor.
    """
    kind = kind_of_task(task, probe)
    arguments = {name: options[name] for name in OPTIONS[kind]} | {"report": report}
    if probe is not None and kind == PROBE:
        return ProbeRunner(pretrained, task, data_dir, mode=probe, **arguments)
    make = SquadRunner if kind == SQUAD else ClassificationRunner
    return make(pretrained, task, data_dir, optimizer=optimizer, **arguments)


def make_recipe(
    pretrained: Pretrained,
    task: str,
    grid: str | None = None,
    *,
    probe: str | None = None,
    **chosen: Sequence[Any],
) -> Recipe:
    """Returns the settings to try for a task, from a `grid` in `GRIDS` or the defaults.

    Nonempty values in `chosen`, named like fields of `Recipe`, take precedence. If
    `probe` is not None, only the task matters: the result is `probe_recipe(task)`.
    Raises a ValueError if the model or the task has no such grid or probe.
    """
    if probe is not None:
        return probe_recipe(task)
    rate = pretrained.finetuning_learning_rate or DEFAULT_LEARNING_RATE
    recipe = Recipe(learning_rates=(rate,))
    if grid == PAPER:
        grid = pretrained.config.inputs.paper
        if not grid:
            raise ValueError(
                "`--grid=paper` needs a model whose paper fine-tunes with a grid: "
                f"BERT, SegaBERT or SLM. Received: {pretrained.folder}, the run "
                f"{pretrained.config.name!r}. Give --learning_rate, --batch_size and "
                "--epochs"
            )
    if grid:
        recipe = finetuning_settings.get(grid, task)
    values = {name: tuple(some) for name, some in chosen.items() if some}
    return dataclasses.replace(recipe, **values)
