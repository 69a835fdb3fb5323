"""Trials of classification tasks, and of regression: GLUE, and DiscoEval fine-tuned."""

import contextlib
import pathlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from seg_tf import tasks
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.classification.dev_scores import DevScores
from seg_tf.finetuning.classification.split import (
    PredictedSplit,
    checksum,
)
from seg_tf.finetuning.classification.text_batches import TextExamples
from seg_tf.finetuning.classification.text_classifier import TextClassifier
from seg_tf.finetuning.optimizer import BERT_SETTINGS
from seg_tf.finetuning.reusable_model import ReusableModel
from seg_tf.finetuning.text_task import MODEL_FOLDER
from seg_tf.finetuning.trials.results_report import LEADERBOARD_FOLDER
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.tasks import Example, Task, metrics
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.tasks.glue import prediction_files
from seg_tf.tasks.glue.averages import COLUMNS


class ClassificationRunner:
    """A `TaskRunner` of a task of `seg_tf.tasks`.

    Scores are the task's metrics on the dev split; of MNLI's two, which have
    "matched_" or "mismatched_" before their names, the first chooses. Every epoch has
    them in its logs, and the split's `loss`.

    Args:
        pretrained: the checkpoint.
        task: the task, or its name.
        data_dir: folder of the benchmark, or of the task.
        limit: train on so many examples, the first of the file; None takes all.
        max_length: the most positions of a row; None takes those of pretraining.
        randomly_initialized: whether the encoder starts from new weights, to see what
            pretraining is worth.
        keep_pooler: whether a pooler of the checkpoint is kept.
        freeze_encoder: whether only the head is trained.
        dtype_policy: as of Keras, such as "mixed_bfloat16"; None takes the one that
            holds.
        predict_test: whether to predict test splits as well: with labels they are
            scored as `test_…`; those of GLUE become files for its leaderboard.
        save_model: whether every trial keeps its model, in its folder `model`.
        optimizer: its settings beside the learning rate.
        report: called with lines of text.

    Attributes:
        name: that of the task.
        main_metric: which score chooses among settings.
        baseline: scores of always the most frequent label of the training examples, or
            of their mean score.
        baseline_name: which of the two.
        in_percent: False.
        num_examples: those trained on.

    Raises:
        ValueError: if files are not as they must be, or texts do not fit.
        OSError: if a file is missing.
    """

    in_percent = False

    def __init__(
        self,
        pretrained: Pretrained,
        task: Task | str,
        data_dir: str | pathlib.Path,
        *,
        limit: int | None = None,
        max_length: int | None = None,
        randomly_initialized: bool = False,
        keep_pooler: bool = True,
        freeze_encoder: bool = False,
        dtype_policy: str | None = None,
        predict_test: bool = False,
        save_model: bool = False,
        optimizer: OptimizerSettings = BERT_SETTINGS,
        report: Callable[[str], Any] = print,
    ):
        task = tasks.get(task) if isinstance(task, str) else task
        self._task = task
        self._saves_model = save_model
        self._sentence_checksum = pretrained.sentence_parameters.checksum
        self._model = ReusableModel(
            lambda seed: TextClassifier.from_pretrained(
                pretrained,
                task.num_outputs,
                task.num_texts,
                num_choices=task.num_choices,
                labels=() if task.is_regression else task.labels,
                max_length=max_length,
                seed=seed,
                randomly_initialized=randomly_initialized,
                keep_pooler=keep_pooler,
                freeze_encoder=freeze_encoder,
            ),
            TextClassifier.loss_of_labels,
            dtype_policy,
            optimizer,
        )

        def read(task: Task, split: str) -> PredictedSplit:
            examples = tasks.read(task, data_dir, split)
            return PredictedSplit(task, split, examples, pretrained, max_length, report)

        dev_names = [name for name in task.split_names if name.startswith("dev")]
        if not dev_names or "train" not in task.split_names:
            raise ValueError(
                "`task` must have examples to train on and a dev split. Received: "
                f"{task.name}, with {', '.join(task.split_names)}"
            )
        train = tasks.read(task, data_dir, "train")[:limit]
        self._train_checksum = checksum(train)
        self.num_examples = len(train)
        self._train = TextExamples(
            pretrained,
            [one.texts for one in train],
            [one.label for one in train],
            max_length=max_length,
            report=lambda line: report(f"{task.name}, train: {line}"),
            num_choices=task.num_choices,
        )
        self._dev = {_prefix(name): read(task, name) for name in dev_names}
        self._test = _test_splits(task, read) if predict_test else []
        self.name = task.name
        self.main_metric = next(iter(self._dev)) + task.main_metric
        self.baseline = self._constant_scores(train)
        self.baseline_name = (
            "mean score" if task.is_regression else "most frequent label"
        )

    def describe(self) -> dict[str, Any]:
        """Checksums of what the scores of a trial, and its saved model, depend on."""
        splits = [*self._dev.values(), *(split for split, _ in self._test)]
        found = {
            "train": self._train_checksum,
            **{split.name: checksum(split.examples) for split in splits},
        }
        if self._saves_model:
            # Texts are sentences here, and may be documents where the model is served.
            found["sentence_splitter"] = self._sentence_checksum
        return found

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """As `TaskRunner.run`.

        Writes `<split>_predictions.tsv`, and with `predict_test` what the leaderboard
        takes to the folder `leaderboard`.

        Raises:
            TrainingDiverged: if it did.
        """
        batches = self._train.batches(setting.batch_size, seed)
        callbacks = [DevScores(self._score), *callbacks]
        model = self._model.train(batches, setting, seed, callbacks)
        if self._saves_model:
            model.save_to_preset(folder / MODEL_FOLDER)
        scores = {}
        for prefix, split in self._dev.items():
            outputs = split.outputs(model)
            split.write(outputs, folder)
            scores.update(_with_prefix(prefix, split.scores(outputs)))
        for split, columns in self._test:
            outputs = split.outputs(model)
            split.write(outputs, folder)
            if not columns:
                scores.update(_with_prefix("test_", split.scores(outputs)))
            for column in columns:
                (folder / LEADERBOARD_FOLDER).mkdir(exist_ok=True)
                prediction_files.write(
                    column,
                    split.examples,
                    split.predictions(outputs),
                    folder / LEADERBOARD_FOLDER,
                )
        return scores

    def _score(self, model: keras.Model) -> dict[str, float]:
        scores = {}
        for prefix, split in self._dev.items():
            outputs = split.outputs(model)
            of_split = {"loss": split.loss(outputs), **split.scores(outputs)}
            scores.update(_with_prefix(prefix, of_split))
        return scores

    def _constant_scores(self, train: Sequence[Example]) -> dict[str, float]:
        labels = [one.label for one in train]
        if self._task.is_regression:
            guess = float(np.mean(labels))
        else:
            ((guess, _),) = Counter(sorted(labels)).most_common(1)
        return {
            name: value
            for prefix, split in self._dev.items()
            for name, value in _with_prefix(
                prefix,
                metrics.compute(
                    self._task,
                    [one.label for one in split.examples],
                    [guess] * len(split.examples),
                ),
            ).items()
        }


def _test_splits(
    task: Task, read: Callable[[Task, str], PredictedSplit]
) -> list[tuple[PredictedSplit, list[str]]]:
    """Test splits, and which columns of the leaderboard each is."""
    columns = [column for column in COLUMNS.values() if column.task == task]
    found = [(read(one.task, one.test_split), [one.name]) for one in columns]
    if task.name == "glue/mnli":
        # Its models predict the diagnostic set, which not every download holds.
        diagnostic = COLUMNS["AX"]
        with contextlib.suppress(FileNotFoundError):
            split = read(diagnostic.task, diagnostic.test_split)
            found.append((split, [diagnostic.name]))
    if found:
        return found
    names = [name for name in task.split_names if name.startswith("test")]
    return [(read(task, name), []) for name in names]


def _prefix(split_name: str) -> str:
    """That of the scores of a dev split: none for "dev", or as in "matched_"."""
    _, _, kind = split_name.partition("_")
    return f"{kind}_" if kind else ""


def _with_prefix(prefix: str, scores: dict[str, float]) -> dict[str, float]:
    return {prefix + name: value for name, value in scores.items()}
