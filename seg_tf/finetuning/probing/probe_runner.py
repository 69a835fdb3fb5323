"""DiscoEval's probes as trials: one runner a task and checkpoint."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from seg_tf import files, tasks
from seg_tf.finetuning.probing.frozen_encoder import PER_SENTENCE, FrozenEncoder
from seg_tf.finetuning.probing.probe import LEARNING_RATE, Labelled, predict
from seg_tf.finetuning.probing.probe_training import (
    TrainedProbe,
    max_evaluations,
    train_probe,
)
from seg_tf.finetuning.probing.vector_files import progress_of, sentence_vectors
from seg_tf.finetuning.trial import Setting
from seg_tf.tasks import metrics
from seg_tf.tasks.example import Example, Task
from seg_tf.tasks.probes import combine_vectors, settings_of
from seg_tf.training.pretrained import Pretrained

_TEST = "test"


class ProbeRunner:
    """Trains DiscoEval's probe of a task on the vectors of a frozen encoder.

    Files are read and texts encoded when the runner is made; a trial only trains the
    probe. How that is done the protocol says (`seg_tf.tasks.probes`), so all that
    trials may differ in is their seed.

    Args:
        task: one of DiscoEval, or its name.
        pretrained: what `load_pretrained` returned.
        data_dir: folder of the benchmark, or of the task. Train and dev have to be
            there; without test there are no scores of it.
        vectors_dir: where vectors are kept: they are computed once, whatever the seed.
        mode: "per_sentence", as in the benchmark, or "joint": see `FrozenEncoder`.
        randomly_initialised: whether the encoder starts from new weights.
        encoder_seed: of the new weights, which are the same in all trials.
        max_length: the most positions of a row; None takes those of pretraining.
        limit: how many examples of train are used, the first ones; None takes all.
        report: called with lines of text: what was cut, and what is missing.

    Attributes:
        name: that of the task.
        main_metric: "accuracy".
        setting: the protocol's, whatever a trial is given. Its epochs are the most
            that callbacks can hear of.

    Raises:
        OSError: if train or dev is not there, naming the file.
        ValueError: if the task is another benchmark's, a file is not as it must be, the
            encoder cannot do as `mode` says, or the folder holds other vectors.
    """

    def __init__(
        self,
        task: Task | str,
        pretrained: Pretrained,
        data_dir: pathlib.Path,
        vectors_dir: pathlib.Path,
        *,
        mode: str = PER_SENTENCE,
        randomly_initialised: bool = False,
        encoder_seed: int = 0,
        max_length: int | None = None,
        limit: int | None = None,
        report: Callable[[str], Any] = print,
    ):
        self._task = tasks.get(task) if isinstance(task, str) else task
        self._settings = settings_of(self._task)
        self.name = self._task.name
        self.main_metric = self._task.main_metric
        self.setting = Setting(
            LEARNING_RATE, self._settings.batch_size, max_evaluations(self._settings)
        )
        # All files before the encoder, which takes longer.
        self._examples = {"train": self._read(data_dir, "train")[:limit]}
        self._examples["dev"] = self._read(data_dir, "dev")
        try:
            self._examples[_TEST] = self._read(data_dir, _TEST)
        except FileNotFoundError as error:
            report(f"No scores of {self.name} on test: {error}")
        encoder = FrozenEncoder(
            pretrained,
            mode,
            self._task.num_texts,
            randomly_initialised=randomly_initialised,
            seed=encoder_seed,
            max_length=max_length,
        )
        folder = vectors_dir / self.name.replace("/", "-") / mode
        self._labelled = {}
        for split, examples in self._examples.items():
            vectors = sentence_vectors(
                encoder,
                [example.texts for example in examples],
                folder / split,
                progress_of(f"{self.name}, {split}"),
                report,
            )
            self._labelled[split] = Labelled(
                combine_vectors(self._settings.features, vectors),
                np.array([example.label for example in examples], np.int32),
            )

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """Trains a probe.

        Args:
            setting: is not read: the protocol's is `self.setting`.
            seed: of the probe's first weights and of the order of examples.
            folder: where `predictions_dev.tsv`, of test if it is there, and
                `probe.json`, how training went, are written.
            callbacks: as for `train_probe`.

        Returns:
            `accuracy` on dev, and beside it that of the label most frequent in train,
            `majority_accuracy`; both of test, with `test_` before them, if it is there;
            and `l2`, the strength that was chosen.
        """
        trained = train_probe(
            self._labelled["train"],
            self._labelled["dev"],
            len(self._task.labels),
            self._settings,
            seed,
            callbacks,
        )
        probe = trained[0]
        folder.mkdir(parents=True, exist_ok=True)
        majority = np.bincount(self._labelled["train"].labels).argmax()
        scores = {}
        for split in list(self._examples)[1:]:
            labelled = self._labelled[split]
            predictions = predict(probe.model, labelled.features)
            prefix = "" if split == "dev" else f"{split}_"
            for name, predicted in {
                "accuracy": predictions,
                "majority_accuracy": np.full_like(predictions, majority),
            }.items():
                computed = metrics.compute(self._task, labelled.labels, predicted)
                scores[prefix + name] = computed[self.main_metric]
            self._write_predictions(folder, split, predictions)
        scores["l2"] = probe.l2
        files.write_json(folder / "probe.json", self._story_of(trained))
        return scores

    def _read(self, data_dir: pathlib.Path, split: str) -> list[Example]:
        return tasks.read(self._task, data_dir, split)

    def _write_predictions(
        self, folder: pathlib.Path, split: str, predictions: np.ndarray
    ) -> None:
        words = self._task.labels
        lines = ["identifier\tlabel\tprediction"]
        for example, predicted in zip(
            self._examples[split], predictions.tolist(), strict=True
        ):
            lines.append(
                f"{example.identifier}\t{words[example.label]}\t{words[predicted]}"
            )
        files.write_text(folder / f"predictions_{split}.tsv", "\n".join(lines) + "\n")

    def _story_of(self, trained: Sequence[TrainedProbe]) -> dict[str, Any]:
        """How the trainings went, the best one first."""
        return {
            "passes_per_evaluation": self._settings.passes_per_evaluation,
            "probes": [
                {"l2": one.l2, "dev_accuracies": one.accuracies, "losses": one.losses}
                for one in trained
            ],
        }
