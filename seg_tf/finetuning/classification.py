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
    scores have the prefixes "matched_" and "mismatched_", the first ranks settings. The
    logs of every epoch have the scores and the split's `loss`.

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

        def read(task: Task, split: str, limit: int | None = None) -> EncodedSplit:
            examples = tasks.read(task, data_dir, split)[:limit]
            return EncodedSplit(task, split, examples, preprocessor, report)

        dev_names = [name for name in task.split_names if name.startswith("dev")]
        if not dev_names or "train" not in task.split_names:
            raise ValueError(
                "`task` must have examples to train on and a dev split. Received: "
                f"{task.name}, with {', '.join(task.split_names)}"
            )
        self._train = read(task, "train", limit)
        # By the prefix of their scores, as in "matched_"; "" for "dev".
        self._dev = {
            f"{kind}_" if kind else "": read(task, name)
            for name in dev_names
            for _, _, kind in [name.partition("_")]
        }
        # Test splits, each with its columns of the leaderboard.
        self._test: list[tuple[EncodedSplit, list[str]]] = []
        if predict_test:
            columns = [
                column for column in glue.COLUMNS.values() if column.task == task
            ]
            self._test = [
                (read(task, column.test_split), [column.name]) for column in columns
            ]
            if task.name == "glue/mnli":
                # Its models predict the diagnostic set, which some downloads lack.
                with contextlib.suppress(FileNotFoundError):
                    self._test.append((read(tasks.get("glue/ax"), "test"), ["AX"]))
            if not columns:
                names = [name for name in task.split_names if name.startswith("test")]
                self._test = [(read(task, name), []) for name in names]
        self.name = task.name
        self.num_examples = len(self._train.examples)
        self.main_metric = next(iter(self._dev)) + task.main_metric
        labels = self._train.labels
        if task.is_regression:
            self.baseline_name, guess = "mean score", float(np.mean(labels))
        else:
            self.baseline_name = "most frequent label"
            ((guess, _),) = Counter(sorted(labels)).most_common(1)
        self.baseline = {
            prefix + name: value
            for prefix, split in self._dev.items()
            for name, value in split.scores([guess] * len(split.examples)).items()
        }

    def describe(self) -> dict[str, Any]:
        """Checksums of everything that scores and saved models depend on."""
        splits = [*self._dev.values(), *(split for split, _ in self._test)]
        checksums = {
            split.name: tasks.checksum(split.examples)
            for split in (self._train, *splits)
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

        def score_epoch(model: keras.Model) -> dict[str, float]:
            scores: dict[str, float] = {}
            for prefix, split in self._dev.items():
                outputs = split.outputs(model)
                scores[f"{prefix}loss"] = split.loss(outputs)
                for name, value in split.scores(split.predictions(outputs)).items():
                    scores[prefix + name] = value
            return scores

        model = self._model.train(
            self._train.encoded.batches(setting.batch_size, seed),
            seed,
            setting.learning_rate,
            setting.epochs,
            [DevScores(score_epoch), *callbacks],
        )
        if self._saves_model:
            model.save_to_preset(folder / MODEL_FOLDER)
        scores: dict[str, float] = {}
        dev = [(prefix, split, []) for prefix, split in self._dev.items()]
        test = [("test_", split, columns) for split, columns in self._test]
        for prefix, split, columns in dev + test:
            predictions = split.predictions(split.outputs(model))
            tasks.write_predictions(
                folder, split.name, split.task, split.examples, predictions
            )
            if not columns:
                for name, value in split.scores(predictions).items():
                    scores[prefix + name] = value
            for column in columns:
                (folder / LEADERBOARD_FOLDER).mkdir(exist_ok=True)
                glue.write_submission_file(
                    column, split.examples, predictions, folder / LEADERBOARD_FOLDER
                )
        return scores


class EncodedSplit:
    """A split in the order of its file, encoded once."""

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
        self.labels = [example.label for example in examples]
        self.encoded = TextExamples(
            preprocessor,
            [example.texts for example in examples],
            self.labels if name == "train" else None,
            report=lambda line: report(f"{task.name}, {name}: {line}"),
        )

    def outputs(self, model: keras.Model) -> np.ndarray:
        """The model's outputs for every example: `(E, C)`.

        Raises:
            TrainingDiverged: if outputs are not finite.
        """
        outputs = model.predict(self.encoded.batches(_BATCH_SIZE), verbose=0)
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
        return metrics.compute(self.task, self.labels, predictions)

    def loss(self, outputs: np.ndarray) -> float:
        """Mean of the training loss: cross-entropy, or squared error."""
        labels = np.array(self.labels)
        outputs = outputs.astype(np.float64)
        if self.task.is_regression:
            return float(np.mean((outputs[:, 0] - labels) ** 2))
        log_shares = scipy.special.log_softmax(outputs, axis=1)
        return float(-np.mean(log_shares[np.arange(len(labels)), labels]))
