r"""Fine-tunes a pretrained encoder on tasks and reports scores.

  seg-tf finetune --task=glue/mrpc --data_dir=glue \
    --checkpoint=runs/segabert_tiny --output_dir=finetuned/mrpc

A trial is one training, with one setting and one seed. Seeds often differ by more than
settings or models do, so give several:

  … --learning_rate=2e-5,3e-5,5e-5 --batch_size=16,32 --epochs=3,4 --seeds=1,2,3

Every setting is tried with every seed. --grid=paper tries the settings and number of
seeds of the paper of the checkpoint's model; values that are given replace those of the
grid. --dry_run prints the number of trials.

--checkpoint may also name weights of another program, in a folder or as
hf://organisation/name: they are converted once, as by import_weights, into a cache.

--output_dir holds, for each task,

  trials/           scores and predictions, a folder for each trial
  results.csv       a row for each trial
  summary.txt       a line for each setting: mean, deviation, min and max of its seeds

A trial whose trial.json exists is not run again: if the command is interrupted, the
same command continues with the first unfinished trial, and with further values or seeds
it runs the missing trials. A trial that diverges does not stop the others; the command
then ends with an error that names it. Other models, files or options need another
folder.

Baselines are the score of the most frequent label, printed with the results, and that
of the same model without pretraining, by --randomly_initialized and another
--output_dir.

Several tasks, comma-separated, get folders of their names in --output_dir; the files
of --predict_test for GLUE's leaderboard are collected in submission:

  … --task=glue/cola,glue/rte --predict_test --output_dir=finetuned/glue

DiscoEval's tasks are fine-tuned too, or probed by that benchmark's protocol: vectors of
a frozen encoder, computed once, and a logistic regression on them, whose only setting
is its seed:

  … --task=discoeval/sp/rocstory --probe=per_sentence --seeds=1,2,3

On several processes, each runs its share of the trials:

  horovodrun -np 4 seg-tf finetune …

`python -m seg_tf.tasks` lists the tasks: those of GLUE, DiscoEval and RACE, and SQuAD.
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.finetuning import runners, trial_report, trials
from seg_tf.finetuning.probing import MODES
from seg_tf.finetuning.trials import ADVICE, TaskRunner, Trial, TrialsFolder
from seg_tf.interop import convert
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.training import distribution, engine, horovod_distribution, trackers
from seg_tf.training.errors import TrainingStopped

# Flags whose values may differ between hosts; the content of these files may not.
_PATHS = ("checkpoint", "vocab_file", "data_dir", "output_dir")
_DTYPE_POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True)
class _Job:
    """The trials of a task, finished ones too."""

    runner: TaskRunner
    folder: TrialsFolder
    settings: Mapping[str, Any]
    trials: Sequence[Trial]


def define_flags() -> None:
    model_flags.define_model_flags()

    # === Task and files ===
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
        "limit", None, "Train on the first N examples only.", lower_bound=1
    )
    flags.DEFINE_integer(
        "dev_limit", None, "Answer the first N questions of SQuAD's dev split only.", 1
    )

    # === Settings of trials ===
    flags.DEFINE_enum(
        "grid",
        None,
        list(runners.GRIDS),
        "Settings of a paper; `paper` is that of the checkpoint's model.",
    )
    flags.DEFINE_list(
        "learning_rate",
        [],
        "Peak learning rates. Default: the one that the checkpoint names, or 3e-5.",
    )
    flags.DEFINE_list("batch_size", [], "Examples per update. Default: 32.")
    flags.DEFINE_list("epochs", [], "Passes over the training examples. Default: 3.")
    flags.DEFINE_list(
        "seeds",
        [],
        "Seeds of new weights, dropout and order, for every setting. Default: 1, or "
        "1 to the number of runs in the paper of --grid.",
    )
    defaults = OptimizerSettings()
    for name, text in (
        ("warmup_share", "Share of the updates in which the learning rate rises."),
        ("weight_decay", "Decay of the weights, times the learning rate."),
        ("epsilon", "Added to the root of the second moment by AdamW."),
        ("clip_norm", "Largest global norm of the gradients."),
    ):
        default = getattr(defaults, name)
        flags.DEFINE_float(
            name, None, f"{text} Default: as in the paper of --grid, or {default:g}."
        )
    flags.DEFINE_integer(
        "early_stopping",
        None,
        "End a trial after N epochs without a better main metric on the dev split, and "
        "score the best epoch instead of the last.",
        lower_bound=1,
    )

    # === Model ===
    flags.DEFINE_integer(
        "max_length",
        None,
        "Maximum row length. Default: that of --grid, or of pretraining.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "randomly_initialized", False, "Start from new weights, not the checkpoint's."
    )
    flags.DEFINE_bool(
        "freeze_encoder",
        False,
        "Train only the head. Default: as in the paper of --grid.",
    )
    flags.DEFINE_enum(
        "probe",
        None,
        list(MODES),
        "Train DiscoEval's probe on vectors of the frozen encoder, of every sentence "
        "separately as in the benchmark, or of all sentences of an example together.",
    )
    flags.DEFINE_enum(
        "dtype_policy", "float32", list(_DTYPE_POLICIES), "Precision of computation."
    )

    # === Output ===
    flags.DEFINE_bool(
        "predict_test",
        False,
        "Also predict test splits: those of GLUE for its leaderboard, into submission. "
        "Every trial predicts them, so give the flag from the start.",
    )
    flags.DEFINE_bool(
        "save_model", False, "Save the model of every trial, in its folder `model`."
    )
    flags.DEFINE_bool("dry_run", False, "Print the trials and change nothing.")
    flags.DEFINE_list(
        "callbacks",
        [],
        "Your own Keras callbacks, as package.module:function, comma-separated. Each "
        "function is called for every trial with its folder.",
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Processes that have finished their share wait for the others.
    os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")
    processes = horovod_distribution.join()
    report = print if processes.is_chief else lambda _: None
    output_paths.folder_path(values.output_dir)
    names = list(dict.fromkeys(values.task))
    present = [name for name in values if values[name].present]
    processes.check_agreement(
        {
            "versions": engine.installed_versions(),
            **{
                f"--{name}": values[name].value
                for name in present
                if name not in _PATHS
            },
        }
    )
    for name in names:
        runners.check_flags(name, present, values.probe)
    factories = trackers.find_factories(values.callbacks, "--callbacks")

    def make_jobs() -> list[_Job]:
        pretrained = _load_model(processes, report)
        folders = [""] if len(names) == 1 else names
        return [
            _make_job(name, folder, pretrained, report)
            for name, folder in zip(names, folders, strict=True)
        ]

    # All errors in arguments and files, before anything is trained.
    jobs = processes.call_together(make_jobs)
    processes.check_agreement({job.runner.name: job.settings for job in jobs})
    if values.dry_run:
        report("Nothing was written; without --dry_run these trials are run")
        return
    num_trials, diverged = sum(len(job.trials) for job in jobs), []
    while jobs:
        # Removed from the list, so that its model is freed afterwards.
        job = jobs.pop(0)
        diverged += _run(job, factories, processes, report)
    # The chief only: a launcher would end it, still writing, if another process failed.
    if diverged and processes.is_chief:
        raise TrainingStopped(
            f"{len(diverged):,} of {num_trials:,} trials diverged and have no scores: "
            f"{'; '.join(diverged)}. {ADVICE}"
        )


def _load_model(
    processes: distribution.Distribution,
    report: Callable[[str], Any],
) -> Pretrained:
    """The model of `--checkpoint`; one of another program is converted."""
    values = flags.FLAGS
    checkpoint = convert.find_initial(
        values.checkpoint,
        "--checkpoint",
        processes=processes,
        report=lambda done: report(done.to_text()),
        vocab_file=pathlib.Path(values.vocab_file) if values.vocab_file else None,
        lower_case=values.lower_case,
    )
    return model_flags.load_model(checkpoint=checkpoint)


def _make_job(
    name: str, subfolder: str, pretrained: Pretrained, report: Callable[[str], Any]
) -> _Job:
    values = flags.FLAGS
    recipe = runners.make_recipe(
        pretrained,
        name,
        values.grid,
        probe=values.probe,
        learning_rates=_numbers("learning_rate", float),
        batch_sizes=_numbers("batch_size", int),
        epochs=_numbers("epochs", int),
    )
    seeds = _numbers("seeds", int) or range(1, 1 + (recipe.num_runs or 1))
    all_trials = trials.all_trials(recipe.settings, seeds)
    kind = runners.kind_of_task(name, values.probe)
    options = {option: values[option].value for option in runners.OPTIONS[kind]}
    if values.max_length is None and recipe.row_length is not None:
        # The model has no positions beyond those of pretraining.
        options["max_length"] = min(recipe.row_length, pretrained.layout().max_length)
    if "freeze_encoder" in options and not values["freeze_encoder"].present:
        options["freeze_encoder"] = recipe.freezes_encoder
    chosen = {flag: values[flag].value for flag in runners.OPTIMIZER_FLAGS}
    chosen = {flag: value for flag, value in chosen.items() if value is not None}
    optimizer = dataclasses.replace(recipe.optimizer, **chosen)
    folder = TrialsFolder(pathlib.Path(values.output_dir) / subfolder)
    runner = runners.make_runner(
        pretrained,
        name,
        values.data_dir,
        options,
        optimizer=optimizer,
        probe=values.probe,
        report=report,
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
    num_done = sum(map(folder.is_finished, all_trials))
    frozen = ", the encoder is frozen" if options.get("freeze_encoder") else ""
    report(
        f"{name}: {runner.num_examples:,} examples, {len(recipe.settings):,} settings "
        f"with {len(seeds)} seeds: {len(all_trials):,} trials, {num_done:,} done"
        f"{frozen}"
    )
    return _Job(runner, folder, settings, all_trials)


def _run(
    job: _Job,
    factories: Sequence[trackers.CallbackFactory],
    processes: distribution.Distribution,
    report: Callable[[str], Any],
) -> list[str]:
    """Runs unfinished trials; returns those that diverged, of all processes."""
    values = flags.FLAGS
    runner, folder = job.runner, job.folder
    name = runner.name
    if processes.size > 1:
        name += f", process {processes.rank + 1} of {processes.size}"
    if processes.is_chief:
        folder.prepare(job.settings)
    unfinished = [trial for trial in job.trials if not folder.is_finished(trial)]
    # The chief decides: other processes may look after some trials have finished.
    unfinished = processes.broadcast_object(unfinished)
    failed = trials.run_trials(
        runner,
        folder,
        unfinished[processes.rank :: processes.size],
        name=name,
        patience=values.early_stopping,
        factories=factories,
    )
    # Waits for the trials of all processes.
    diverged = [
        f"{runner.name}, {trial}"
        for process_trials in processes.gather(failed)
        for trial in process_trials
    ]
    if processes.is_chief and folder.finished():
        if values.predict_test:
            submission = pathlib.Path(values.output_dir)
            submission /= trial_report.SUBMISSION_FOLDER
            trial_report.write_submission(folder, runner, submission)
        report(f"\n{trial_report.write_report(folder, runner)}files: {folder.path}")
    return diverged


def _numbers(name: str, kind: type) -> list[Any]:
    """The values of a flag that is a list of numbers."""
    words = flags.FLAGS[name].value
    try:
        return list(map(kind, words))
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ValueError(
            f"`--{name}` must be {what}, comma-separated. Received: {','.join(words)}"
        ) from None


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError, TrainingStopped, goes_on=True)
