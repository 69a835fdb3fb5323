"""The learner: an encoder with its objectives and optimizer, which a run updates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from seg_tf.objectives.base import Objective
from seg_tf.training import engine
from seg_tf.training.errors import NonFiniteSteps
from seg_tf.training.step import (
    Features,
    NoMemory,
    Results,
    StepOptions,
    named_pairs,
    pack_sums,
)

_GRADIENT_NORM = "gradient_norm"
# Feature of a batch that says whether this process asks to stop.
_STOP_REQUEST = "stop_request"


class Sums:
    """Numerators and denominators of metrics, added up in float64.

    float32 stops counting single predictions at 2**24, which a validation reaches.

    Args:
        names: names of the N metrics.

    Attributes:
        variable: float64 `(N, 2)`.
    """

    def __init__(self, names: Iterable[str]):
        self.names = list(names)
        self.variable = _counter([len(self.names), 2])

    def add(self, numbers: Any) -> None:
        """Adds `(2 * N,)` numbers: a numerator, then its denominator, per metric."""
        self.variable.assign_add(ops.reshape(ops.cast(numbers, "float64"), (-1, 2)))

    def reset(self) -> None:
        self.variable.assign(np.zeros(self.variable.shape))

    def ratios(self) -> dict[str, Any]:
        """Numerator over denominator of each metric; 0 where nothing was counted."""
        numerators, denominators = ops.convert_to_numpy(self.variable).T
        counted = denominators != 0
        ratios = np.divide(
            numerators, denominators, out=np.zeros_like(numerators), where=counted
        )
        return dict(zip(self.names, ratios, strict=True))


class StartedStep(NamedTuple):
    """A step that the device may still be computing.

    Attributes:
        features: the batch.
        finite: whether loss and gradient are finite. If not, no weight has changed.
        stop_requests: number of processes that ask to stop, `(1,)`.
    """

    features: Features
    finite: Any
    stop_requests: Any


class Learner:
    """Trains an encoder on the weighted sum of its objectives' losses.

    Objectives return sums and weights. A sum is divided by its weight in the training
    step, for the gradient, and in the results of many batches, which are ratios of
    sums and never means of means. All results are those of the global batches, on
    every process.

    An update is made from the first batch whose loss and gradient are finite; other
    batches are skipped. The device computes one update while the host starts the next
    one, so the outcome of an update is read one call later, or by `finish_update`.

    Args:
        encoder: layer from a batch of features to a sequence `(B, L, D)`. An encoder
            with memory also returns the memory for the next batch.
        objectives: `seg_tf.objectives.base.Objective`s by name.
        optimizer: a Keras optimizer without clipping.
        features: a batch with the shapes of training, from which all variables are
            created. Its values do not matter.
        options: options of the training step.
        max_skipped_steps: greatest number of consecutive skipped batches.
        memory: the encoder's memory between training steps.
        validation_memory: its memory between the batches of a validation.

    Attributes:
        stop_requested: function that tells whether this process asks to stop.
        stop_agreed: whether any process asked to stop, as of the last update or
            validation batch that all processes have finished.
        stop_training: set by a Keras callback to end the run.

    Raises:
        ValueError: if there is no objective.
    """

    def __init__(
        self,
        encoder: keras.layers.Layer,
        objectives: Mapping[str, Objective],
        optimizer: keras.optimizers.Optimizer,
        features: Features,
        *,
        options: StepOptions | None = None,
        max_skipped_steps: int = 20,
        memory: NoMemory | None = None,
        validation_memory: NoMemory | None = None,
    ):
        if not objectives:
            raise ValueError(
                "`objectives` must name at least one objective. "
                f"Received: objectives={dict(objectives)}"
            )
        self.encoder = encoder
        self.objectives = dict(objectives)
        self.optimizer = optimizer
        self.options = options or StepOptions()
        self.memory = memory or NoMemory()
        self.stop_requested: Callable[[], bool] = bool  # False
        self.stop_agreed = False
        self.stop_training = False
        self._validation_memory = validation_memory or NoMemory()
        self._max_skipped_steps = max_skipped_steps
        self._in_flight: StartedStep | None = None
        self._engine = engine.current()
        # A validation may measure more than training does.
        validation_names = self._engine.traced(
            lambda rows: _names(self._forward(rows, False)[0]), features
        )
        with keras.StatelessScope():  # drops the state that dropout leaves
            training_names = self._engine.traced(
                lambda rows: _names(self._forward(rows, True)[0]), features
            )
        self._interval = Sums([*training_names, _GRADIENT_NORM])
        self._validation = Sums(validation_names)
        # Samples, tokens and skipped steps of the whole run.
        self._totals = _counter([3])
        self._learning_rate = _counter([])
        self._row_length = features["padding_mask"].shape[1]
        optimizer.build(self.trainable_variables)
        self._step = self._engine.step_class(
            lambda rows: self._forward(rows, True),
            self.objectives,
            self.trainable_variables,
            self.random_states,
            optimizer,
            num_sums=2 * len(training_names),
            options=self.options,
        )
        self._compiled_step = self._compiled(self.train_step)
        self._compiled_validation = self._compiled(self.validation_step, rows_vary=True)

    # --- Variables ------------------------------------------------------------------

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Weights of the encoder, then those that only the objectives have."""
        return self._unique("trainable_variables")

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of encoder and objectives, states of dropout among them."""
        return self._unique("variables")

    @property
    def random_states(self) -> list[keras.Variable]:
        """States of the generators of dropout, which every step sets anew."""
        return [v for v in self.variables if v.path.endswith("seed_generator_state")]

    @property
    def counters(self) -> list[keras.Variable]:
        """Sums, totals and learning rate, which checkpoints contain."""
        return [self._interval.variable, self._totals, self._learning_rate]

    def _unique(self, attribute: str) -> list[keras.Variable]:
        found: dict[int, keras.Variable] = {}
        for layer in (self.encoder, *self.objectives.values()):
            for variable in getattr(layer, attribute):
                found.setdefault(id(variable), variable)
        return list(found.values())

    def _changing_variables(self) -> list[Any]:
        """All variables that a step or a validation reads or assigns."""
        return [
            *self.variables,
            *self.optimizer.variables,
            *self.counters,
            self._validation.variable,
            *self.options.loss_scale.variables,
            *self.memory.variables,
            *self._validation_memory.variables,
        ]

    # --- Updates --------------------------------------------------------------------

    def start_update(self, next_batch: Callable[[], Features]) -> None:
        """Starts an update, then makes sure of the one before.

        Args:
            next_batch: reads a batch.

        Raises:
            NonFiniteSteps: if too many consecutive batches had to be skipped.
        """
        before, started = self._in_flight, self._start(next_batch)
        if before is not None and not before.finite:
            # The step that was just started takes the place of the skipped one.
            self._check_skipped(1, before)
            before = self._first_update(started, next_batch, skipped=1)
            started = self._start(next_batch)
        self._in_flight = started
        if before is not None:
            self._note_stop_requests(before.stop_requests)

    def finish_update(self, next_batch: Callable[[], Features]) -> None:
        """Waits for the update that was started; every process calls it.

        Raises:
            NonFiniteSteps: as `start_update`.
        """
        step, self._in_flight = self._in_flight, None
        if step is not None:
            step = self._first_update(step, next_batch)
            self._note_stop_requests(step.stop_requests)

    def make_update(self, batches: Iterator[Features]) -> None:
        """Makes one update from the next batches and waits for it.

        Raises:
            NonFiniteSteps: as `start_update`.
        """
        self.start_update(lambda: next(batches))
        self.finish_update(lambda: next(batches))

    def train_step(self, features: Features) -> tuple[Any, Any]:
        """One step from one batch; returns (finite, number of stop requests)."""
        features, stop_request = _without_stop_request(features)
        result = self._step(features, self.memory.read(features), stop_request)
        self.memory.write(features, result.memory)
        finite = ops.cast(result.finite, "float64")
        # Numbers that are not finite must not be added, not even times 0.
        sums = ops.where(result.finite, result.sums, ops.zeros_like(result.sums))
        norm = ops.where(result.finite, result.gradient_norm, 0.0)
        norm = ops.stack([ops.cast(norm, "float64"), finite])
        self._interval.add(ops.concatenate([sums, norm]))
        counts = (result.rows, result.tokens, 1.0 - finite)
        self._totals.assign_add(ops.stack([ops.cast(n, "float64") for n in counts]))
        self._learning_rate.assign(ops.cast(result.learning_rate, "float64"))
        return result.finite, result.stop_requests

    def _start(self, next_batch: Callable[[], Features]) -> StartedStep:
        features = next_batch()
        return StartedStep(features, *self._compiled_step(self._with_request(features)))

    def _first_update(
        self,
        step: StartedStep,
        next_batch: Callable[[], Features],
        skipped: int = 0,
    ) -> StartedStep:
        """Waits for a step, and makes further ones until one is finite."""
        while not step.finite:
            skipped += 1
            self._check_skipped(skipped, step)
            step = self._start(next_batch)
        return step

    def _check_skipped(self, skipped: int, step: StartedStep) -> None:
        if skipped <= self._max_skipped_steps:
            return
        samples = self._samples_without_finite_loss(step.features)
        raise NonFiniteSteps(skipped, self.options.distribution.gather(samples))

    def _samples_without_finite_loss(self, features: Features) -> list[int]:
        """Numbers of the samples of a batch whose own loss is not finite."""
        sums = self._compiled(
            lambda rows: pack_sums(
                self._forward({**rows, **self.memory.read(rows)}, False)[0]
            ),
            rows_vary=True,
        )
        features = self._engine.rows_to_try(features)
        found = []
        for number, sample in enumerate(np.asarray(features["sample_number"]).tolist()):
            row = {name: value[number : number + 1] for name, value in features.items()}
            if not np.all(np.isfinite(sums(row))):
                found.append(sample)
        return found

    # --- Validation -----------------------------------------------------------------

    def validate(self, features: Features) -> None:
        """Adds the results of one batch to those of the validation."""
        stop_requests = self._compiled_validation(self._with_request(features))
        self._note_stop_requests(stop_requests)

    def validation_step(self, features: Features) -> Any:
        """Measures one batch; returns the number of stop requests."""
        features, stop_request = _without_stop_request(features)
        memory = self._validation_memory
        results, after = self._forward({**features, **memory.read(features)}, False)
        memory.write(features, after)
        sums, stop_requests = self.options.distribution.sum(
            [pack_sums(results), stop_request], "validation"
        )
        self._validation.add(sums)
        return stop_requests

    def take_validation_results(self) -> dict[str, float]:
        """Results of the batches validated so far, which are then forgotten."""
        results = self._with_total(self._validation.ratios())
        self._validation.reset()
        return results

    # --- Results --------------------------------------------------------------------

    @property
    def updates(self) -> int:
        """Updates made."""
        return int(self.optimizer.iterations)

    @property
    def samples(self) -> int:
        """Samples of the input order that were read, skipped ones included."""
        return int(self._totals[0])

    @property
    def tokens(self) -> int:
        """Tokens read, without padding."""
        return int(self._totals[1])

    @property
    def skipped_steps(self) -> int:
        """Batches that were skipped because loss or gradient was not finite."""
        return int(self._totals[2])

    @property
    def learning_rate(self) -> float:
        """Learning rate of the last step."""
        return float(self._learning_rate)

    @property
    def padding_share(self) -> float:
        """Share of the positions of all training batches that were padding."""
        positions = self.samples * self._row_length
        return 1 - self.tokens / positions if positions else 0.0

    def interval_results(self) -> dict[str, float]:
        """Results of the training batches since `reset_interval`."""
        return self._with_total(self._interval.ratios())

    def reset_interval(self) -> None:
        self._interval.reset()

    def _with_total(self, results: Mapping[str, Any]) -> dict[str, float]:
        """Adds metrics that objectives derive from results, and the total `loss`."""
        results, loss = dict(results), 0.0
        for name, objective in self.objectives.items():
            prefix = f"{name}_"
            own = {
                # Arrays, as Keras would make float32 of Python's floats.
                metric.removeprefix(prefix): np.asarray(value)
                for metric, value in results.items()
                if metric.startswith(prefix)
            }
            if "loss" in own:
                loss += objective.loss_weight * results[f"{name}_loss"]
            if own and hasattr(objective, "derived_metrics"):
                for metric, value in objective.derived_metrics(own).items():
                    results[f"{prefix}{metric}"] = value
        return {name: float(value) for name, value in {"loss": loss, **results}.items()}

    # --- Calls of the model ---------------------------------------------------------

    def encode(
        self, features: Features, training: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        """The encoder's sequence output, and its memory for the next batch."""
        output = self.encoder(features, training=training)
        return output if isinstance(output, tuple) else (output, {})

    def _forward(
        self, features: Features, training: bool
    ) -> tuple[Results, dict[str, Any]]:
        sequence_output, memory = self.encode(features, training)
        results = {
            name: objective(sequence_output, features, training=training)
            for name, objective in self.objectives.items()
        }
        return results, memory

    def _compiled(
        self, function: Callable[[Features], Any], rows_vary: bool = False
    ) -> Callable[..., Any]:
        return self._engine.compiled(function, self._changing_variables, rows_vary)

    def _with_request(self, features: Features) -> Features:
        """The batch with this process's stop request, once per device.

        Variables cannot hold it: where several processes compute one step, variables
        are the same on all of them.
        """
        rows, request = self._engine.num_request_rows(), float(self.stop_requested())
        return {**features, _STOP_REQUEST: np.full([rows, 1], request)}

    def _note_stop_requests(self, stop_requests: Any) -> None:
        self.stop_agreed = bool(np.asarray(stop_requests)[0] > 0)


def _without_stop_request(features: Features) -> tuple[dict[str, Any], Any]:
    """A batch without its stop requests, and their sum; 0 where it has none."""
    others = dict(features)
    request = others.pop(_STOP_REQUEST, np.zeros([1, 1]))
    return others, ops.sum(ops.convert_to_tensor(request), axis=0)


def _counter(shape: Sequence[int]) -> keras.Variable:
    return keras.Variable(np.zeros(shape), dtype="float64", trainable=False)


def _names(results: Results) -> list[str]:
    return [name for name, _ in named_pairs(results)]
