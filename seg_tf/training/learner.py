"""The learner: an encoder with its objectives and optimizer, which a run updates."""

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

# Feature of a batch that says whether this process asks to stop.
_STOP_REQUEST = "stop_request"


class Sums:
    """Numerators and denominators of N metrics: a variable, float64 `(N, 2)`.

    float32 stops counting single predictions at 2**24, which a validation reaches.
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
        ratios = np.divide(
            numerators,
            denominators,
            out=np.zeros_like(numerators),
            where=denominators != 0,
        )
        return dict(zip(self.names, ratios, strict=True))


class Learner:
    """Trains an encoder on the weighted sum of its objectives' losses.

    Results of many batches are ratios of sums, and the same on every process.

    An update is made from the first batch whose loss and gradient are finite; other
    batches are skipped. The device computes one update while the host starts the next
    one, so the outcome of an update is read one call later, or by `finish_update`.

    Args:
        encoder: layer from a batch of features to a sequence `(B, L, D)`, and with
            memory also to the memory for the next batch.
        objectives: `seg_tf.objectives.base.Objective`s by name.
        optimizer: a Keras optimizer without clipping.
        features: a batch with the shapes of training; its values do not matter.
        options: options of the training step.
        max_skipped_steps: greatest number of consecutive skipped batches.
        memory: the encoder's memory between training steps.
        validation_memory: its memory between the batches of a validation.

    Attributes:
        stop_requested: function that tells whether this process asks to stop.
        stop_agreed: whether any process asked to stop, as of the last update or
            validation batch that all processes have finished.
        stop_training: set by a Keras callback to end the run.
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
        # A step that the device may still be computing: whether it is finite, and the
        # number of processes that ask to stop.
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
        with keras.StatelessScope():  # drops the state that dropout leaves
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
        """Weights of the encoder, then those that only the objectives have."""
        return self._unique("trainable_variables")

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of encoder and objectives, with the states of dropout."""
        return self._unique("variables")

    @property
    def random_states(self) -> list[keras.Variable]:
        """States of the generators of dropout, which every step sets."""
        return [v for v in self.variables if v.path.endswith("seed_generator_state")]

    @property
    def counters(self) -> list[keras.Variable]:
        """Sums, totals and learning rate, which checkpoints contain."""
        return [self._interval.variable, self._totals, self._learning_rate]

    def _unique(self, attribute: str) -> list[keras.Variable]:
        variables: dict[int, keras.Variable] = {}
        for layer in (self.encoder, *self.objectives.values()):
            for variable in getattr(layer, attribute):
                variables.setdefault(id(variable), variable)
        return list(variables.values())

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
        """Starts an update, then waits for the one before.

        Raises:
            NonFiniteLossError: if too many consecutive batches had to be skipped.
        """
        before, self._in_flight = self._in_flight, self._start(next_batch)
        if before is not None and not self._is_update(*before):
            # The step that was just started replaces the skipped one.
            self.finish_update(next_batch)
            self._in_flight = self._start(next_batch)

    def finish_update(self, next_batch: Callable[[], Features]) -> None:
        """Waits for the update that was started; every process calls it."""
        step, self._in_flight = self._in_flight, None
        while step is not None and not self._is_update(*step):
            step = self._start(next_batch)

    def make_update(self, batches: Iterator[Features]) -> None:
        """Makes one update from the next batches and waits for it."""
        self.start_update(lambda: next(batches))
        self.finish_update(lambda: next(batches))

    def train_step(self, features: Features) -> tuple[Any, Any]:
        """One step from one batch; returns (finite, number of stop requests)."""
        features, stop_request = _pop_stop_request(features)
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

    def _start(self, next_batch: Callable[[], Features]) -> tuple[Any, Any]:
        features = next_batch()
        self.memory.own(features)
        step: tuple[Any, Any] = self._compiled_step(self._with_request(features))
        return step

    def _is_update(self, finite: Any, stop_requests: Any) -> bool:
        """Waits for a step; False if it was skipped."""
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
        """Measures one batch; returns the number of stop requests."""
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
        """Returns the results of the batches validated so far, and resets them."""
        results = self._with_total(self._validation.ratios())
        self._validation.reset()
        return results

    # --- Results --------------------------------------------------------------------

    @property
    def updates(self) -> int:
        return int(self.optimizer.iterations)

    @property
    def samples(self) -> int:
        """Samples of the input order that were read, including skipped ones."""
        return int(self._totals[0])

    @property
    def tokens(self) -> int:
        """Tokens read, without padding."""
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
            metrics = {
                # Arrays, as Keras would convert Python's floats to float32.
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
        """Results of the objectives, and the memory for the next batch."""
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
        """The batch with this process's stop request, once per device.

        Variables cannot hold it: if several processes compute one step, they have the
        same variables.
        """
        rows, request = self._engine.num_request_rows(), float(self.stop_requested())
        return {**features, _STOP_REQUEST: np.full([rows, 1], request)}

    def _note_stop_requests(self, stop_requests: Any) -> None:
        self.stop_agreed = bool(np.asarray(stop_requests)[0] > 0)


def _pop_stop_request(features: Features) -> tuple[dict[str, Any], Any]:
    """A batch without its stop requests, and their sum; 0 if it has none."""
    features = dict(features)
    request = features.pop(_STOP_REQUEST, np.zeros([1, 1]))
    return features, ops.sum(ops.convert_to_tensor(request), axis=0)


def _counter(shape: Sequence[int]) -> keras.Variable:
    return keras.Variable(np.zeros(shape), dtype="float64", trainable=False)
