"""Runs trials of classification and regression tasks, such as GLUE and RACE.

Shape key: E examples, C outputs per example.
"""

import contextlib
import pathlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from seg_tf import tasks
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.batches import TextExamples
from seg_tf.finetuning.optimizer import BERT_SETTINGS, ReusableModel
from seg_tf.finetuning.text_classifier import TextClassifier
from seg_tf.finetuning.trials import (
    MODEL_FOLDER,
    Callbacks,
    DevScores,
    Result,
    Trial,
    check_finite,
)
from seg_tf.preprocessing import TextPreprocessor
from seg_tf.tasks import Example, Task, task
from seg_tf.tasks.finetuning_settings import OptimizerSettings

_MAX_BASELINE_EXAMPLES = 20_000
# Inference needs less memory than training.
_BATCH_SIZE = 64


class ClassificationRunner:
    """A `TaskRunner` for the tasks of `seg_tf.tasks`.

    Scores are the task's metrics on the dev split and, with the prefix "test_", on
    predicted test splits that have labels. MNLI's two dev splits have the prefixes
    "matched_" and "mismatched_", and its main metric is the matched accuracy. The logs
    of every epoch contain each dev split's scores and `loss`. The constructor reads and
    encodes the splits, and raises the same errors as `seg_tf.tasks.read`.

    Args:
        pretrained: `Pretrained` to fine-tune.
        task: str or `Task`. Task or its name.
        data_dir: str or path. See `seg_tf.tasks.read`.
        limit: int. Maximum number of training examples. If None, all are used.
        predict_test: bool. Whether each trial also predicts the test splits.
        save_model: bool. Whether each trial saves its model.
        dtype_policy: str. Keras dtype policy of the model. If None, the current one.
        optimizer: `OptimizerSettings`. Settings of AdamW other than the learning rate.
        report: function that is called with a message if rows were truncated.
        **options: other settings of `TextClassifier.from_preset`, such as `max_length`.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        task: Task | str,
        data_dir: str | pathlib.Path,
        *,
        limit: int | None = None,
        predict_test: bool = False,
        save_model: bool = False,
        dtype_policy: str | None = None,
        optimizer: OptimizerSettings = BERT_SETTINGS,
        report: Callable[[str], Any] = print,
        **options: Any,
    ):
        task = tasks.get(task)
        self._saves_model = save_model
        self._sentence_checksum = pretrained.sentence_parameters.checksum
        self._model = ReusableModel(
            lambda seed: TextClassifier.from_preset(
                pretrained,
                task.num_outputs,
                task.num_texts,
                num_choices=task.num_choices,
                labels=() if task.is_regression else task.labels,
                seed=seed,
                **options,
            ),
            TextClassifier.loss_of_labels,
            dtype_policy,
            optimizer,
        )
        preprocessor = TextPreprocessor(
            pretrained, task.num_texts, options.get("max_length"), task.num_choices
        )

        def read(task: Task, name: str, limit: int | None = None) -> _Split:
            return _Split(task, name, data_dir, limit, preprocessor, report)

        self._train = read(task, "train", limit)
        # Maps the prefix of the scores, such as "matched_", to the split.
        self._dev = {
            name.removeprefix("dev").removeprefix("_") + "_" * (name != "dev"): split
            for name in task.split_names
            if name.startswith("dev")
            for split in [read(task, name)]
        }
        self._test = []
        if predict_test:
            names = [name for name in task.split_names if name.startswith("test")]
            self._test = [read(task, name) for name in names]
            if task.name == "glue/mnli":
                # MNLI models predict the diagnostic set, which some downloads lack.
                with contextlib.suppress(FileNotFoundError):
                    self._test.append(read(tasks.get("glue/ax"), "test"))
        self.name = task.name
        self.num_examples = len(self._train.labels)
        self.main_metric = next(iter(self._dev)) + task.main_metric
        # The mean score or the most frequent label.
        labels = self._train.labels
        guess = float(np.mean(labels))
        if not task.is_regression:
            ((guess, _),) = Counter(sorted(labels)).most_common(1)
        self.baselines: dict[str, dict[str, float]] = {}
        for prefix, split in self._dev.items():
            guesses = {"without a model": [guess] * len(split.labels)}
            texts = [example.texts for example in split.examples]
            words = bag_of_words(task, self._train.examples, texts)
            if words is not None:
                guesses["bag of words"] = words
            for title, predictions in guesses.items():
                scores = self.baselines.setdefault(title, {})
                for name, value in split.scores(predictions).items():
                    scores[prefix + name] = value

    def describe(self) -> dict[str, Any]:
        """Returns checksums of the splits and, for saved models, of the splitter."""
        checksums = {
            split.name: tasks.checksum(split.examples)
            for split in (self._train, *self._dev.values(), *self._test)
        }
        if self._saves_model:
            # Training texts are single sentences, but served texts may be documents.
            checksums["sentence_splitter"] = self._sentence_checksum
        return checksums

    def run(
        self, trial: Trial, folder: pathlib.Path, callbacks: Callbacks = ()
    ) -> Result:
        """Runs a trial. Writes `<split>_predictions.tsv` and, if requested, a model."""

        def score_epoch(model: TextClassifier) -> dict[str, float]:
            scores: dict[str, float] = {}
            for prefix, split in self._dev.items():
                outputs = split.outputs(model)
                loss = model.loss_of_labels()(np.array(split.targets), outputs)
                scores[f"{prefix}loss"] = float(loss)
                for name, value in split.scores(split.predictions(outputs)).items():
                    scores[prefix + name] = value
            return scores

        model, epochs = self._model.train(
            self._train.encoded.batches(trial.setting.batch_size, trial.seed),
            trial,
            [DevScores(score_epoch), *callbacks],
        )
        scores: dict[str, float] = {}
        tests = [("test_", split) for split in self._test]
        for prefix, split in [*self._dev.items(), *tests]:
            predictions = split.predictions(split.outputs(model))
            path = folder / f"{split.name}_predictions.tsv"
            tasks.write_predictions(path, split.task, split.examples, predictions)
            if None not in split.labels:
                for name, value in split.scores(predictions).items():
                    scores[prefix + name] = value
        if self._saves_model:
            # The saved model outputs scores that are not standardized.
            mean, deviation = self._train.task.score_scale
            kernel, bias = model.classifier.get_weights()
            model.classifier.set_weights([deviation * kernel, deviation * bias + mean])
            model.save_to_preset(folder / MODEL_FOLDER)
        return scores, epochs


class _Split:
    def __init__(
        self,
        task: Task,
        name: str,
        data_dir: str | pathlib.Path,
        limit: int | None,
        preprocessor: TextPreprocessor,
        report: Callable[[str], Any],
    ):
        self.task = task
        self.name = name
        self.examples = tasks.read(task, data_dir, name)[:limit]
        self.labels = [example.label for example in self.examples]
        self.targets: Any = self.labels
        if task.is_regression and None not in self.labels:
            mean, deviation = task.score_scale
            self.targets = (np.array(self.labels) - mean) / deviation
        self.encoded = TextExamples(
            preprocessor,
            [example.texts for example in self.examples],
            self.targets if name == "train" else None,
            report=lambda line: report(f"{task.name}, {name}: {line}"),
        )

    def outputs(self, model: keras.Model) -> np.ndarray:
        """Returns outputs `(E, C)`. Raises `TrainingDiverged` if any is not finite."""
        outputs = model.predict(self.encoded.batches(_BATCH_SIZE), verbose=0)
        check_finite(outputs, f"{self.task.name}, {self.name}")
        return outputs

    def predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Returns class indices `(E,)` or, for regression, scores within the range."""
        if self.task.score_range:
            mean, deviation = self.task.score_scale
            scores = outputs[:, 0] * deviation + mean
            return np.clip(scores, *self.task.score_range)
        return outputs.argmax(axis=1)

    def scores(self, predictions: Sequence[int | float]) -> dict[str, float]:
        return task.compute(self.task, self.labels, predictions)


def bag_of_words(
    task: Task, train: Sequence[Example], texts: Sequence[Sequence[str]]
) -> np.ndarray | None:
    """Predicts labels of `texts` with a linear model of word unigrams and bigrams.

    A logistic regression or, for scores, a ridge regression is fitted to the TF-IDF
    features of at most 20,000 training examples. Returns class indices or scores
    `(E,)`, or None if the task is multiple choice or all training labels are equal.
    """
    if len(train) > _MAX_BASELINE_EXAMPLES:  # Tables may be sorted by label.
        train = random.Random(0).sample(train, _MAX_BASELINE_EXAMPLES)
    labels = [example.label for example in train]
    if len(set(labels)) < 2 or task.num_choices > 1:
        return None
    known, new = [], []
    for number in range(task.num_texts):
        vectorizer = TfidfVectorizer(
            token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), sublinear_tf=True
        )
        known.append(
            vectorizer.fit_transform([example.texts[number] for example in train])
        )
        new.append(vectorizer.transform([text[number] for text in texts]))
    model = Ridge() if task.is_regression else LogisticRegression(max_iter=1_000)
    model.fit(scipy.sparse.hstack(known), labels)
    return model.predict(scipy.sparse.hstack(new))
