"""Trains DiscoEval's probes (Chen et al., 2019) on vectors of a frozen encoder.

Shape key: E examples, N texts per example, D width.
"""

import dataclasses
import math
import pathlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf import command_line, tasks
from seg_tf.checkpoints.encoder_copies import seeded
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.trials import DEV, Callbacks, Result, Trial
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.layers.common import under_dtype_policy
from seg_tf.tasks import Task, task
from seg_tf.tasks.discoeval import ProbeSettings, combine_vectors, settings_of
from seg_tf.tasks.finetuning_settings import Recipe

PER_SENTENCE, JOINT = "per_sentence", "joint"
MODES = (PER_SENTENCE, JOINT)
# Defaults of PyTorch's Adam, which the benchmark's code uses.
_LEARNING_RATE = 1e-3
_EPSILON = 1e-8


def probe_recipe(task: Task | str) -> Recipe:
    """Returns the recipe of a task's probe, which has a single setting.

    `epochs` is the maximum number of evaluations on dev, summed over all L2 penalties.
    Raises a ValueError if the task is not part of DiscoEval.
    """
    settings = settings_of(tasks.get(task))
    return Recipe(
        learning_rates=(_LEARNING_RATE,),
        batch_sizes=(settings.batch_size,),
        epochs=(settings.max_evaluations * len(settings.l2),),
    )


class ProbeRunner:
    """A `TaskRunner` that trains DiscoEval's probe on vectors of a frozen encoder.

    The first trial encodes the texts, and later trials reuse the vectors. If
    `randomly_initialized` is True, each trial encodes with new random weights.
    `seg_tf.tasks.discoeval.ProbeSettings` sets all hyperparameters. The test split may
    be missing. The probe is float32. `dtype_policy` applies to the encoder.

    In `mode` "per_sentence", each text has a separate row, as in DiscoEval's code. In
    "joint", the texts of an example share a row, in which they attend to each other.
    Raises a ValueError for "joint" if the model is not an SLM or ReAT, and if the task
    is not part of DiscoEval. Other arguments are as for `ClassificationRunner`.
    """

    main_metric = "accuracy"

    def __init__(
        self,
        pretrained: Pretrained,
        task: Task | str,
        data_dir: str | pathlib.Path,
        *,
        mode: str = PER_SENTENCE,
        randomly_initialized: bool = False,
        max_length: int | None = None,
        dtype_policy: str | None = None,
        limit: int | None = None,
        report: Callable[[str], Any] = print,
    ):
        self._task = tasks.get(task)
        self._settings = settings_of(self._task)
        self.name = self._task.name
        self._row_texts = 1 if mode == PER_SENTENCE else self._task.num_texts
        layout = pretrained.layout(max_length)
        if self._row_texts > 1 and not layout.vectors_per_text:
            raise ValueError(
                f'`mode` must be "{PER_SENTENCE}" for a model without a token for '
                f"each text of a row; SLM and ReAT have one. Received: {mode!r} for "
                f"{pretrained.folder}, the run {pretrained.config.name!r}"
            )
        layout.readout(self._row_texts)  # raises if the texts do not fit
        self._examples = {"train": tasks.read(self._task, data_dir, "train")[:limit]}
        self._examples["dev"] = tasks.read(self._task, data_dir, "dev")
        try:
            self._examples["test"] = tasks.read(self._task, data_dir, "test")
        except FileNotFoundError as error:
            report(f"No scores of {self.name} on test: {error}")
        self._labels = {
            split: np.array([example.label for example in examples], np.int32)
            for split, examples in self._examples.items()
        }
        self._pretrained, self._max_length = pretrained, max_length
        self._policy = dtype_policy
        self._randomly_initialized = randomly_initialized
        self._report = report
        self._features: dict[int | None, Mapping[str, np.ndarray]] = {}
        self.num_examples = len(self._examples["train"])
        ((majority, _),) = Counter(sorted(self._labels["train"])).most_common(1)
        constant: dict[str, float] = {}
        for split in [*self._examples][1:]:
            predictions = np.full(len(self._labels[split]), majority)
            constant |= self._scores(split, predictions)
        self.baselines = {"without a model": constant}

    def describe(self) -> dict[str, Any]:
        """Returns the checksum of each split's examples, by split name."""
        return {
            split: tasks.checksum(examples)
            for split, examples in self._examples.items()
        }

    def run(
        self, trial: Trial, folder: pathlib.Path, callbacks: Callbacks = ()
    ) -> Result:
        """Runs a trial and writes `<split>_predictions.tsv` for dev and test.

        The trial's setting and `callbacks` are ignored. The scores are the dev
        `accuracy`, `test_accuracy` if there is a test split, and the chosen penalty
        `l2`. There is one log entry per evaluation on dev.
        """
        features = self._encode(trial.seed if self._randomly_initialized else None)
        probes = train_probes(
            (features["train"], self._labels["train"]),
            (features["dev"], self._labels["dev"]),
            len(self._task.labels),
            self._settings,
            trial.seed,
        )
        best = max(probes, key=lambda probe: max(probe.accuracies))
        scores: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for split in [*self._examples][1:]:
            predictions = predict(best.model, features[split])
            scores |= self._scores(split, predictions)
            path = folder / f"{split}_predictions.tsv"
            tasks.write_predictions(
                path, self._task, self._examples[split], predictions
            )
        logs = [
            {"l2": probe.l2, DEV + "accuracy": accuracy}
            for probe in probes
            for accuracy in probe.accuracies
        ]
        return {**scores, "l2": best.l2}, logs

    def _encode(self, encoder_seed: int | None) -> Mapping[str, np.ndarray]:
        """Returns float inputs `(E, features)` of the probe by split, and caches them.

        `encoder_seed` seeds random weights. If None, the checkpoint's weights are used.
        """
        if encoder_seed in self._features:
            return self._features[encoder_seed]
        with under_dtype_policy(self._policy):
            encoder = SentenceEncoder(
                self._pretrained,
                max_length=self._max_length,
                randomly_initialized=encoder_seed is not None,
                seed=encoder_seed or 0,
            )
        features = {}
        for split, examples in self._examples.items():
            title = f"{self.name}, {split}"
            texts = [example.texts for example in examples]
            vectors, num_cut = encode_examples(encoder, texts, self._row_texts, title)
            if num_cut:
                self._report(f"{title}: {num_cut:,} long rows were truncated")
            features[split] = combine_vectors(self._settings.features, vectors)
        self._features = {encoder_seed: features}
        return features

    def _scores(self, split: str, predictions: np.ndarray) -> dict[str, float]:
        prefix = "" if split == "dev" else f"{split}_"
        computed = task.compute(self._task, self._labels[split].tolist(), predictions)
        return {prefix + name: value for name, value in computed.items()}


def encode_examples(
    encoder: SentenceEncoder,
    examples: Sequence[tuple[str, ...]],
    row_texts: int = 1,
    title: str = "vectors",
) -> tuple[np.ndarray, int]:
    """Encodes every text of every example as a vector.

    Equal rows are encoded once. `row_texts`, the number of texts per row, is 1 or N.
    Returns a float32 array `(E, N, D)` and the number of distinct truncated rows.
    """
    rows = [
        example[begin : begin + row_texts]
        for example in examples
        for begin in range(0, len(example), row_texts)
    ]
    numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    with command_line.progress_bar(len(numbers), title, " rows") as bar:
        vectors, num_cut = encoder.encode_rows(list(numbers), on_progress=bar.update)
    vectors = vectors[[numbers[row] for row in rows]]
    return vectors.reshape(len(examples), len(examples[0]), -1), num_cut


# === Probes ===


@dataclasses.dataclass(frozen=True)
class Probe:
    """A probe with its best weights on dev, its L2 penalty and all dev accuracies."""

    model: keras.Model
    l2: float
    accuracies: Sequence[float]


def make_probe(
    num_features: int, num_classes: int, hidden_size: int, l2: float, seed: int
) -> keras.Model:
    """Creates a classifier, with a sigmoid hidden layer if `hidden_size` is positive.

    Outputs are logits. Kernels and biases are drawn uniformly within ±1 / sqrt(inputs),
    as in PyTorch. The penalty is `l2 / 2` times the sum of all squared weights. Its
    gradient equals the weight decay of PyTorch's Adam.
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
        probe = keras.Sequential([keras.Input((num_features,))], name="probe")
        if hidden_size:
            probe.add(dense(num_features, hidden_size, "sigmoid", "hidden"))
        width = hidden_size or num_features
        probe.add(dense(width, num_classes, None, "classifier"))
    return probe


def predict(model: keras.Model, features: np.ndarray) -> np.ndarray:
    """Returns the index of the largest logit for each example, `(E,)`."""
    return np.argmax(model(tf.constant(features)), axis=1)


def train_probes(
    train: tuple[np.ndarray, np.ndarray],
    dev: tuple[np.ndarray, np.ndarray],
    num_classes: int,
    settings: ProbeSettings,
    seed: int,
) -> list[Probe]:
    """Trains one probe for each penalty in `settings.l2`, with early stopping on dev.

    `train` and `dev` are pairs of float32 features `(E, features)` and integer labels
    `(E,)`. As in the benchmark's code, the seed determines the initial weights and the
    order of the examples, so both are the same for all probes.
    """
    probes = []
    for l2 in settings.l2:
        num_features = train[0].shape[1]
        model = make_probe(num_features, num_classes, settings.hidden_size, l2, seed)
        batches = shuffled_batches(*train, settings.batch_size, seed)
        stopping = DevStopping(dev, settings)
        model.compile(
            keras.optimizers.Adam(_LEARNING_RATE, epsilon=_EPSILON),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            # One graph call per pass. For such a small model, one call per batch takes
            # several times as long.
            steps_per_execution=len(batches),
            jit_compile=False,
        )
        epochs = settings.max_evaluations * settings.passes_per_evaluation
        model.fit(
            batches, epochs=epochs, shuffle=False, callbacks=[stopping], verbose=0
        )
        model.set_weights(stopping.best_weights)
        probes.append(Probe(model, l2, stopping.accuracies))
    return probes


def shuffled_batches(
    features: np.ndarray, labels: np.ndarray, batch_size: int, seed: int
) -> tf.data.Dataset:
    """Returns a finite dataset of `(features, labels)`, reshuffled in every epoch."""
    generator = np.random.default_rng(seed)
    examples = tf.constant(features), tf.constant(labels)
    orders = tf.data.Dataset.from_generator(
        lambda: iter([generator.permutation(len(labels))]),
        output_signature=tf.TensorSpec([len(labels)], tf.int64),
    )
    dataset = orders.flat_map(tf.data.Dataset.from_tensor_slices).batch(batch_size)
    dataset = dataset.map(
        lambda numbers: tuple(tf.gather(values, numbers) for values in examples)
    )
    num_batches = -(-len(labels) // batch_size)
    return dataset.apply(tf.data.experimental.assert_cardinality(num_batches))


class DevStopping(keras.callbacks.Callback):
    """Callback that evaluates on dev and stops early, as `ProbeSettings` specifies."""

    def __init__(self, dev: tuple[np.ndarray, np.ndarray], settings: ProbeSettings):
        super().__init__()
        self._dev = dev
        self._settings = settings
        self._num_failures = 0
        self.accuracies: list[float] = []
        self.best_weights: list[np.ndarray] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if (epoch + 1) % self._settings.passes_per_evaluation:
            return
        features, labels = self._dev
        accuracy = float(np.mean(predict(self.model, features) == labels))
        if accuracy > max(self.accuracies, default=-1.0):
            self.best_weights = self.model.get_weights()
        else:
            # An improvement does not reset the count.
            self._num_failures += 1
        self.accuracies.append(accuracy)
        self.model.stop_training = self._num_failures > self._settings.tenacity
