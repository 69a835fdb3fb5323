"""Choice of the runner of a task's trials, and of its options."""

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from seg_tf import tasks
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.classification.runner import ClassificationRunner
from seg_tf.finetuning.optimizer import BERT_SETTINGS
from seg_tf.finetuning.probing.probe_runner import ProbeRunner
from seg_tf.finetuning.spans import squad_runner
from seg_tf.finetuning.spans.squad_runner import SquadRunner
from seg_tf.finetuning.trials.trial import TaskRunner
from seg_tf.tasks.finetuning_settings import OptimizerSettings

# In the folder of a task's trials: what probes read.
VECTORS_FOLDER = "vectors"
_ALL_HAVE = ("limit", "max_length", "randomly_initialized", "dtype_policy")


@dataclasses.dataclass(frozen=True)
class RunnerKind:
    """A kind of tasks.

    Attributes:
        described: of which tasks, for people.
        options: flags that its runner takes as arguments.
        trial_options: further flags that mean something for its trials.
    """

    described: str
    options: tuple[str, ...]
    trial_options: tuple[str, ...] = ()


_OF_TRAININGS = ("grid", "learning_rate", "batch_size", "epochs", "early_stopping")
OPTIMIZER_FLAGS = tuple(field.name for field in dataclasses.fields(OptimizerSettings))
CLASSIFICATION = RunnerKind(
    "tasks of classification that are fine-tuned",
    (*_ALL_HAVE, "keep_pooler", "freeze_encoder", "predict_test", "save_model"),
    (*_OF_TRAININGS, *OPTIMIZER_FLAGS),
)
SQUAD = RunnerKind(
    "SQuAD",
    (*_ALL_HAVE, "dev_limit", "save_model"),
    (*_OF_TRAININGS, *OPTIMIZER_FLAGS),
)
PROBE = RunnerKind("probes of a frozen encoder", _ALL_HAVE, ("probe",))
KINDS = (CLASSIFICATION, SQUAD, PROBE)


def task_names() -> tuple[str, ...]:
    """Names of all tasks that there are runners of."""
    return (*tasks.names(), *squad_runner.TASKS)


def kind_of(task: str, probe: str | None = None) -> RunnerKind:
    """The kind of a task.

    Args:
        task: name of the task.
        probe: how texts are read for a probe; None for fine-tuning.

    Raises:
        ValueError: if there is no such task.
    """
    tasks.check_name(task, task_names())
    if task in squad_runner.TASKS:
        return SQUAD
    return CLASSIFICATION if probe is None else PROBE


def check_flags(task: str, given: Collection[str], probe: str | None = None) -> None:
    """Makes sure that flags mean something for a task.

    Args:
        task: name of the task.
        given: names of flags that somebody set.
        probe: as for `kind_of`.

    Raises:
        ValueError: if there is no such task, or a flag is for others.
    """
    kind = kind_of(task, probe)
    for name in given:
        others = [
            other.described
            for other in KINDS
            if name in (*other.options, *other.trial_options)
        ]
        if others and kind.described not in others:
            raise ValueError(
                f"`--{name}` must be left out for {kind.described}: it is for "
                f"{' and '.join(others)}. Received: --{name} with the task {task}"
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
        options: values of `kind_of(task, probe).options`; others are not read.
        optimizer: settings of fine-tuning beside the learning rate.
        probe: as for `kind_of`.
        folder: of the task's trials, where probes keep the vectors they read.
        report: called with lines of text.

    Raises:
        ValueError: if there is no such task, the model cannot do it, or files are not
            as they must be.
        OSError: if a file is missing.
    """
    kind = kind_of(task, probe)
    arguments = {name: options[name] for name in kind.options}
    if kind is SQUAD:
        return SquadRunner(
            pretrained,
            task,
            data_dir,
            optimizer=optimizer,
            report=report,
            **arguments,
        )
    if kind is PROBE:
        return ProbeRunner(
            pretrained,
            task,
            data_dir,
            folder / VECTORS_FOLDER,
            mode=probe,
            report=report,
            **arguments,
        )
    return ClassificationRunner(
        pretrained, task, data_dir, optimizer=optimizer, report=report, **arguments
    )
