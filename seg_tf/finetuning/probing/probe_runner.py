"""DiscoEval's probes as trials: one runner a task and checkpoint."""

import functools
import pathlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from seg_tf import files, tasks
from seg_tf.checkpoints.encoder_copies import under_dtype_policy
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.probing.frozen_encoder import PER_SENTENCE, FrozenEncoder
from seg_tf.finetuning.probing.probe import LEARNING_RATE, Labelled, predict
from seg_tf.finetuning.probing.probe_training import (
    TrainedProbe,
    max_evaluations,
    train_probe,
)
from seg_tf.finetuning.probing.vector_files import progress_of, sentence_vectors
from seg_tf.finetuning.trials import Setting
from seg_tf.tasks import metrics
from seg_tf.tasks.discoeval import combine_vectors, settings_of
from seg_tf.tasks.task import Example, Task, checksum, write_predictions

_TEST = "test"


def probe_setting(task: Task | str) -> Setting:
    """The one setting of a task's probe; its epochs are the most there can be.

    An epoch is what lies between two evaluations on dev, of all strengths of the
    penalty together.

    Raises:
        ValueError: if the task is another benchmark's.
    """
    settings = settings_of(tasks.get(task) if isinstance(task, str) else task)
    return Setting(LEARNING_RATE, settings.batch_size, max_evaluations(settings))


class ProbeRunner:
    """A `TaskRunner` that trains DiscoEval's probe on vectors of a frozen encoder.

    Files are read when the runner is made, and texts encoded before the first trial;
    any other only trains the probe. How that is done the protocol says
    (`seg_tf.tasks.discoeval.probes`), so all that trials may differ in is their seed.

    Args:
        pretrained: what `load_pretrained` returned.
        task: one of DiscoEval, or its name.
        data_dir: folder of the benchmark, or of the task. Train and dev have to be
            there; without test there are no scores of it.
        vectors_dir: where vectors are kept: they are computed once, whatever the seed,
            but for those of new weights.
        mode: "per_sentence", as in the benchmark, or "joint": see `FrozenEncoder`.
        randomly_initialized: whether every trial has an encoder of new weights, drawn
            by its seed: encoders differ too, which a spread over seeds has to show.
        max_length: the most positions of a row; None takes those of pretraining.
        dtype_policy: what the encoder computes in, as of Keras; None takes the policy
            that holds. The probe takes float32.
        limit: how many examples of train are used, the first ones; None takes all.
        report: called with lines of text: what was cut, and what is missing.

    Attributes:
        name: that of the task.
        main_metric: "accuracy".
        baseline: scores of always the label most frequent in train.
        baseline_name: that.
        in_percent: False.
        num_examples: those trained on.

    Raises:
        OSError: if train or dev is not there, naming the file.
        ValueError: if the task is another benchmark's, a file is not as it must be, or
            the encoder cannot do as `mode` says.
    """

    baseline_name = "most frequent label"
    in_percent = False

    def __init__(
        self,
        pretrained: Pretrained,
        task: Task | str,
        data_dir: str | pathlib.Path,
        vectors_dir: pathlib.Path,
        *,
        mode: str = PER_SENTENCE,
        randomly_initialized: bool = False,
        max_length: int | None = None,
        dtype_policy: str | None = None,
        limit: int | None = None,
        report: Callable[[str], Any] = print,
    ):
        self._task = tasks.get(task) if isinstance(task, str) else task
        self._settings = settings_of(self._task)
        self.name = self._task.name
        self.main_metric = self._task.main_metric
        if self._task.texts_have_units and mode != PER_SENTENCE:
            raise ValueError(
                f'`mode` must be "{PER_SENTENCE}" for {self.name}, whose units are '
                f"encoded apart. Received: {mode!r}"
            )
        # All files before the encoder, which takes longer.
        self._examples = {"train": self._read(data_dir, "train")[:limit]}
        self._examples["dev"] = self._read(data_dir, "dev")
        try:
            self._examples[_TEST] = self._read(data_dir, _TEST)
        except FileNotFoundError as error:
            report(f"No scores of {self.name} on test: {error}")
        self._make_encoder = functools.partial(
            FrozenEncoder,
            pretrained,
            mode,
            1 if self._task.texts_have_units else self._task.num_texts,
            max_length=max_length,
        )
        self._policy = dtype_policy or keras.config.dtype_policy()
        # That of the checkpoint in any case: it says what cannot be probed.
        with under_dtype_policy(self._policy):
            self._encoder = self._make_encoder()
        self._randomly_initialized = randomly_initialized
        self._vectors_dir = vectors_dir / self.name.replace("/", "-") / mode
        self._report = report
        self._kept: tuple[int | None, Mapping[str, Labelled]] | None = None
        self.num_examples = len(self._examples["train"])
        self.baseline = self._majority_scores()

    def describe(self) -> dict[str, Any]:
        """Checksums of the files that the scores of a trial depend on."""
        return {split: checksum(found) for split, found in self._examples.items()}

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """Trains a probe.

        Args:
            setting: is not read: `probe_setting` is the protocol's.
            seed: of the probe's first weights and of the order of examples, and of new
                weights of the encoder.
            folder: where `dev_predictions.tsv`, of test if it is there, and
                `probe.json`, how training went, are written.
            callbacks: as for `train_probe`.

        Returns:
            `accuracy` on dev; `test_accuracy` if test is there; and `l2`, the strength
            that was chosen.

        Raises:
            ValueError: if the folder of vectors holds other ones.
        """
        labelled = self._labelled(seed if self._randomly_initialized else None)
        trained = train_probe(
            labelled["train"],
            labelled["dev"],
            len(self._task.labels),
            self._settings,
            seed,
            callbacks,
        )
        probe = trained[0]
        folder.mkdir(parents=True, exist_ok=True)
        scores = {}
        for split in list(self._examples)[1:]:
            predictions = predict(probe.model, labelled[split].features)
            scores.update(self._scores(split, predictions))
            examples = self._examples[split]
            write_predictions(folder, split, self._task, examples, predictions)
        scores["l2"] = probe.l2
        files.write_json(folder / "probe.json", self._story_of(trained))
        return scores

    def _labelled(self, encoder_seed: int | None) -> Mapping[str, Labelled]:
        """Every split as its probe reads it; that of one encoder at a time is kept.

        Args:
            encoder_seed: of new weights; None takes those of the checkpoint.
        """
        if self._kept is None or self._kept[0] != encoder_seed:
            self._kept = None
            self._kept = (encoder_seed, self._read_vectors(encoder_seed))
        return self._kept[1]

    def _read_vectors(self, encoder_seed: int | None) -> Mapping[str, Labelled]:
        encoder, folder, of = self._encoder, self._vectors_dir, ""
        if encoder_seed is not None:
            with under_dtype_policy(self._policy):
                encoder = self._make_encoder(
                    randomly_initialized=True, seed=encoder_seed
                )
            folder, of = folder / f"seed_{encoder_seed}", f", seed {encoder_seed}"
        labelled = {}
        for split, examples in self._examples.items():
            texts, counts = [example.texts for example in examples], None
            if self._task.texts_have_units:
                units = [[text.split("\n") for text in one] for one in texts]
                counts = np.array([list(map(len, one)) for one in units])
                texts = [(unit,) for one in units for text in one for unit in text]
            vectors = sentence_vectors(
                encoder,
                texts,
                folder / split,
                progress_of(f"{self.name}, {split}{of}"),
                self._report,
            )
            if counts is not None:
                vectors = _means(vectors[:, 0], counts)
            labelled[split] = Labelled(
                combine_vectors(self._settings.features, vectors),
                np.array([example.label for example in examples], np.int32),
            )
        return labelled

    def _majority_scores(self) -> dict[str, float]:
        labels = [example.label for example in self._examples["train"]]
        ((majority, _),) = Counter(sorted(labels)).most_common(1)
        scores = {}
        for split in list(self._examples)[1:]:
            predictions = np.full(len(self._examples[split]), majority)
            scores.update(self._scores(split, predictions))
        return scores

    def _scores(self, split: str, predictions: np.ndarray) -> dict[str, float]:
        labels = [example.label for example in self._examples[split]]
        prefix = "" if split == "dev" else f"{split}_"
        computed = metrics.compute(self._task, labels, predictions)
        return {prefix + name: value for name, value in computed.items()}

    def _read(self, data_dir: str | pathlib.Path, split: str) -> list[Example]:
        return tasks.read(self._task, data_dir, split)

    def _story_of(self, trained: Sequence[TrainedProbe]) -> dict[str, Any]:
        """Accuracies and losses of the trainings, the best one first."""
        return {
            "passes_per_evaluation": self._settings.passes_per_evaluation,
            "probes": [
                {"l2": one.l2, "dev_accuracies": one.accuracies, "losses": one.losses}
                for one in trained
            ],
        }


def _means(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean of the vectors of each text's units.

    Args:
        vectors: float array `(U, D)`, of the units of all texts in order.
        counts: int array `(E, T)`, units of each text, at least one.

    Returns:
        Float array `(E, T, D)`.
    """
    starts = np.cumsum(counts.reshape(-1)) - counts.reshape(-1)
    sums = np.add.reduceat(vectors, starts, axis=0).reshape(*counts.shape, -1)
    return sums / counts[:, :, np.newaxis].astype(vectors.dtype)
