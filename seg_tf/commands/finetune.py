r"""Fine-tunes a pretrained encoder on tasks and reports scores.

  python run_finetuning.py --task=glue/mrpc --data_dir=glue \
    --checkpoint=runs/segabert_tiny --output_dir=finetuned/mrpc

A trial is one training, with one setting and one seed. Seeds often differ by more than
settings or models do, so give several:

  … --learning_rate=2e-5,3e-5,5e-5 --batch_size=16,32 --epochs=3,4 --seeds=1,2,3

--checkpoint may also name weights of another program, in a folder or as
hf://organisation/name: they are converted once, as import_weights does, into the
folder initial_checkpoint of --output_dir.

Several values are all tried, every setting with every seed. --grid=paper tries those of
the paper of the checkpoint's model, as many seeds as it ran; values that are given take
the place of the grid's. --dry_run says how many trials that makes.

--output_dir holds, for each task,

  trials/           scores and predictions, a folder a trial
  results.csv       a row a trial
  summary.txt       a line a setting: mean, standard deviation, min and max of its seeds
  learning_curves.png

of all its trials. Killed or stopped, the command continues with the first unfinished
trial when it is given again; with further values or seeds it runs the missing trials. A
trial that diverges does not stop the others; the command then ends with an error that
names it. Other models, files or options need another folder.

--wandb=PROJECT and --mlflow=EXPERIMENT send epochs and scores to Weights & Biases or to
MLflow as well, each trial as a run.

Baselines are the score of the most frequent label, printed with the results, and that
of the same model without pretraining:

  … --output_dir=finetuned/mrpc_random --randomly_initialized
  … --output_dir=finetuned/mrpc --compare=finetuned/mrpc_random

Several tasks, comma-separated, get folders of their names in --output_dir; the files
of --predict_test for GLUE's leaderboard are collected in submission:

  … --task=glue/cola,glue/rte --predict_test --output_dir=finetuned/glue

DiscoEval's tasks are fine-tuned too, or probed by that benchmark's protocol: vectors of
a frozen encoder, computed once, and a logistic regression on them, which has no setting
but its seed:

  … --task=discoeval/sp/rocstory --probe=per_sentence --seeds=1,2,3

On several processes, each takes its share of the trials:

  horovodrun -np 4 python run_finetuning.py …

`python -m seg_tf.tasks` lists the tasks: those of GLUE, DiscoEval and RACE, and SQuAD.
"""

import contextlib
import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags, tracker_flags
from seg_tf.finetuning import runners, trial_report, trials
from seg_tf.finetuning.probing import MODES
from seg_tf.finetuning.trial_report import Compared
from seg_tf.finetuning.trials import ADVICE, TaskRunner, Trial, TrialsFolder
from seg_tf.interop import convert
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.training import (
    distribution,
    engine,
    horovod_distribution,
    trackers,
)
from seg_tf.training.errors import TrainingStopped

# Flags whose values may differ between hosts; what lies there may not.
_PATHS = ("checkpoint", "vocab_file", "data_dir", "output_dir", "compare")
_DTYPE_POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True)
class _Job:
    """The trials of a task.

    Attributes:
        runner: what runs them.
        folder: where they go.
        settings: what they have in common.
        wanted: all of them, finished ones too.
        compared: trials to hold beside.
    """

    runner: TaskRunner
    folder: TrialsFolder
    settings: Mapping[str, Any]
    wanted: Sequence[Trial]
    compared: Compared | None


def define_flags() -> None:
    model_flags.define_model_flags()
    _define_task_flags()
    _define_setting_flags()
    _define_row_and_model_flags()
    _define_output_flags()
    tracker_flags.define_tracker_flags()


def _define_task_flags() -> None:
    flags.DEFINE_list(
        "task",
        None,
        "Names of tasks, as in glue/mrpc, squad/v1.1, discoeval/ssp; comma-separated.",
        required=True,
    )
    flags.DEFINE_string(
        "data_dir", None, "Folder of the benchmark, or of the task.", required=True
    )
    flags.DEFINE_string("output_dir", None, "Folder to write to.", required=True)
    flags.DEFINE_integer(
        "limit", None, "Train on the first so many examples, to try.", lower_bound=1
    )
    flags.DEFINE_integer(
        "dev_limit",
        None,
        "Answer the first so many questions of SQuAD's dev split, to try.",
        lower_bound=1,
    )


def _define_setting_flags() -> None:
    """Flags of the settings that are tried, and of a trial's training."""
    flags.DEFINE_enum(
        "grid",
        None,
        list(runners.GRIDS),
        "Tries what a paper tried; `paper` is that of the checkpoint's model.",
    )
    flags.DEFINE_list(
        "learning_rate",
        [],
        "Highest learning rates. Default: that which the checkpoint names, or 3e-5.",
    )
    flags.DEFINE_list("batch_size", [], "Examples of an update. Default: 32.")
    flags.DEFINE_list("epochs", [], "Passes over the training examples. Default: 3.")
    flags.DEFINE_list(
        "seeds",
        [],
        "Seeds of new weights, dropout and order, for every setting. Default: 1, or "
        "1 up to as many as the paper of --grid ran.",
    )
    of_optimizer = OptimizerSettings()
    for name, what in (
        ("warmup_share", "Share of the updates in which the learning rate rises."),
        ("weight_decay", "Decay of the weights, times the learning rate."),
        ("epsilon", "What AdamW adds to the root of the second moment."),
        ("clip_norm", "Largest global norm of the gradients."),
    ):
        usual = getattr(of_optimizer, name)
        flags.DEFINE_float(
            name, None, f"{what} Default: as the paper of --grid; without, {usual:g}."
        )
    flags.DEFINE_integer(
        "early_stopping",
        None,
        "End a trial after so many epochs without a better main metric on the dev "
        "split, and score the best epoch instead of the last.",
        lower_bound=1,
    )


def _define_row_and_model_flags() -> None:
    flags.DEFINE_integer(
        "max_length",
        None,
        "Positions of a row at most. Default: those of --grid, or of pretraining.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "randomly_initialized", False, "Start from new weights, not the checkpoint's."
    )
    flags.DEFINE_bool(
        "keep_pooler",
        True,
        "Start from the pooler of [CLS] that an imported checkpoint has, and not anew.",
    )
    flags.DEFINE_bool(
        "freeze_encoder",
        False,
        "Train only what is above the encoder. Default: as the paper of --grid did.",
    )
    flags.DEFINE_enum(
        "probe",
        None,
        list(MODES),
        "Train DiscoEval's probe on vectors of the frozen encoder, of every sentence "
        "alone as in the benchmark, or of all sentences of an example together.",
    )
    flags.DEFINE_enum(
        "dtype_policy", "float32", list(_DTYPE_POLICIES), "Precision of computation."
    )


def _define_output_flags() -> None:
    flags.DEFINE_bool(
        "predict_test",
        False,
        "Predict test splits too: those of GLUE for its leaderboard, into submission. "
        "Every trial does, so it has to be given from the start.",
    )
    flags.DEFINE_bool(
        "save_model", False, "Keep the model of every trial, in its folder `model`."
    )
    flags.DEFINE_string(
        "compare", None, "Another --output_dir of the same tasks, to compare with."
    )
    flags.DEFINE_bool("dry_run", False, "Print the trials and touch nothing.")
    flags.DEFINE_list(
        "callbacks",
        [],
        "Keras callbacks of your own, as package.module:function, comma-separated. "
        "Each function is called for every trial with its folder.",
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Those who have done their share wait for others, which is no fault.
    os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")
    processes = horovod_distribution.join()
    say = print if processes.is_chief else _say_nothing
    output_dir = output_paths.folder_path(values.output_dir)
    names = list(dict.fromkeys(values.task))
    given = [name for name in values if values[name].present]
    processes.check_agreement(
        {
            **engine.software(),
            **{f"--{name}": values[name].value for name in given if name not in _PATHS},
        }
    )
    for name in names:
        runners.check_flags(name, given, values.probe)
    factories = trackers.find_factories(values.callbacks, "--callbacks")
    chosen_trackers = tracker_flags.chosen_trackers()

    def make_jobs() -> list[_Job]:
        pretrained = _load_model(output_dir, processes, say)
        parts = [""] if len(names) == 1 else names
        return [
            _make_job(name, part, pretrained, say)
            for name, part in zip(names, parts, strict=True)
        ]

    # Whatever can be refused, before anything is trained.
    jobs = processes.call_together(make_jobs)
    processes.check_agreement({job.runner.name: job.settings for job in jobs})
    if values.dry_run:
        say("Nothing was written; without --dry_run these trials are run")
        return
    num_trials, diverged = sum(len(job.wanted) for job in jobs), []
    while jobs:
        # Let go of afterwards, with its model.
        job = jobs.pop(0)
        diverged += _run(job, factories, chosen_trackers, processes, say)
    if values.predict_test and any(name.startswith("glue/") for name in names):
        submission = output_dir / trial_report.SUBMISSION_FOLDER
        say(trial_report.describe_submission(submission))
    # Others end well: a launcher would end the chief, which still writes, with them.
    if diverged and processes.is_chief:
        raise TrainingStopped(
            f"{len(diverged):,} of {num_trials:,} trials diverged and have no scores: "
            f"{'; '.join(diverged)}. {ADVICE}"
        )


def _load_model(
    output_dir: pathlib.Path,
    processes: distribution.Distribution,
    say: Callable[[str], Any],
) -> Pretrained:
    """The model that `--checkpoint` names; one of another program is converted."""
    values = flags.FLAGS
    with contextlib.ExitStack() as stack:
        made_in = None
        if values.dry_run:
            made_in = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = convert.find_initial(
            values.checkpoint,
            output_dir,
            "--checkpoint",
            processes=processes,
            made_in=made_in,
            report=say,
            vocab_file=pathlib.Path(values.vocab_file) if values.vocab_file else None,
            lower_case=values.lower_case,
        )
        return model_flags.load_model(checkpoint=folder)


def _make_job(
    name: str,
    part: str,
    pretrained: Pretrained,
    say: Callable[[str], Any],
) -> _Job:
    values = flags.FLAGS
    grid = runners.make_grid(
        pretrained,
        name,
        values.grid,
        probe=values.probe,
        learning_rates=_numbers("learning_rate", float),
        batch_sizes=_numbers("batch_size", int),
        epochs=_numbers("epochs", int),
        seeds=_numbers("seeds", int),
    )
    kind = runners.kind_of(name, values.probe)
    options = {option: values[option].value for option in kind.options}
    options["max_length"] = _max_length(pretrained, grid)
    if "freeze_encoder" in options and not values["freeze_encoder"].present:
        options["freeze_encoder"] = grid.freezes_encoder
    for note in grid.notes:
        say(f"{name}: {note}")
    given = {name: values[name].value for name in runners.OPTIMIZER_FLAGS}
    given = {name: value for name, value in given.items() if value is not None}
    optimizer = dataclasses.replace(grid.optimizer, **given)
    folder = TrialsFolder(pathlib.Path(values.output_dir) / part)
    runner = runners.make_runner(
        pretrained,
        name,
        values.data_dir,
        options,
        optimizer=optimizer,
        probe=values.probe,
        folder=folder.path,
        report=say,
    )
    settings = {
        "task": name,
        "run": pretrained.config.name,
        "weights_sha256": pretrained.weights_checksum,
        "vocabulary_sha256": pretrained.vocabulary.checksum,
        "files_sha256": runner.describe(),
        "early_stopping": values.early_stopping,
        "probe": values.probe,
        **({} if values.probe else {"optimizer": dataclasses.asdict(optimizer)}),
        **options,
    }
    folder.check(settings)
    compared = None
    if values.compare:
        compared = trial_report.compared_trials(
            pathlib.Path(values.compare) / part, settings
        )
    wanted = trials.all_trials(grid.settings, grid.seeds)
    num_done = sum(map(folder.is_finished, wanted))
    frozen = ", the encoder is frozen" if options.get("freeze_encoder") else ""
    say(
        f"{name}: {runner.num_examples:,} examples, {len(grid.settings):,} settings "
        f"with {len(grid.seeds)} seeds: {len(wanted):,} trials, {num_done:,} done"
        f"{frozen}"
    )
    return _Job(runner, folder, settings, wanted, compared)


def _run(
    job: _Job,
    factories: Sequence[trackers.CallbackFactory],
    chosen_trackers: Mapping[str, str],
    processes: distribution.Distribution,
    say: Callable[[str], Any],
) -> list[str]:
    """Runs the trials that are left; those that diverged, of all processes."""
    values = flags.FLAGS
    runner, folder = job.runner, job.folder
    name = runner.name
    if processes.size > 1:
        name += f", process {processes.rank + 1} of {processes.size}"
    with folder.locked(processes.is_chief):
        if processes.is_chief:
            folder.prepare(job.settings)
        left = [trial for trial in job.wanted if not folder.is_finished(trial)]
        # What the chief sees: others may look when trials have been finished already.
        own = processes.broadcast_object(left)[processes.rank :: processes.size]
        failed = trials.run_trials(
            runner,
            folder,
            own,
            name=name,
            patience=values.early_stopping,
            factories=factories,
            chosen_trackers=chosen_trackers,
        )
        # All have to come here: the others' trials are done when they do.
        diverged = [
            f"{runner.name}, {trial}"
            for of_process in processes.gather(failed)
            for trial in of_process
        ]
        if processes.is_chief and folder.finished():
            say(f"\n{_report(job)}files: {folder.path}")
    return diverged


def _report(job: _Job) -> str:
    """Writes what people read; its summary."""
    values = flags.FLAGS
    if values.predict_test:
        output_dir = pathlib.Path(values.output_dir)
        trial_report.write_submission(
            job.folder,
            job.runner.main_metric,
            output_dir / trial_report.SUBMISSION_FOLDER,
        )
    return trial_report.write_report(
        job.folder,
        job.runner,
        of_best_epochs=bool(values.early_stopping or values.probe),
        compared=job.compared,
    )


def _max_length(pretrained: Pretrained, grid: runners.Grid) -> int | None:
    """That of the flag or of the grid, as far as the model has learnt positions."""
    given = flags.FLAGS.max_length
    if given is not None or grid.row_length is None:
        return given
    return min(grid.row_length, pretrained.layout().max_length)


def _numbers(name: str, kind: type) -> list[Any]:
    """The values of a flag that takes a list of numbers."""
    words = flags.FLAGS[name].value
    try:
        return list(map(kind, words))
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ValueError(
            f"`--{name}` must be {what}, comma-separated. Received: {','.join(words)}"
        ) from None


def _say_nothing(_: str) -> None:
    """Of several processes one speaks."""


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError, TrainingStopped, goes_on=True)
