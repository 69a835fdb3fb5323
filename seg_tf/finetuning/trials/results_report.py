"""Report on a folder of trials: table, curves, predictions."""

import pathlib
from collections.abc import Sequence

from seg_tf import files
from seg_tf.finetuning.trials import results, results_curves
from seg_tf.finetuning.trials.compared_trials import Compared
from seg_tf.finetuning.trials.trial import TaskRunner
from seg_tf.finetuning.trials.trial_progress import describe
from seg_tf.finetuning.trials.trial_runs import TrialsFolder
from seg_tf.tasks.glue import prediction_files

# In the folder of a trial: what a leaderboard takes.
LEADERBOARD_FOLDER = "leaderboard"
SUBMISSION_FOLDER = "submission"


def write_report(
    folder: TrialsFolder,
    runner: TaskRunner,
    *,
    of_best_epochs: bool = False,
    compared: Compared | None = None,
) -> str:
    """Writes `results.csv`, `summary.txt` and `learning_curves.png`.

    Args:
        folder: with at least one finished trial; all that are count.
        runner: what ran them.
        of_best_epochs: whether scores are those of trials' best epochs, as with early
            stopping, or of their last.
        compared: trials to hold beside.

    Returns:
        The summary.
    """
    trials, main_metric = folder.finished(), runner.main_metric
    probe = folder.settings().get("probe")
    of_settings = results.by_setting(trials, main_metric, probe)
    best = results.best_setting(of_settings)
    best_trial = results.best_trial(trials, main_metric)
    others = {}
    if compared:
        others = {
            "compared": results.by_setting(
                compared.folder.finished(),
                main_metric,
                compared.folder.settings().get("probe"),
            ),
            "compared_name": compared.name,
        }
    table = results.summary(
        of_settings,
        baseline=runner.baseline,
        baseline_name=runner.baseline_name,
        in_percent=runner.in_percent,
        **others,
    )
    best_score = results.format_score(
        best_trial.scores[main_metric], in_percent=runner.in_percent
    )
    epoch = "best" if of_best_epochs else "last"
    text = f"""{runner.name}: {main_metric} on the dev split after the {epoch} epoch
{table}
best setting (*): {best.described}
best trial: {describe(best_trial.trial, probe)}: {best_score}
"""
    for difference in compared.differences if compared else ():
        text += f"note: the {compared.name} trials differ in {difference}\n"
    results.write_csv(trials, folder.path / "results.csv")
    files.write_text(folder.path / "summary.txt", text)
    figure = results_curves.learning_curves(
        of_settings,
        title=runner.name,
        baseline=runner.baseline.get(main_metric),
        baseline_name=runner.baseline_name,
    )
    results_curves.save(figure, folder.path / "learning_curves.png")
    return text


def write_submission(
    folder: TrialsFolder, main_metric: str, output_dir: pathlib.Path
) -> Sequence[str]:
    """Copies what the best trial predicted for the leaderboard.

    Returns:
        Names of the files; none for a task without a leaderboard.
    """
    best = results.best_trial(folder.finished(), main_metric)
    paths = sorted((best.folder / LEADERBOARD_FOLDER).glob("*.tsv"))
    if paths:
        output_dir.mkdir(parents=True, exist_ok=True)
    for path in paths:
        files.write_text(output_dir / path.name, path.read_text(encoding="utf-8"))
    return [path.name for path in paths]


def describe_submission(output_dir: pathlib.Path) -> str:
    """States that the leaderboard would accept a folder, or why it would not."""
    problems = prediction_files.problems(output_dir)
    if not problems:
        return f"{output_dir}: complete; zip its files for the leaderboard"
    return (
        f"{output_dir}: not yet what the leaderboard takes, for {len(problems)} "
        f"reasons; the first: {problems[0]}"
    )
