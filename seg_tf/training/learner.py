"""Trains an encoder with its objectives and optimizer, update by update."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from seg_tf.objectives.base import Objective
from seg_tf.training import engine
from seg_tf.training.errors import NonFiniteLossError
from seg_tf.training.step import (
    Features,
    LaneMemory,
    Results,
    StepOptions,
    named_pairs,
    pack_sums,
)

# Feature of a batch that is positive if this process requests a stop.
_STOP_REQUEST = "stop_request"


class Sums:
    """Numerators and denominators of N metrics in a float64 variable `(N, 2)`."""

    def __init__(self, names: Iterable[str]):
        self.names = list(names)
        self.variable = _counter([len(self.names), 2])

    def add(self, numbers: Any) -> None:
        """Adds numbers `(2 * N,)`, which are pairs of numerator and denominator."""
        self.variable.assign_add(ops.reshape(ops.cast(numbers, "float64"), (-1, 2)))

    def reset(self) -> None:
        self.variable.assign(np.zeros(self.variable.shape))

    def ratios(self) -> dict[str, Any]:
        """Returns each metric's ratio, or 0 if its denominator is 0."""
        numerators, denominators = ops.convert_to_numpy(self.variable).T
        ratios = np.divide(
            numerators,
            denominators,
            out=np.zeros_like(numerators),
            where=denominators != 0,
        )
        return dict(zip(self.names, ratios, strict=True))


class Learner:
    """Trains an encoder on the weighted sum of its objectives' losses.

    Results over several batches are ratios of sums, identical on all processes. An
    update skips batches whose loss or gradient is not finite. The device computes one
    update while the host starts the next one, so the outcome of an update is read one
    call later, or by `finish_update`.

    Args:
        encoder: layer that maps a batch of features to a sequence `(B, L, D)` and, if
            it has memory, also to the memory for the next batch.
        objectives: dict. One or more `seg_tf.objectives.base.Objective`s by name.
        optimizer: a Keras optimizer without clipping.
        features: a batch with the shapes of training. Its values do not matter.
        options: `StepOptions` of the training step.
        max_skipped_steps: int. Maximum number of consecutive skipped batches.
        memory: `LaneMemory` of the encoder between training steps.
        validation_memory: `LaneMemory` of the encoder between validation batches.

    Attributes:
        stop_requested: function that returns whether this process requests a stop.
        stop_agreed: bool. Whether any process had requested a stop at the last update
            or validation batch that all processes have finished.
        stop_training: bool. Keras callbacks set it to end the run.
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
        memory: LaneMemory | None = None,
        validation_memory: LaneMemory | None = None,
    ):
        if not objectives:
            raise ValueError("`objectives` must name at least one. Received: {}")
        self.encoder = encoder
        self.objectives = dict(objectives)
        self.optimizer = optimizer
        self.options = options or StepOptions()
        self.memory = memory or LaneMemory()
        self.stop_requested: Callable[[], bool] = bool  # False
        self.stop_agreed = False
        self.stop_training = False
        self._validation_memory = validation_memory or LaneMemory()
        self._max_skipped_steps = max_skipped_steps
        # Outcome of a step that the device may still be computing: whether it is
        # finite, and the number of stop requests.
        self._in_flight: tuple[Any, Any] | None = None
        self._skipped = 0  # consecutive steps
        self._engine = engine.current()

        def names(training: bool) -> list[str]:
            return self._engine.traced(
                lambda rows: [
                    name for name, _ in named_pairs(self._forward(rows, training)[0])
                ],
                features,
            )

        # A validation may measure more than training does.
        validation_names = names(training=False)
        with keras.StatelessScope():  # discards changes of dropout state
            training_names = names(training=True)
        self._interval = Sums([*training_names, "gradient_norm"])
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
        """Trainable weights of encoder and objectives, without duplicates."""
        return self._unique("trainable_variables")

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of encoder and objectives, including dropout state."""
        return self._unique("variables")

    @property
    def random_states(self) -> list[keras.Variable]:
        """Seed generator states of dropout layers, which every step sets."""
        return [v for v in self.variables if v.path.endswith("seed_generator_state")]

    @property
    def counters(self) -> list[keras.Variable]:
        """Interval sums, totals and learning rate, which are part of checkpoints."""
        return [self._interval.variable, self._totals, self._learning_rate]

    def _unique(self, attribute: str) -> list[keras.Variable]:
        variables: dict[int, keras.Variable] = {}
        for layer in (self.encoder, *self.objectives.values()):
            for variable in getattr(layer, attribute):
                variables.setdefault(id(variable), variable)
        return list(variables.values())

    def _changing_variables(self) -> list[Any]:
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
        """Starts an update, then waits for the previous one.

        Calls `next_batch` for each batch, including those that replace skipped batches.
        Raises `NonFiniteLossError` if too many consecutive batches had to be skipped.
        """
        before, self._in_flight = self._in_flight, self._start(next_batch)
        if before is not None and not self._is_update(*before):
            # The step that was just started replaces the skipped one.
            self.finish_update(next_batch)
            self._in_flight = self._start(next_batch)

    def finish_update(self, next_batch: Callable[[], Features]) -> None:
        """Waits for the last started update. All processes must call this method.

        If its batch is skipped, tries the next ones. Raises errors like `start_update`.
        """
        step, self._in_flight = self._in_flight, None
        while step is not None and not self._is_update(*step):
            step = self._start(next_batch)

    def make_update(self, batches: Iterator[Features]) -> None:
        """Runs one update, on the next batch with finite results, and waits for it."""
        self.start_update(lambda: next(batches))
        self.finish_update(lambda: next(batches))

    def train_step(self, features: Features) -> tuple[Any, Any]:
        """Runs one step and adds up its results. Returns (finite, stop requests)."""
        features, stop_request = _pop_stop_request(features)
        result = self._step(features, self.memory.read(features), stop_request)
        self.memory.write(features, result.memory)
        finite = ops.cast(result.finite, "float64")
        # Non-finite numbers must not be added, not even multiplied by 0.
        sums = ops.where(result.finite, result.sums, ops.zeros_like(result.sums))
        norm = ops.where(result.finite, result.gradient_norm, 0.0)
        norm = ops.stack([ops.cast(norm, "float64"), finite])
        self._interval.add(ops.concatenate([sums, norm]))
        counts = (result.rows, result.tokens, 1.0 - finite)
        self._totals.assign_add(ops.stack([ops.cast(n, "float64") for n in counts]))
        self._learning_rate.assign(ops.cast(result.learning_rate, "float64"))
        return result.finite, result.stop_requests

    def _start(self, next_batch: Callable[[], Features]) -> tuple[Any, Any]:
        features = next_batch()
        self.memory.own(features)
        step: tuple[Any, Any] = self._compiled_step(self._with_request(features))
        return step

    def _is_update(self, finite: Any, stop_requests: Any) -> bool:
        """Waits for a step. Returns False if its batch was skipped, otherwise True."""
        self._note_stop_requests(stop_requests)
        self._skipped = 0 if finite else self._skipped + 1
        if self._skipped > self._max_skipped_steps:
            raise NonFiniteLossError(f"{self._skipped} steps in a row were not finite")
        return self._skipped == 0

    # --- Validation -----------------------------------------------------------------

    def validate(self, features: Features) -> None:
        """Adds the results of one batch to the validation."""
        stop_requests = self._compiled_validation(self._with_request(features))
        self._note_stop_requests(stop_requests)

    def validation_step(self, features: Features) -> Any:
        """Adds a batch's results to the validation. Returns the stop request count."""
        features, stop_request = _pop_stop_request(features)
        memory = self._validation_memory
        results, after = self._forward({**features, **memory.read(features)}, False)
        memory.write(features, after)
        sums, stop_requests = self.options.distribution.sum(
            [pack_sums(results), stop_request], "validation"
        )
        self._validation.add(sums)
        return stop_requests

    def take_validation_results(self) -> dict[str, float]:
        """Returns the results of all batches validated since the last call."""
        results = self._with_total(self._validation.ratios())
        self._validation.reset()
        return results

    # --- Results --------------------------------------------------------------------

    @property
    def updates(self) -> int:
        return int(self.optimizer.iterations)

    @property
    def samples(self) -> int:
        """Number of samples read, including those of skipped batches."""
        return int(self._totals[0])

    @property
    def tokens(self) -> int:
        """Number of tokens read, without padding."""
        return int(self._totals[1])

    @property
    def skipped_steps(self) -> int:
        return int(self._totals[2])

    @property
    def learning_rate(self) -> float:
        """Learning rate of the last step."""
        return float(self._learning_rate)

    @property
    def padding_share(self) -> float:
        """Fraction of padding among the positions of all training batches."""
        positions = self.samples * self._row_length
        return 1 - self.tokens / positions if positions else 0.0

    def interval_results(self) -> dict[str, float]:
        """Returns the results of the training batches since `reset_interval`."""
        return self._with_total(self._interval.ratios())

    def reset_interval(self) -> None:
        self._interval.reset()

    def _with_total(self, results: Mapping[str, Any]) -> dict[str, float]:
        """Adds the objectives' derived metrics and the total `loss` to results."""
        results, loss = dict(results), 0.0
        for name, objective in self.objectives.items():
            prefix = f"{name}_"
            metrics = {
                # Arrays, because Keras would convert Python floats to float32.
                metric.removeprefix(prefix): np.asarray(value)
                for metric, value in results.items()
                if metric.startswith(prefix)
            }
            if "loss" in metrics:
                loss += objective.loss_weight * results[f"{name}_loss"]
            if metrics and hasattr(objective, "derived_metrics"):
                for metric, value in objective.derived_metrics(metrics).items():
                    results[f"{prefix}{metric}"] = value
        return {name: float(value) for name, value in {"loss": loss, **results}.items()}

    # --- Calls of the model ---------------------------------------------------------

    def _forward(
        self, features: Features, training: bool
    ) -> tuple[Results, dict[str, Any]]:
        """Returns the objectives' results and the memory for the next batch."""
        output = self.encoder(features, training=training)
        sequence, memory = output if isinstance(output, tuple) else (output, {})
        results = {
            name: objective(sequence, features, training=training)
            for name, objective in self.objectives.items()
        }
        return results, memory

    def _compiled(
        self, function: Callable[[Features], Any], rows_vary: bool = False
    ) -> Callable[..., Any]:
        return self._engine.compiled(function, self._changing_variables, rows_vary)

    def _with_request(self, features: Features) -> Features:
        """Adds this process's stop request to a batch, once per device.

        A variable cannot hold the request, because processes that compute a step
        together must have identical variables.
        """
        rows, request = self._engine.num_request_rows(), float(self.stop_requested())
        return {**features, _STOP_REQUEST: np.full([rows, 1], request)}

    def _note_stop_requests(self, stop_requests: Any) -> None:
        self.stop_agreed = bool(np.asarray(stop_requests)[0] > 0)


def _pop_stop_request(features: Features) -> tuple[dict[str, Any], Any]:
    """Returns a batch without its stop requests, and their sum, float64 `(1,)`."""
    features = dict(features)
    request = features.pop(_STOP_REQUEST, np.zeros([1, 1]))
    return features, ops.sum(ops.convert_to_tensor(request), axis=0)


def _counter(shape: Sequence[int]) -> keras.Variable:
    return keras.Variable(np.zeros(shape), dtype="float64", trainable=False)
