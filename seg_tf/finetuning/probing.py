"""DiscoEval's probes (Chen et al., 2019): classifiers on vectors of a frozen encoder.

Vectors are computed once and stored in a folder:

  settings.json    what the vectors depend on: encoder, vocabulary, texts, rows
  part-00000.npy   float32 `(rows, T, D)`, and so on

Files appear complete or not at all. A killed job continues with the missing parts;
another encoder, or other texts, are refused.

Shape key: E examples, N texts of each, T texts of a row, D width.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import pathlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf import command_line, files, tasks
from seg_tf.checkpoints.encoder_copies import seeded, under_dtype_policy
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import differing_settings
from seg_tf.finetuning.trials import Setting
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.tasks import metrics
from seg_tf.tasks.discoeval import ProbeSettings, combine_vectors, settings_of
from seg_tf.tasks.task import Task, checksum, write_predictions

PER_SENTENCE, JOINT = "per_sentence", "joint"
MODES = (PER_SENTENCE, JOINT)
SETTINGS_FILE = "settings.json"
_FORMAT_VERSION = 2
_ROWS_OF_PART = 4_096
_TEST = "test"
# Those of PyTorch's Adam, which the benchmark's code leaves unchanged.
_LEARNING_RATE = 1e-3
_EPSILON = 1e-8


def probe_setting(task: Task | str) -> Setting:
    """The only setting of a task's probe; its epochs are the maximum.

    An epoch is the time between two evaluations on dev, over all strengths of the
    penalty together.

    Raises:
        ValueError: if the task is not DiscoEval's.
    """
    settings = settings_of(tasks.get(task) if isinstance(task, str) else task)
    return Setting(_LEARNING_RATE, settings.batch_size, max_evaluations(settings))


class ProbeRunner:
    """A `TaskRunner` that trains DiscoEval's probe on vectors of a frozen encoder.

    The constructor reads the files. The first trial encodes the texts; others only
    train the probe. The protocol (`seg_tf.tasks.discoeval.probes`) fixes everything
    but the seed.

    Args:
        pretrained: a model that `load_pretrained` returned.
        task: a task of DiscoEval, or its name.
        data_dir: folder of the benchmark, or of the task. Train and dev are required;
            without test there are no scores on it.
        vectors_dir: folder in which vectors are stored.
        mode: "per_sentence" gives each text a separate row, as DiscoEval's code
            does; "joint" puts the texts of an example into one row, where they see
            each other.
        randomly_initialized: whether each trial has an encoder with new weights, drawn
            by its seed.
        max_length: maximum row length; None uses that of pretraining.
        dtype_policy: precision of the encoder, as a Keras policy; None uses the current
            one. The probe computes in float32.
        limit: number of training examples; None uses all.
        report: called with lines of text: what was cut, and what is missing.

    Attributes:
        name: name of the task.
        main_metric: "accuracy".
        baseline: scores of the most frequent label in train.
        baseline_name: name of that baseline.
        in_percent: False.
        num_examples: number of training examples.

    Raises:
        OSError: if train or dev is missing, naming the file.
        ValueError: if the task is not DiscoEval's, a file is damaged, or the encoder
            does not support `mode`.
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
                f"encoded separately. Received: {mode!r}"
            )
        # All files before the encoder, which takes longer.
        self._examples = {"train": tasks.read(self._task, data_dir, "train")[:limit]}
        self._examples["dev"] = tasks.read(self._task, data_dir, "dev")
        try:
            self._examples[_TEST] = tasks.read(self._task, data_dir, _TEST)
        except FileNotFoundError as error:
            report(f"No scores of {self.name} on test: {error}")
        self._row_texts = 1 if mode == PER_SENTENCE else self._task.num_texts
        layout = pretrained.layout(max_length)
        if self._row_texts > 1 and not layout.vectors_per_text:
            raise ValueError(
                f'`mode` must be "{PER_SENTENCE}" for a model without a token for '
                f"each text of a row; SLM and ReAT have one. Received: {mode!r} for "
                f"{pretrained.folder}, the run {pretrained.config.name!r}"
            )
        layout.readout(self._row_texts)  # raises if the texts do not fit
        self._pretrained, self._max_length = pretrained, max_length
        self._policy = dtype_policy or keras.config.dtype_policy()
        self._randomly_initialized = randomly_initialized
        self._vectors_dir = vectors_dir / self.name.replace("/", "-") / mode
        self._report = report
        self._last: tuple[int | None, Mapping[str, Labelled]] | None = None
        self.num_examples = len(self._examples["train"])
        labels = [example.label for example in self._examples["train"]]
        ((majority, _),) = Counter(sorted(labels)).most_common(1)
        self.baseline = {}
        for split in list(self._examples)[1:]:
            predictions = np.full(len(self._examples[split]), majority)
            self.baseline.update(self._scores(split, predictions))

    def describe(self) -> dict[str, Any]:
        """Checksums of the files that the scores of a trial depend on."""
        return {split: checksum(examples) for split, examples in self._examples.items()}

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """Trains a probe.

        Args:
            setting: ignored; the protocol fixes it.
            seed: seed of the probe's initial weights, of the order of examples, and of
                new weights of the encoder.
            folder: where to write `dev_predictions.tsv`, predictions on test if there
                are any, and `probe.json`, which describes the training.
            callbacks: as for `train_probe`.

        Returns:
            `accuracy` on dev; `test_accuracy` if there is test; and `l2`, the chosen
            strength.

        Raises:
            ValueError: if the folder of vectors contains different ones.
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
        best = trained[0]
        folder.mkdir(parents=True, exist_ok=True)
        scores = {}
        for split in list(self._examples)[1:]:
            predictions = predict(best.model, labelled[split].features)
            scores.update(self._scores(split, predictions))
            examples = self._examples[split]
            write_predictions(folder, split, self._task, examples, predictions)
        scores["l2"] = best.l2
        history = {
            "passes_per_evaluation": self._settings.passes_per_evaluation,
            "probes": [
                {
                    "l2": probe.l2,
                    "dev_accuracies": probe.accuracies,
                    "losses": probe.losses,
                }
                for probe in trained
            ],
        }
        files.write_json(folder / "probe.json", history)
        return scores

    def _labelled(self, encoder_seed: int | None) -> "Mapping[str, Labelled]":
        """Vectors and labels of every split, cached for the last encoder.

        Args:
            encoder_seed: seed of new weights; None keeps the checkpoint's.
        """
        if self._last is not None and self._last[0] == encoder_seed:
            return self._last[1]
        folder, title = self._vectors_dir, ""
        if encoder_seed is not None:
            folder, title = folder / f"seed_{encoder_seed}", f", seed {encoder_seed}"
        with under_dtype_policy(self._policy):
            encoder = SentenceEncoder(
                self._pretrained,
                max_length=self._max_length,
                randomly_initialized=encoder_seed is not None,
                seed=encoder_seed or 0,
            )
        labelled = {}
        for split, examples in self._examples.items():
            texts, counts = [example.texts for example in examples], None
            if self._task.texts_have_units:
                units = [[text.split("\n") for text in example] for example in texts]
                counts = np.array([list(map(len, example)) for example in units])
                texts = [
                    (unit,) for example in units for text in example for unit in text
                ]
            vectors = stored_vectors(
                encoder,
                texts,
                folder / split,
                self._row_texts,
                title=f"{self.name}, {split}{title}",
                report=self._report,
            )
            if counts is not None:
                vectors = _means(vectors[:, 0], counts)
            labelled[split] = Labelled(
                combine_vectors(self._settings.features, vectors),
                np.array([example.label for example in examples], np.int32),
            )
        self._last = (encoder_seed, labelled)
        return labelled

    def _scores(self, split: str, predictions: np.ndarray) -> dict[str, float]:
        labels = [example.label for example in self._examples[split]]
        prefix = "" if split == "dev" else f"{split}_"
        computed = metrics.compute(self._task, labels, predictions)
        return {prefix + name: value for name, value in computed.items()}


# === Vectors ===


def stored_vectors(
    encoder: SentenceEncoder,
    examples: Sequence[tuple[str, ...]],
    folder: pathlib.Path,
    row_texts: int = 1,
    *,
    title: str = "vectors",
    report: Callable[[str], Any] = print,
    rows_of_part: int = _ROWS_OF_PART,
) -> np.ndarray:
    """Returns the vector of every text of every example, stored in a folder.

    Rows that occur several times are encoded once. If several processes ask for the
    same vectors, one computes them and the others wait.

    Args:
        encoder: the encoder.
        examples: at least one example; all have the same number of texts.
        folder: folder of the vectors of these examples.
        row_texts: T: 1, or the number of texts of an example.
        title: title of the progress bar.
        report: called with a line of text if rows were cut.
        rows_of_part: rows per file. A killed job repeats less than that.

    Returns:
        float32 array `(E, N, D)`.

    Raises:
        ValueError: if the folder contains different vectors.
    """
    rows = [
        example[begin : begin + row_texts]
        for example in examples
        for begin in range(0, len(example), row_texts)
    ]
    numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    texts_checksum = hashlib.sha256()
    for row in numbers:
        texts_checksum.update(json.dumps(row).encode() + b"\n")
    settings = {
        "format_version": _FORMAT_VERSION,
        "num_rows": len(numbers),
        "rows_of_part": rows_of_part,
        "row_texts": row_texts,
        "texts_sha256": texts_checksum.hexdigest(),
        **encoder.describe(),
    }
    unique = list(numbers)
    parts = {
        folder / f"part-{number:05d}.npy": unique[begin : begin + rows_of_part]
        for number, begin in enumerate(range(0, len(unique), rows_of_part))
    }
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder):
        path = folder / SETTINGS_FILE
        if not path.exists():
            files.write_json(path, settings)
        elif differences := differing_settings(files.read_json(path), settings):
            raise ValueError(
                f"`folder` contains vectors computed with different settings: {folder}."
                f" They differ in {'; '.join(differences)}. Choose another folder, or "
                "remove that one"
            )
        missing = {path: rows for path, rows in parts.items() if not path.exists()}
        if missing:
            files.remove_leftovers(folder)
            num_encoded, total_cut = sum(map(len, missing.values())), 0
            with command_line.progress_bar(len(unique), title, " rows") as bar:
                bar.update(len(unique) - num_encoded)
                for path, part in missing.items():
                    vectors, num_cut = encoder.encode_rows(part, on_progress=bar.update)
                    total_cut += num_cut
                    with files.written_aside(path) as unfinished:
                        np.save(unfinished, vectors)
            if total_cut:
                report(
                    f"Longer than a row, so that texts were cut: {total_cut:,} of "
                    f"{num_encoded:,} rows encoded now"
                )
        row_vectors = np.concatenate([np.load(path) for path in parts])
    if len(row_vectors) != len(unique):
        raise ValueError(
            f"`folder` must contain vectors of {len(unique):,} rows. Received: "
            f"{folder}, with {len(row_vectors):,}. Remove it to compute them again"
        )
    vectors = row_vectors[[numbers[row] for row in rows]]
    return vectors.reshape(len(examples), len(examples[0]), -1)


def _means(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Means over the units of each text.

    Args:
        vectors: float array `(U, D)`, the units of all texts in order.
        counts: int array `(E, N)`, units of each text, at least one.

    Returns:
        Float array `(E, N, D)`.
    """
    starts = np.cumsum(counts.reshape(-1)) - counts.reshape(-1)
    sums = np.add.reduceat(vectors, starts, axis=0).reshape(*counts.shape, -1)
    return sums / counts[:, :, np.newaxis].astype(vectors.dtype)


# === Probes ===


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Features of examples, float32 `(examples, features)`, and integer labels."""

    features: np.ndarray
    labels: np.ndarray


@dataclasses.dataclass(frozen=True)
class TrainedProbe:
    """A probe and its training.

    Attributes:
        model: the probe, with the weights that were best on dev.
        l2: strength of its penalty.
        dev_accuracy: the best accuracy on dev.
        accuracies: accuracy of each evaluation on dev.
        losses: mean loss, with the penalty, of the passes before each evaluation.
    """

    model: keras.Model
    l2: float
    dev_accuracy: float
    accuracies: tuple[float, ...]
    losses: tuple[float, ...]


def make_probe(
    num_features: int, num_classes: int, hidden_size: int, l2: float, seed: int
) -> keras.Model:
    """A compiled Keras model: logistic regression, or with a hidden layer of sigmoids.

    Kernels and biases start uniformly below 1 / sqrt(inputs), as in PyTorch. The
    penalty is l2 / 2 times the sum of squares of both, whose gradient is the weight
    decay of PyTorch's Adam.

    Args:
        num_features: number of inputs.
        num_classes: number of outputs, which are logits.
        hidden_size: width of the hidden layer; 0 for none.
        l2: strength of the penalty.
        seed: seed of the initial weights.
    """

    def dense(inputs: int, units: int, activation: str | None, name: str) -> Any:
        bound = 1 / math.sqrt(inputs)
        initializer = keras.initializers.RandomUniform(-bound, bound)
        return keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=initializer,
            bias_initializer=initializer.clone(),
            kernel_regularizer=keras.regularizers.L2(l2 / 2),
            bias_regularizer=keras.regularizers.L2(l2 / 2),
            dtype="float32",  # for any precision of the encoder
            name=name,
        )

    with seeded(seed):
        layers = [keras.Input((num_features,))]
        if hidden_size:
            layers.append(dense(num_features, hidden_size, "sigmoid", "hidden"))
        layers.append(
            dense(hidden_size or num_features, num_classes, None, "classifier")
        )
        probe = keras.Sequential(layers, name="probe")
    probe.compile(
        keras.optimizers.Adam(_LEARNING_RATE, epsilon=_EPSILON),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    return probe


def predict(model: keras.Model, features: np.ndarray) -> np.ndarray:
    """The label with the largest logit for each example."""
    return np.argmax(model(tf.constant(features)), axis=1)


def train_probe(
    train: Labelled,
    dev: Labelled,
    num_classes: int,
    settings: ProbeSettings,
    seed: int,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> list[TrainedProbe]:
    """Trains a probe with each of the settings' `l2`, with early stopping on dev.

    All start from the same weights and see the examples in the same order, as in the
    benchmark's code.

    Args:
        train: training data, in a new order in each pass.
        dev: data for early stopping.
        num_classes: number of labels.
        settings: the protocol.
        seed: seed of initial weights and orders.
        callbacks: Keras callbacks. They are called as if all probes were one training
            with an epoch for each evaluation, and `loss`, `dev_accuracy` and `l2` in
            the logs. They cannot stop it.

    Returns:
        Trained probes, the best first; among equally good ones, in the order of `l2`.
    """
    models = [
        make_probe(train.features.shape[1], num_classes, settings.hidden_size, l2, seed)
        for l2 in settings.l2
    ]
    num_batches = -(-len(train.labels) // settings.batch_size)
    listeners = keras.callbacks.CallbackList(
        list(callbacks),
        model=models[0],
        epochs=max_evaluations(settings),
        steps=num_batches * settings.passes_per_evaluation,
        verbose=0,
    )
    epochs = itertools.count()
    listeners.on_train_begin()
    trained, best_weights = [], []
    for model, l2 in zip(models, settings.l2, strict=True):
        listeners.set_model(model)
        train_pass = pass_function(model, train, settings.batch_size)
        generator = np.random.default_rng(seed)
        losses, accuracies, weights = [], [], []
        num_passes = num_failures = 0
        while num_passes <= settings.max_passes and num_failures <= settings.tenacity:
            epoch = next(epochs)
            listeners.on_epoch_begin(epoch)
            pass_losses = [
                train_pass(generator.permutation(len(train.labels)))
                for _ in range(settings.passes_per_evaluation)
            ]
            num_passes += settings.passes_per_evaluation
            losses.append(float(np.mean(pass_losses)))
            accuracy = float(np.mean(predict(model, dev.features) == dev.labels))
            if accuracy > max(accuracies, default=-1.0):
                weights = model.get_weights()
            else:
                # In total: an improvement in between does not reset the count.
                num_failures += 1
            accuracies.append(accuracy)
            logs = {"loss": losses[-1], "dev_accuracy": accuracy, "l2": l2}
            listeners.on_epoch_end(epoch, logs)
        best_weights.append(weights)
        trained.append(
            TrainedProbe(model, l2, max(accuracies), tuple(accuracies), tuple(losses))
        )
    listeners.on_train_end()
    # Last, because a callback may have set other weights.
    for probe, weights in zip(trained, best_weights, strict=True):
        probe.model.set_weights(weights)
    return sorted(trained, key=lambda probe: -probe.dev_accuracy)


def max_evaluations(settings: ProbeSettings) -> int:
    """Maximum number of evaluations on dev, over all strengths of the penalty."""
    # The last one follows passes that started when `max_passes` had been made.
    per_strength = settings.max_passes // settings.passes_per_evaluation + 1
    return per_strength * len(settings.l2)


def pass_function(
    probe: keras.Model, examples: Labelled, batch_size: int
) -> Callable[[np.ndarray], float]:
    """Makes a function that trains a probe on all examples once.

    A pass is one graph. `fit` calls a graph for each batch, which takes ten times as
    long with so small a model.

    Args:
        probe: a result of `make_probe`.
        examples: the training data.
        batch_size: examples per update; the last one may have fewer.

    Returns:
        Function from the order of the examples to the mean loss of the updates, with
        the penalty.
    """
    features, labels = tf.constant(examples.features), tf.constant(examples.labels)
    count = len(examples.labels)
    optimizer = probe.optimizer
    optimizer.build(probe.trainable_variables)

    def make_pass(order: tf.Tensor) -> tf.Tensor:
        total = tf.constant(0.0)
        for begin in tf.range(0, count, batch_size):
            numbers = order[begin : begin + batch_size]
            with tf.GradientTape() as tape:
                logits = probe(tf.gather(features, numbers), training=True)
                loss = probe.compute_loss(y=tf.gather(labels, numbers), y_pred=logits)
            gradients = tape.gradient(loss, probe.trainable_variables)
            optimizer.apply(gradients, probe.trainable_variables)
            total += loss
        return total / -(-count // batch_size)

    # Concrete, because TensorFlow takes several functions made of the same lines for
    # one that is compiled again and again, and warns.
    signature = [tf.TensorSpec([count], tf.int64)]
    compiled = tf.function(make_pass, signature).get_concrete_function()
    return lambda order: float(compiled(tf.constant(order, tf.int64)))
