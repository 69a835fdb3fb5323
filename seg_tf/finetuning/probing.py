"""DiscoEval's probes of a frozen encoder as trials (Chen et al., 2019).

Vectors are computed once and stored in a folder:

  settings.json    what the vectors depend on: encoder, vocabulary, texts and their rows
  part-00000.npy   float32 `(rows, T, D)`, and so on

Each file is written atomically. A killed job resumes with the missing parts. Vectors of
another encoder, or of other texts, are refused.

Shape key: E examples, N texts of each, T texts of a row, D width, U units.
"""

import contextlib
import hashlib
import json
import pathlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from seg_tf import command_line, files, tasks
from seg_tf.checkpoints.encoder_copies import under_dtype_policy
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import differing_settings
from seg_tf.finetuning.probes import (
    LEARNING_RATE,
    Labelled,
    max_evaluations,
    predict,
    train_probe,
)
from seg_tf.finetuning.trials import Setting
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.tasks import metrics
from seg_tf.tasks.discoeval import combine_vectors, settings_of
from seg_tf.tasks.task import Example, Task, checksum, write_predictions

PER_SENTENCE = "per_sentence"
JOINT = "joint"
MODES = (PER_SENTENCE, JOINT)
_SETTINGS_FILE = "settings.json"
_FORMAT_VERSION = 1
_ROWS_PER_PART = 4_096
_TEST = "test"

# Number of rows -> a progress bar, to be used in a `with`.
Progress = Callable[[int], contextlib.AbstractContextManager[Any]]


def probe_setting(task: Task | str) -> Setting:
    """Returns the only setting of a task's probe, with its maximum number of epochs.

    An epoch lies between two evaluations on dev, counted over all strengths of the
    penalty.

    Raises:
        ValueError: if the task is another benchmark's.
    """
    settings = settings_of(tasks.get(task) if isinstance(task, str) else task)
    return Setting(LEARNING_RATE, settings.batch_size, max_evaluations(settings))


def stored_vectors(
    encoder: SentenceEncoder,
    rows: Sequence[tuple[str, ...]],
    folder: pathlib.Path,
    settings: Mapping[str, Any],
    progress: Progress,
    report: Callable[[str], Any] = print,
    rows_per_part: int = _ROWS_PER_PART,
) -> np.ndarray:
    """Returns the vectors of rows of texts, computing those not in the folder.

    Repeated rows are encoded once. If several processes need the same vectors, one
    computes them and the others wait.

    Args:
        encoder: the encoder.
        rows: at least one, each of T texts.
        folder: folder of the vectors of these rows only.
        settings: further settings that the vectors depend on.
        progress: creates a progress bar for a number of rows.
        report: called with a line of text if rows were cut.
        rows_per_part: rows of a file.

    Returns:
        float32 array `(len(rows), T, D)`.

    Raises:
        ValueError: if the folder contains other vectors.
    """
    numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    unique = list(numbers)
    text_checksum = hashlib.sha256()
    for row in unique:
        text_checksum.update(json.dumps(row).encode() + b"\n")
    description = {
        "format_version": _FORMAT_VERSION,
        "num_rows": len(unique),
        "rows_of_part": rows_per_part,
        "texts_sha256": text_checksum.hexdigest(),
        **settings,
        **encoder.describe(),
    }
    # Most models have one token for both; SLM and ReAT have one for each text.
    kind = "sent" if encoder.layout.vectors_per_text else "cls"
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder):
        path = folder / _SETTINGS_FILE
        if not path.exists():
            files.write_json(path, description)
        if differences := differing_settings(files.read_json(path), description):
            raise ValueError(
                f"`folder` contains vectors computed with different settings: {folder}."
                " They differ in "
                + "; ".join(differences)
                + ". Choose another folder, or remove that one"
            )
        parts = {
            folder / f"part-{number:05d}.npy": unique[begin : begin + rows_per_part]
            for number, begin in enumerate(range(0, len(unique), rows_per_part))
        }
        if not all(path.exists() for path in parts):
            files.remove_leftovers(folder)
            total_cut = num_encoded = 0
            with progress(len(unique)) as bar:
                for path, part in parts.items():
                    if path.exists():
                        bar.update(len(part))
                        continue
                    vectors, num_cut = encoder.encode_rows(part, kind, bar.update)
                    total_cut += num_cut
                    num_encoded += len(part)
                    with files.written_aside(path) as unfinished:
                        np.save(unfinished, vectors)
            if total_cut:
                report(
                    f"Rows of texts that were too long and cut: {total_cut:,} of "
                    f"{num_encoded:,} encoded now"
                )
        vectors = np.concatenate([np.load(path) for path in parts])
    if len(vectors) != len(unique):
        raise ValueError(
            f"`folder` must hold vectors of {len(unique):,} rows. Received: "
            f"{folder}, with {len(vectors):,}. Remove it to compute them again"
        )
    return vectors[[numbers[row] for row in rows]]


class ProbeRunner:
    """A `TaskRunner` that trains DiscoEval's probe on vectors of a frozen encoder.

    Files are read when the runner is created, and texts encoded before the first trial.
    The protocol (`seg_tf.tasks.discoeval.probes`) fixes everything but the seed.

    The vector of a text is the output at `[CLS]` (BERT, SegaBERT), at its `[SENT]`
    (SLM) or pooled at its `<SS>` (ReAT).

    Args:
        pretrained: what `load_pretrained` returned.
        task: a task of DiscoEval, or its name.
        data_dir: folder of the benchmark, or of the task. Train and dev are required;
            without test there are no scores of it.
        vectors_dir: folder for the vectors, which do not depend on the seed unless the
            weights are new.
        mode: "per_sentence", as in the benchmark, encodes each text alone; "joint"
            encodes the texts of an example in one row, where they see each other.
        randomly_initialized: whether every trial has an encoder of new weights, drawn
            by its seed.
        max_length: maximum number of positions of a row; None uses that of pretraining.
        dtype_policy: Keras dtype policy of the encoder; None uses the current one. The
            probe uses float32.
        limit: train on the first `limit` examples only.
        report: called with lines of text: what was cut, and what is missing.

    Attributes:
        name: name of the task.
        main_metric: "accuracy".
        baseline: scores of predicting the most frequent label of train.
        baseline_name: description of the baseline.
        in_percent: False.
        num_examples: number of training examples.

    Raises:
        OSError: if train or dev is missing, naming the file.
        ValueError: if the task is another benchmark's, a file is not valid, or the
            encoder does not support `mode`.
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
        if mode not in MODES:
            raise ValueError(
                f"`mode` must be one of {', '.join(MODES)}. Received: {mode!r}"
            )
        if self._task.texts_have_units and mode != PER_SENTENCE:
            raise ValueError(
                f'`mode` must be "{PER_SENTENCE}" for {self.name}, whose units are '
                f"encoded apart. Received: {mode!r}"
            )
        # All files before the encoder, which takes longer.
        self._examples = {"train": tasks.read(self._task, data_dir, "train")[:limit]}
        self._examples["dev"] = tasks.read(self._task, data_dir, "dev")
        try:
            self._examples[_TEST] = tasks.read(self._task, data_dir, _TEST)
        except FileNotFoundError as error:
            report(f"No scores of {self.name} on test: {error}")
        self._pretrained = pretrained
        self._max_length = max_length
        self._policy = dtype_policy or keras.config.dtype_policy()
        self._randomly_initialized = randomly_initialized
        self._mode = mode
        self._num_texts = 1 if self._task.texts_have_units else self._task.num_texts
        # The checkpoint's in any case: it determines what can be probed.
        self._encoder = self._make_encoder()
        layout = self._encoder.layout
        if mode == JOINT and self._num_texts > 1 and not layout.vectors_per_text:
            raise ValueError(
                f'`mode` must be "{PER_SENTENCE}" for a model without a token for '
                f"each text of a row; SLM and ReAT have one. Received: {mode!r} for "
                f"{pretrained.folder}, the run {pretrained.config.name!r}"
            )
        layout.capacity(self._num_texts if mode == JOINT else 1)
        self._vectors_dir = vectors_dir / self.name.replace("/", "-") / mode
        self._report = report
        self._cache: tuple[int | None, Mapping[str, Labelled]] | None = None
        self.num_examples = len(self._examples["train"])
        labels = [example.label for example in self._examples["train"]]
        ((majority, _),) = Counter(sorted(labels)).most_common(1)
        self.baseline = {}
        for split in list(self._examples)[1:]:
            predictions = np.full(len(self._examples[split]), majority)
            self.baseline |= self._scores(split, predictions)

    def describe(self) -> dict[str, Any]:
        """Returns checksums of the files that the scores of a trial depend on."""
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
            setting: not used: `probe_setting` is the protocol's.
            seed: seed of the probe's initial weights, of the order of examples, and of
                new weights of the encoder.
            folder: folder for `dev_predictions.tsv`, `test_predictions.tsv`, and the
                history of the training, `probe.json`.
            callbacks: as for `train_probe`.

        Returns:
            `accuracy` on dev; `test_accuracy` if there is a test split; and `l2`, the
            strength of the penalty.

        Raises:
            ValueError: if the folder of vectors contains other ones.
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
        history = [
            {"l2": one.l2, "dev_accuracies": one.accuracies, "losses": one.losses}
            for one in trained
        ]
        passes = self._settings.passes_per_evaluation
        files.write_json(
            folder / "probe.json", {"passes_per_evaluation": passes, "probes": history}
        )
        return {**scores, "l2": probe.l2}

    def _make_encoder(self, seed: int | None = None) -> SentenceEncoder:
        with under_dtype_policy(self._policy):
            return SentenceEncoder(
                self._pretrained,
                max_length=self._max_length,
                randomly_initialized=seed is not None,
                seed=seed or 0,
            )

    def _labelled(self, encoder_seed: int | None) -> Mapping[str, Labelled]:
        """Returns the features of every split, of one encoder at a time.

        Args:
            encoder_seed: seed of new weights; None uses those of the checkpoint.
        """
        if self._cache is None or self._cache[0] != encoder_seed:
            self._cache = None
            encoder, folder, name = self._encoder, self._vectors_dir, self.name
            if encoder_seed is not None:
                encoder = self._make_encoder(encoder_seed)
                folder = folder / f"seed_{encoder_seed}"
                name += f", seed {encoder_seed}"
            labelled = {
                split: Labelled(
                    combine_vectors(
                        self._settings.features,
                        self._vectors(encoder, examples, folder / split, name, split),
                    ),
                    np.array([example.label for example in examples], np.int32),
                )
                for split, examples in self._examples.items()
            }
            self._cache = encoder_seed, labelled
        return self._cache[1]

    def _vectors(
        self,
        encoder: SentenceEncoder,
        examples: Sequence[Example],
        folder: pathlib.Path,
        name: str,
        split: str,
    ) -> np.ndarray:
        """Vectors of the texts of examples, `(E, N, D)`."""
        texts = [example.texts for example in examples]
        if self._mode == JOINT:
            rows = texts
        elif self._task.texts_have_units:
            rows = [
                (unit,) for one in texts for text in one for unit in text.split("\n")
            ]
        else:
            rows = [(text,) for one in texts for text in one]
        vectors = stored_vectors(
            encoder,
            rows,
            folder,
            {"mode": self._mode, "num_texts": self._num_texts},
            lambda total: command_line.progress_bar(total, f"{name}, {split}", " rows"),
            self._report,
        )
        if self._task.texts_have_units:
            counts = [[text.count("\n") + 1 for text in one] for one in texts]
            return unit_means(vectors[:, 0], np.array(counts))
        return vectors.reshape(len(examples), self._num_texts, -1)

    def _scores(self, split: str, predictions: np.ndarray) -> dict[str, float]:
        labels = [example.label for example in self._examples[split]]
        prefix = "" if split == "dev" else f"{split}_"
        computed = metrics.compute(self._task, labels, predictions)
        return {prefix + name: value for name, value in computed.items()}


def unit_means(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the mean vector of each text's units.

    Args:
        vectors: float array `(U, D)`, units of all texts in order.
        counts: int array `(E, N)`, units of each text, at least one.

    Returns:
        Float array `(E, N, D)`.
    """
    starts = np.cumsum(counts.reshape(-1)) - counts.reshape(-1)
    sums = np.add.reduceat(vectors, starts, axis=0).reshape(*counts.shape, -1)
    return sums / counts[:, :, np.newaxis].astype(vectors.dtype)
