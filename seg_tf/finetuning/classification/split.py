"""A split that is predicted as a whole: its loss, its scores, its file.

Shape key: E examples, C outputs for each.
"""

import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import scipy.special

from seg_tf import files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.classification.text_batches import TextExamples
from seg_tf.finetuning.trials.divergence import check_finite
from seg_tf.tasks import Example, Task, metrics

# No gradients, and twice the room: what it is hardly matters.
_BATCH_SIZE = 64


class PredictedSplit:
    """Examples in the order of their file, encoded once.

    Args:
        task: the task.
        name: that of the split, as in "dev_matched".
        examples: its examples.
        pretrained: the checkpoint.
        max_length: the most positions of a row.
        report: called with a line of text if examples were cut.

    Attributes:
        name: as given.
        examples: as given.
    """

    def __init__(
        self,
        task: Task,
        name: str,
        examples: Sequence[Example],
        pretrained: Pretrained,
        max_length: int | None,
        report: Callable[[str], Any],
    ):
        self.name = name
        self.examples = examples
        self._task = task
        self._encoded = TextExamples(
            pretrained,
            [one.texts for one in examples],
            max_length=max_length,
            report=lambda line: report(f"{task.name}, {name}: {line}"),
            num_choices=task.num_choices,
        )

    def outputs(self, model: keras.Model) -> np.ndarray:
        """The model's outputs for every example: `(E, C)`.

        Raises:
            TrainingDiverged: if outputs are not finite.
        """
        outputs = model.predict(self._encoded.batches(_BATCH_SIZE), verbose=0)
        check_finite(
            np.isfinite(outputs).all(axis=1),
            f"examples of {self._task.name}, {self.name}",
        )
        return outputs

    def predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Numbers of labels, or scores cut to the range that there is: `(E,)`."""
        if self._task.is_regression:
            return np.clip(outputs[:, 0], *self._task.score_range)
        return outputs.argmax(axis=1)

    def scores(self, outputs: np.ndarray) -> dict[str, float]:
        """The metrics of the task."""
        labels = [one.label for one in self.examples]
        return metrics.compute(self._task, labels, self.predictions(outputs))

    def loss(self, outputs: np.ndarray) -> float:
        """Mean of what training makes small: cross-entropy, or squared error."""
        labels = np.array([one.label for one in self.examples])
        outputs = outputs.astype(np.float64)
        if self._task.is_regression:
            return float(np.mean((outputs[:, 0] - labels) ** 2))
        log_shares = scipy.special.log_softmax(outputs, axis=1)
        return float(-np.mean(log_shares[np.arange(len(labels)), labels]))

    def write(self, outputs: np.ndarray, folder: pathlib.Path) -> None:
        """As `write_predictions`."""
        predictions = self.predictions(outputs)
        write_predictions(folder, self.name, self._task, self.examples, predictions)


def write_predictions(
    folder: pathlib.Path,
    split: str,
    task: Task,
    examples: Sequence[Example],
    predictions: Sequence[int | float],
) -> None:
    """Writes `<split>_predictions.tsv`: a row an example, labels as words.

    Args:
        folder: existing folder.
        split: name of the split.
        task: the task.
        examples: all of the split; labels that are None are left empty.
        predictions: number of a label, or score, of each.
    """

    def word(value: int | float | None) -> str:
        if value is None:
            return ""
        return f"{value:g}" if task.is_regression else task.labels[value]

    lines = ["index\tlabel\tprediction"]
    for example, value in zip(examples, predictions, strict=True):
        lines.append("\t".join((example.identifier, word(example.label), word(value))))
    text = "".join(f"{line}\n" for line in lines)
    files.write_text(folder / f"{split}_predictions.tsv", text)


def checksum(examples: Sequence[Example]) -> str:
    """SHA-256 that tells texts and labels of examples from others."""
    content = json.dumps([(one.texts, one.label) for one in examples])
    return hashlib.sha256(content.encode()).hexdigest()
