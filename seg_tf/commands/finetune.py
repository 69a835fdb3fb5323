r"""Fine-tunes a pretrained encoder on tasks and reports scores.

  seg-tf finetune --task=glue/mrpc --data_dir=glue \
    --checkpoint=runs/segabert_tiny --output_dir=finetuned/mrpc

A trial is one training run with one setting and one seed. All combinations are run.
Use --grid=paper for the settings and number of seeds of a paper, or list values:

  … --learning_rate=2e-5,3e-5,5e-5 --batch_size=16,32 --epochs=3,4 --seeds=1,2,3

--output_dir contains, for each task, trials/ (scores and predictions), results.csv and
summary.txt. If the command is repeated, only trials without a result are run. A trial
that diverges does not stop the other trials.

Examples can be in a table of your own, CSV, TSV or JSON lines with named columns:

  seg-tf finetune runs/segabert --train_file=reviews.csv --text=review --label=stars \
    --output_dir=finetuned/stars

The summary includes baselines, such as the most frequent label or a linear model of
words and word pairs. A further baseline is the same model without pretraining:

  … --output_dir=finetuned/mrpc_random --randomly_initialized

DiscoEval tasks also have probes, small classifiers of the frozen encoder's vectors:

  … --task=discoeval/sp/rocstory --probe=per_sentence --seeds=1,2,3

Several processes (horovodrun -np 4 seg-tf finetune …) divide the trials among them.
`seg-tf tasks` lists the tasks, and docs/fine_tuning.md explains them.
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import app, flags

from seg_tf import command_line, tasks
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.finetuning import runners, trial_report, trials
from seg_tf.finetuning.probing import MODES
from seg_tf.finetuning.trials import ADVICE, TaskRunner, Trial, TrialsFolder
from seg_tf.interop import convert
from seg_tf.tasks import own_table
from seg_tf.text.splitters import load_function
from seg_tf.training import distribution, engine, tensorflow_engine, trackers
from seg_tf.training.errors import TrainingStopped

# Flags whose values may differ between hosts, unlike the content of these files.
_PATHS = ("checkpoint", "data_dir", "output_dir", "train_file", "dev_file")
_DTYPE_POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def _parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses flags. An argument before all flags is the checkpoint."""
    script, *rest = argv
    if rest and not rest[0].startswith("-"):
        rest[0] = f"--checkpoint={rest[0]}"
    return app.parse_flags_with_usage([script, *rest])


RUN = {
    "errors": (ValueError, OSError, TrainingStopped),
    "goes_on": True,
    "parse_flags": _parse_flags,
}


@dataclasses.dataclass(frozen=True)
class _Job:
    runner: TaskRunner
    folder: TrialsFolder
    settings: Mapping[str, Any]
    trials: Sequence[Trial]


class _Numbers(flags.ArgumentParser[list]):
    def __init__(self, kind: type):
        self._kind = kind

    def parse(self, argument: str) -> list:
        return [self._kind(text) for text in filter(None, argument.split(","))]


def define_flags() -> None:
    model_flags.define_model_flags()

    # === Task and files ===
    flags.DEFINE_list("task", None, "Comma-separated tasks, with --data_dir.")
    flags.DEFINE_string("data_dir", None, "Folder of the benchmark or of the task.")
    flags.DEFINE_string("train_file", None, "Table of examples, instead of --task.")
    flags.DEFINE_string("dev_file", None, "Default: a tenth of --train_file.")
    flags.DEFINE_list("text", None, "Columns of the texts of --train_file.")
    flags.DEFINE_string("label", None, "Column of the labels of --train_file.")
    flags.DEFINE_bool(
        "regression", None, "Labels are scores. Default: if they look like scores."
    )
    flags.DEFINE_string("output_dir", None, "Output folder.", required=True)
    flags.DEFINE_integer("limit", None, "Train only on the first N examples.", 1)
    flags.DEFINE_integer(
        "dev_limit", None, "Answer only the first N questions of SQuAD's dev split.", 1
    )

    # === Settings of trials ===
    flags.DEFINE_enum(
        "grid",
        None,
        list(runners.GRIDS),
        "Settings of a paper; `paper` is the paper of the checkpoint's model.",
    )
    for name, kind, text in (
        (
            "learning_rate",
            float,
            "peak learning rates. Default: the checkpoint's, or 3e-5.",
        ),
        ("batch_size", int, "numbers of examples per update. Default: 32."),
        ("epochs", int, "numbers of training epochs. Default: 3."),
        ("seeds", int, "seeds for every setting. Default: 1, or as in --grid."),
    ):
        flags.DEFINE(_Numbers(kind), name, "", f"Comma-separated {text}")
    for name in runners.OPTIMIZER_FLAGS:
        flags.DEFINE_float(name, None, "AdamW setting. Default: --grid's, or BERT's.")
    flags.DEFINE_integer(
        "early_stopping",
        None,
        "Stop a trial after N epochs without a better dev score, and report the best.",
        lower_bound=1,
    )

    # === Model ===
    flags.DEFINE_integer(
        "max_length", None, "Maximum length. Default: as in --grid, or pretraining.", 1
    )
    flags.DEFINE_bool("randomly_initialized", False, "Start from random weights.")
    flags.DEFINE_bool(
        "freeze_encoder", False, "Train only the head. Default: as in --grid."
    )
    flags.DEFINE_enum(
        "probe",
        None,
        list(MODES),
        "Train DiscoEval's probe on vectors of the frozen encoder, which encodes "
        "sentences separately (per_sentence) or all sentences of an example (joint).",
    )
    flags.DEFINE_enum("dtype_policy", "float32", list(_DTYPE_POLICIES), "Precision.")

    # === Output ===
    flags.DEFINE_bool(
        "predict_test", False, "Also predict the test splits, for GLUE's leaderboard."
    )
    flags.DEFINE_bool("save_model", False, "Save the model of every trial.")
    flags.DEFINE_bool("dry_run", False, "Print the trials without running them.")
    flags.DEFINE_list(
        "callbacks", [], "Functions that create Keras callbacks: module:function,…"
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Processes that have finished their trials wait for the other processes.
    os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")
    processes = tensorflow_engine.join()
    report = print if processes.is_chief else lambda _: None
    command_line.folder_path(values.output_dir)
    names = _task_names(report)
    present = [name for name in values if values[name].present]
    compared = {f"--{n}": values[n].value for n in present if n not in _PATHS}
    processes.check_agreement({"versions": engine.installed_versions(), **compared})
    for name in names:
        runners.check_flags(name, present, values.probe)
    factories = [load_function(name, "--callbacks") for name in values.callbacks]

    def make_jobs() -> list[_Job]:
        pretrained = _load_model(processes, report)
        folders = [""] if len(names) == 1 else names
        return [
            _make_job(name, folder, pretrained, report)
            for name, folder in zip(names, folders, strict=True)
        ]

    # Report all errors in arguments and files before training.
    jobs = processes.call_together(make_jobs)
    processes.check_agreement({job.runner.name: job.settings for job in jobs})
    if values.dry_run:
        report("Nothing was written. Omit --dry_run to run these trials")
        return
    num_trials, diverged = sum(len(job.trials) for job in jobs), []
    while jobs:
        # Remove the job from the list, so that its model is freed afterwards.
        job = jobs.pop(0)
        diverged += _run(job, factories, processes, report)
    # Only the chief fails: if another process did, the launcher might stop the chief.
    if diverged and processes.is_chief:
        raise TrainingStopped(
            f"{len(diverged):,} of {num_trials:,} trials diverged and have no scores: "
            f"{'; '.join(diverged)}. {ADVICE}"
        )


def _task_names(report: Callable[[str], Any]) -> list[str]:
    """Returns the names of the tasks. Registers the task of `--train_file`, if set."""
    values = flags.FLAGS
    is_table = all((values.train_file, values.text, values.label))
    if is_table == bool(values.task and values.data_dir):
        raise ValueError(
            "There must be either --task and --data_dir, or --train_file, --text and "
            "--label"
        )
    table_flags = ("train_file", "text", "label", "dev_file", "regression")
    for name in ("task", "data_dir") if is_table else table_flags:
        if values[name].present:
            other = "--train_file" if is_table else "--task"
            raise ValueError(f"`--{name}` must be left out with {other}")
    if not is_table:
        return list(dict.fromkeys(values.task))
    task, splits = own_table.read(
        *(values.train_file, values.text, values.label),
        *(values.dev_file, values.regression),
    )
    tasks.register(task, splits)
    kind = f"{len(task.labels)} classes: {', '.join(task.labels[:10])}"
    if task.is_regression:
        kind = "scores from {:g} to {:g}".format(*task.score_range)
    how = f"all of {values.dev_file}"
    if values.dev_file is None:
        how = "a tenth of the different texts (--dev_file)"
    report(
        f"{values.label}: {kind} (--[no]regression); {len(splits['train']):,} examples "
        f"to train on, {len(splits['dev']):,} held out, {how}"
    )
    return [task.name]


def _load_model(
    processes: distribution.Distribution, report: Callable[[str], Any]
) -> Pretrained:
    checkpoint = convert.find_initial(
        flags.FLAGS.checkpoint,
        "--checkpoint",
        processes=processes,
        report=lambda done: report(done.to_text()),
    )
    return model_flags.load_model(checkpoint)


def _make_job(
    name: str, subfolder: str, pretrained: Pretrained, report: Callable[[str], Any]
) -> _Job:
    values = flags.FLAGS
    recipe = runners.make_recipe(
        pretrained,
        name,
        values.grid,
        probe=values.probe,
        learning_rates=values.learning_rate,
        batch_sizes=values.batch_size,
        epochs=values.epochs,
    )
    seeds = values.seeds or range(1, 1 + (recipe.num_runs or 1))
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
        values.data_dir or "",
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
        f"{name}: examples: {runner.num_examples:,}, settings: {len(recipe.settings):,}"
        f", seeds: {len(seeds)}, trials: {len(all_trials)}, done: {num_done}{frozen}"
    )
    return _Job(runner, folder, settings, all_trials)


def _run(
    job: _Job,
    factories: Sequence[trackers.CallbackFactory],
    processes: distribution.Distribution,
    report: Callable[[str], Any],
) -> list[str]:
    """Runs this process's unfinished trials. Returns the names of all diverged trials.

    Once all processes have finished, the chief writes the report and any submission.
    """
    values = flags.FLAGS
    runner, folder = job.runner, job.folder
    name = runner.name
    if processes.size > 1:
        name += f", process {processes.rank + 1} of {processes.size}"
    if processes.is_chief:
        folder.prepare(job.settings)
    unfinished = [trial for trial in job.trials if not folder.is_finished(trial)]
    # The chief decides: other processes might check after some trials have finished.
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
        models = ", models: trials/*/model" if values.save_model else ""
        text = trial_report.write_report(folder, runner)
        report(f"\n{text}files: {folder.path}{models}")
    return diverged
