"""Trials of classification and regression: GLUE, RACE, and DiscoEval fine-tuned.

Shape key: E examples, C outputs for each.
"""

import contextlib
import pathlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import scipy.special

from seg_tf import tasks
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.batches import TextExamples
from seg_tf.finetuning.optimizer import BERT_SETTINGS, ReusableModel
from seg_tf.finetuning.text_classifier import TextClassifier
from seg_tf.finetuning.trials import (
    LEADERBOARD_FOLDER,
    MODEL_FOLDER,
    DevScores,
    Setting,
    check_finite,
)
from seg_tf.preprocessing.text_preprocessor import TextPreprocessor
from seg_tf.tasks import Example, Task, glue, metrics
from seg_tf.tasks.finetuning_settings import OptimizerSettings

# Without gradients, more examples fit into memory than in training.
_BATCH_SIZE = 64


class ClassificationRunner:
    """A `TaskRunner` of a task of `seg_tf.tasks`.

    Scores are the task's metrics on the dev split. Of MNLI's two dev splits, whose
    scores have the prefixes "matched_" and "mismatched_", the first chooses. Every
    epoch has the scores and the split's `loss` in its logs.

    Args:
        pretrained: the checkpoint.
        task: the task, or its name.
        data_dir: folder of the benchmark, or of the task.
        limit: train on the first N examples only; None takes all.
        max_length: maximum row length; None takes that of pretraining.
        randomly_initialized: whether the encoder starts from new weights, as a
            baseline.
        keep_pooler: whether a pooler of the checkpoint is kept.
        freeze_encoder: whether only the head is trained.
        dtype_policy: of Keras, such as "mixed_bfloat16"; None takes the current one.
        predict_test: whether to predict test splits as well: with labels they are
            scored as `test_…`; those of GLUE become files for its leaderboard.
        save_model: whether every trial keeps its model, in its folder `model`.
        optimizer: its settings other than the learning rate.
        report: called with lines of text.

    Raises:
        ValueError: if files are not valid, or texts do not fit.
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
            lambda seed: TextClassifier.from_preset(
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
        preprocessor = TextPreprocessor(
            pretrained, task.num_texts, max_length, task.num_choices
        )

        def read(task: Task, split: str) -> PredictedSplit:
            examples = tasks.read(task, data_dir, split)
            return PredictedSplit(task, split, examples, preprocessor, report)

        dev_names = [name for name in task.split_names if name.startswith("dev")]
        if not dev_names or "train" not in task.split_names:
            raise ValueError(
                "`task` must have examples to train on and a dev split. Received: "
                f"{task.name}, with {', '.join(task.split_names)}"
            )
        train = tasks.read(task, data_dir, "train")[:limit]
        labels = [one.label for one in train]
        self._train_checksum = tasks.checksum(train)
        self.num_examples = len(train)
        self._train = TextExamples(
            preprocessor,
            [one.texts for one in train],
            labels,
            report=lambda line: report(f"{task.name}, train: {line}"),
        )
        # By the prefix of their scores, as in "matched_"; "" for "dev".
        self._dev = {
            f"{kind}_" if kind else "": read(task, name)
            for name in dev_names
            for _, _, kind in [name.partition("_")]
        }
        self._test = _test_splits(task, read) if predict_test else []
        self.name = task.name
        self.main_metric = next(iter(self._dev)) + task.main_metric
        if task.is_regression:
            self.baseline_name, guess = "mean score", float(np.mean(labels))
        else:
            self.baseline_name = "most frequent label"
            ((guess, _),) = Counter(sorted(labels)).most_common(1)
        self.baseline = self._dev_scores(lambda split: [guess] * len(split.examples))

    def describe(self) -> dict[str, Any]:
        """Checksums of what the scores of a trial, and its saved model, depend on."""
        splits = [*self._dev.values(), *(split for split, _ in self._test)]
        checksums = {
            "train": self._train_checksum,
            **{split.name: tasks.checksum(split.examples) for split in splits},
        }
        if self._saves_model:
            # Texts are sentences here, and may be documents where the model is served.
            checksums["sentence_splitter"] = self._sentence_checksum
        return checksums

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """As `TaskRunner.run`.

        Writes `<split>_predictions.tsv`, and with `predict_test` the leaderboard's
        files to the folder `leaderboard`.
        """
        model = self._model.train(
            self._train.batches(setting.batch_size, seed),
            seed,
            setting.learning_rate,
            setting.epochs,
            [DevScores(self._score), *callbacks],
        )
        if self._saves_model:
            model.save_to_preset(folder / MODEL_FOLDER)

        def predict(split: PredictedSplit) -> np.ndarray:
            predictions = split.predictions(split.outputs(model))
            tasks.write_predictions(
                folder, split.name, split.task, split.examples, predictions
            )
            return predictions

        scores = self._dev_scores(predict)
        for split, columns in self._test:
            predictions = predict(split)
            if not columns:
                scores |= _with_prefix("test_", split.scores(predictions))
            for column in columns:
                (folder / LEADERBOARD_FOLDER).mkdir(exist_ok=True)
                glue.write_submission_file(
                    column, split.examples, predictions, folder / LEADERBOARD_FOLDER
                )
        return scores

    def _dev_scores(
        self, predict: Callable[["PredictedSplit"], Any]
    ) -> dict[str, float]:
        scores: dict[str, float] = {}
        for prefix, split in self._dev.items():
            scores |= _with_prefix(prefix, split.scores(predict(split)))
        return scores

    def _score(self, model: keras.Model) -> dict[str, float]:
        scores: dict[str, float] = {}
        for prefix, split in self._dev.items():
            outputs = split.outputs(model)
            of_split = split.scores(split.predictions(outputs))
            of_split = {"loss": split.loss(outputs), **of_split}
            scores |= _with_prefix(prefix, of_split)
        return scores


class PredictedSplit:
    """A split in the order of its file, encoded once.

    Args:
        task: the task.
        name: that of the split, as in "dev_matched".
        examples: its examples.
        preprocessor: that of the model.
        report: called with a line of text if examples were cut.
    """

    def __init__(
        self,
        task: Task,
        name: str,
        examples: Sequence[Example],
        preprocessor: TextPreprocessor,
        report: Callable[[str], Any],
    ):
        self.task = task
        self.name = name
        self.examples = examples
        self._encoded = TextExamples(
            preprocessor,
            [one.texts for one in examples],
            report=lambda line: report(f"{task.name}, {name}: {line}"),
        )

    def outputs(self, model: keras.Model) -> np.ndarray:
        """The model's outputs for every example: `(E, C)`.

        Raises:
            TrainingDiverged: if outputs are not finite.
        """
        outputs = model.predict(self._encoded.batches(_BATCH_SIZE), verbose=0)
        check_finite(
            np.isfinite(outputs).all(axis=1),
            f"examples of {self.task.name}, {self.name}",
        )
        return outputs

    def predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Numbers of labels, or scores clipped to the task's range: `(E,)`."""
        if self.task.is_regression:
            return np.clip(outputs[:, 0], *self.task.score_range)
        return outputs.argmax(axis=1)

    def scores(self, predictions: Sequence[int | float]) -> dict[str, float]:
        """The metrics of the task."""
        labels = [one.label for one in self.examples]
        return metrics.compute(self.task, labels, predictions)

    def loss(self, outputs: np.ndarray) -> float:
        """Mean of the training loss: cross-entropy, or squared error."""
        labels = np.array([one.label for one in self.examples])
        outputs = outputs.astype(np.float64)
        if self.task.is_regression:
            return float(np.mean((outputs[:, 0] - labels) ** 2))
        log_shares = scipy.special.log_softmax(outputs, axis=1)
        return float(-np.mean(log_shares[np.arange(len(labels)), labels]))


def _test_splits(
    task: Task, read: Callable[[Task, str], PredictedSplit]
) -> list[tuple[PredictedSplit, list[str]]]:
    """Test splits, and which columns of the leaderboard each is."""
    columns = [column for column in glue.COLUMNS.values() if column.task == task]
    splits = [(read(one.task, one.test_split), [one.name]) for one in columns]
    if task.name == "glue/mnli":
        # Its models predict the diagnostic set, which not every download holds.
        diagnostic = glue.COLUMNS["AX"]
        with contextlib.suppress(FileNotFoundError):
            split = read(diagnostic.task, diagnostic.test_split)
            splits.append((split, [diagnostic.name]))
    if splits:
        return splits
    names = [name for name in task.split_names if name.startswith("test")]
    return [(read(task, name), []) for name in names]


def _with_prefix(prefix: str, scores: dict[str, float]) -> dict[str, float]:
    return {prefix + name: value for name, value in scores.items()}
