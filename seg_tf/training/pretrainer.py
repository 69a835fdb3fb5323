"""The Keras model that pretraining fits: an encoder and its objectives."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from seg_tf.objectives.base import Objective
from seg_tf.training import engine, nonfinite_samples
from seg_tf.training.collective_flags import CollectiveFlags
from seg_tf.training.errors import NonFiniteSteps
from seg_tf.training.lane_memory import NoMemory
from seg_tf.training.late_updates import LateUpdates, StartedStep
from seg_tf.training.metrics import Latest, Ratio, Total
from seg_tf.training.outputs.stopwatch import Stopwatch
from seg_tf.training.step import (
    Features,
    Results,
    StepOptions,
    StepResult,
    named_pairs,
    pack_sums,
)

# Kept over a log interval, beside the objectives' own.
_GRADIENT_NORM = "gradient_norm"


class Pretrainer(keras.Model):
    """Trains an encoder on the weighted sum of its objectives' losses.

    Objectives return sums and counts; a sum is divided by its count in the training
    step, for the gradient, and here, so that a metric over many batches is one
    ratio, not a mean of means.

    A Keras batch is an update: where loss or gradient of a batch is not finite, the
    weights stay as they are and the next batch is taken in its place. So
    `optimizer.iterations` is the one counter of updates. Whether a batch was one is
    read when the next has been started; whoever reads weights waits for it by
    `settle`.

    Metrics exist twice: those in `metrics`, which Keras resets at every Keras
    epoch and before every validation, and `interval_metrics`, which are read and
    reset at every log interval and travel in checkpoints. All are those of the
    global batches, on each process.

    Args:
        encoder: layer from a batch of features to a sequence `(B, L, D)`; one with
            memory returns the sequence and the memory for the next batch.
        objectives: mapping of name to a `seg_tf.objectives.base.Objective`.
        options: those of a step.
        max_skipped_steps: greatest number of consecutive steps that are not finite.
        memory: the encoder's memory between training steps.
        validation_memory: its memory between the batches of a validation.

    Raises:
        ValueError: if there is no objective.
    """

    # Keras's, which has them as None until they are made.
    train_function: Any
    test_function: Any

    def __init__(
        self,
        encoder: keras.layers.Layer,
        objectives: Mapping[str, Objective],
        options: StepOptions | None = None,
        max_skipped_steps: int = 20,
        memory: NoMemory | None = None,
        validation_memory: NoMemory | None = None,
    ):
        # Each part casts its own inputs; counts and weights stay as they are.
        super().__init__(autocast=False, name="pretrainer")
        if not objectives:
            raise ValueError(
                "`objectives` must name at least one objective. "
                f"Received: objectives={dict(objectives)}"
            )
        self.encoder = encoder
        self.objectives = dict(objectives)
        self.step_options = options or StepOptions()
        self.memory = memory or NoMemory()
        self._validation_memory = validation_memory or NoMemory()
        self.collective_flags = CollectiveFlags()
        self.stopwatch = Stopwatch()
        self._max_skipped_steps = max_skipped_steps
        # Filled by `build_from`, once the objectives have said what they measure, in
        # which validation may go further than training does.
        self._training_names: list[str] = []
        self._validation_names: list[str] = []
        self.epoch_ratios: dict[str, Ratio] = {}
        self.interval_ratios: dict[str, Ratio] = {}
        self.totals = {
            name: Total(name) for name in ("samples", "tokens", "skipped_steps")
        }
        self.learning_rate = Latest("learning_rate")
        self._row_length = 0
        self._engine = engine.current()
        self._train_batch: Callable[[Features], Any] | None = None
        self._late_updates = LateUpdates(
            self._start_step,
            self.collective_flags.note,
            max_skipped_steps,
            self._failure,
        )

    def build_from(self, features: Features) -> None:
        """Creates every variable, of metrics and optimizer too; needs `compile`.

        Args:
            features: a batch with the shapes of training; its values do not
                matter, and no random state is used up.
        """
        self._validation_names = self._engine.traced(
            lambda rows: _names(self._forward(rows, False)[0]), features
        )
        with keras.StatelessScope():  # which drops the state that dropout leaves
            self._training_names = self._engine.traced(
                lambda rows: _names(self._forward(rows, True)[0]), features
            )
        both = dict.fromkeys([*self._training_names, *self._validation_names])
        self.epoch_ratios = {name: Ratio(name) for name in both}
        self.interval_ratios = {
            name: Ratio(name) for name in (*self._training_names, _GRADIENT_NORM)
        }
        self._row_length = features["padding_mask"].shape[1]
        self.optimizer.build(self.trainable_variables)
        self._step = self._engine.step_class(
            lambda rows: self._forward(rows, True),
            self.objectives,
            self.trainable_variables,
            self.random_states,
            self.optimizer,
            num_sums=2 * len(self._training_names),
            options=self.step_options,
        )
        self.built = True

    def encode(
        self, features: Features, training: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        """The encoder's sequence output, and its memory for the next batch."""
        output = self.encoder(features, training=training)
        return output if isinstance(output, tuple) else (output, {})

    @property
    def random_states(self) -> list[keras.Variable]:
        """States of the generators of dropout, which every step sets anew."""
        return [v for v in self.variables if v.path.endswith("seed_generator_state")]

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Metrics that Keras resets at the start of an epoch and of a validation."""
        return list(self.epoch_ratios.values())

    @property
    def interval_metrics(self) -> list[keras.metrics.Metric]:
        """Metrics read at a log interval: ratios, totals and the learning rate."""
        return [
            *self.interval_ratios.values(),
            *self.totals.values(),
            self.learning_rate,
        ]

    @property
    def updates(self) -> int:
        """Updates done."""
        self._late_updates.wait()
        return int(self.optimizer.iterations)

    @property
    def samples(self) -> int:
        """Samples of the input order consumed, those of skipped steps too."""
        self._late_updates.wait()
        return int(self.totals["samples"].result())

    @property
    def padding_share(self) -> float:
        """Share of the positions of all training batches that were padding."""
        # Of totals, so that it is the same for a run that was interrupted.
        positions = self.samples * self._row_length
        tokens = float(self.totals["tokens"].result())
        return 1 - tokens / positions if positions else 0.0

    def get_metrics_result(self) -> dict[str, Any]:
        self._late_updates.wait()
        return self._with_total(self.epoch_ratios)

    def interval_results(self) -> dict[str, float]:
        """Metrics since `reset_interval`, as Python floats."""
        self._late_updates.wait()
        results = self._with_total(self.interval_ratios)
        return {name: float(value) for name, value in results.items()}

    def reset_interval(self) -> None:
        for ratio in self.interval_ratios.values():
            ratio.reset_state()

    def train_step(self, features: Features) -> tuple[dict[str, Any], Any]:
        """One step from one batch; returns logs and whether it was an update."""
        features, own_flags = self.collective_flags.taken_from(features)
        result = self._step(features, self.memory.read(features), own_flags)
        self.memory.write(features, result.memory)
        self.collective_flags.agreed.assign(result.flags)
        self._measure(result)
        return self._epoch_results(self._training_names), result.finite

    def test_step(self, features: Features) -> dict[str, Any]:
        """Measures one batch."""
        features, own_flags = self.collective_flags.taken_from(features)
        memory = self._validation_memory
        results, after = self._forward({**features, **memory.read(features)}, False)
        memory.write(features, after)
        sums = pack_sums(results)
        sums, flags = self.step_options.distribution.sum(
            [sums, own_flags], "validation"
        )
        self.collective_flags.agreed.assign(flags)
        _add(sums, self._validation_names, self.epoch_ratios)
        return self._epoch_results(self._validation_names)

    def make_train_function(self, force: bool = False) -> Callable[..., Any]:
        if self.train_function is None or force:
            self.train_function = self._engine.in_keras_loop(self.begin_update)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Callable[..., Any]:
        if self.test_function is None or force:
            measure = self._compiled(self.test_step, rows_vary=True)

            def read_and_measure(iterator: Iterator[Features]) -> Any:
                logs = measure(self._with_flags(next(iterator)))
                self.collective_flags.note(
                    ops.convert_to_numpy(self.collective_flags.agreed)
                )
                return logs

            self.test_function = self._engine.in_keras_loop(read_and_measure)
        return self.test_function

    def make_update(self, iterator: Iterator[Features]) -> Any:
        """Takes batches until one gave an update; returns its logs.

        Raises:
            NonFiniteSteps: if too many in a row gave none.
        """
        self.begin_update(iterator)
        return self.settle()

    def begin_update(self, iterator: Iterator[Features]) -> Any:
        """Starts an update; returns the logs of the one before (`LateUpdates`).

        Raises:
            NonFiniteSteps: if too many steps in a row gave no update.
        """
        return self._late_updates.begin(iterator)

    def settle(self) -> Any:
        """Waits for the updates begun; returns the logs of the last.

        To be called after the same update on every process of a run, before something
        is done that they have to do alike.

        Raises:
            NonFiniteSteps: as `begin_update`.
        """
        return self._late_updates.settle()

    def _start_step(self, iterator: Iterator[Features]) -> StartedStep:
        if self._train_batch is None:
            self._train_batch = self._compiled(self._train_step_with_flags)
        features = self.stopwatch.next_of(iterator)
        return StartedStep(features, *self._train_batch(self._with_flags(features)))

    def _with_flags(self, features: Features) -> Features:
        self.collective_flags.read()
        return self.collective_flags.added_to(features, self._engine.rows_of_flags())

    def _train_step_with_flags(self, features: Features) -> tuple[Any, ...]:
        logs, finite = self.train_step(features)
        # As they are now: the next step changes the variable.
        return logs, finite, ops.copy(self.collective_flags.agreed.value)

    def _failure(self, features: Features) -> NonFiniteSteps:
        """Error for too many steps without an update; names the samples of the last."""
        sums = self._compiled(
            lambda rows: pack_sums(
                self._forward({**rows, **self.memory.read(rows)}, False)[0]
            ),
            rows_vary=True,
        )
        found = nonfinite_samples.samples_without_finite_loss(
            sums, self._engine.rows_to_try(features)
        )
        return NonFiniteSteps(
            self._max_skipped_steps + 1, self.step_options.distribution.gather(found)
        )

    def _compiled(
        self, function: Callable[[Features], Any], rows_vary: bool = False
    ) -> Callable[..., Any]:
        """A function of a batch, as the engine compiles it."""
        return self._engine.compiled(function, self._changing_variables, rows_vary)

    def _changing_variables(self) -> list[Any]:
        """All variables that a step or a validation reads or assigns."""
        metrics = (*self.metrics, *self.interval_metrics)
        return [
            *self.variables,
            *self.optimizer.variables,
            *(variable for metric in metrics for variable in metric.variables),
            *self.step_options.loss_scale.variables,
            *self.memory.variables,
            *self._validation_memory.variables,
            self.collective_flags.agreed,
        ]

    def _get_jax_state(
        self, purge_model_variables: bool = False, **groups: bool
    ) -> tuple[list[Any], ...]:
        # Keras's loops on JAX would empty the variables and carry their values.
        return tuple([] for is_wanted in groups.values() if is_wanted)

    def _forward(
        self, features: Features, training: bool
    ) -> tuple[Results, dict[str, Any]]:
        sequence_output, memory = self.encode(features, training)
        results = {
            name: objective(sequence_output, features, training=training)
            for name, objective in self.objectives.items()
        }
        return results, memory

    def _measure(self, result: StepResult) -> None:
        finite = ops.cast(result.finite, "float64")
        # What is not finite must not be added, not even times 0.
        sums = ops.where(result.finite, result.sums, ops.zeros_like(result.sums))
        norm = ops.where(result.finite, result.gradient_norm, 0.0)
        _add(sums, self._training_names, self.epoch_ratios)
        _add(sums, self._training_names, self.interval_ratios)
        self.interval_ratios[_GRADIENT_NORM].update_state(norm, finite)
        self.totals["samples"].update_state(result.rows)
        self.totals["tokens"].update_state(result.tokens)
        self.totals["skipped_steps"].update_state(1.0 - finite)
        self.learning_rate.update_state(result.learning_rate)

    def _epoch_results(self, names: Iterable[str]) -> dict[str, Any]:
        return self._with_total({name: self.epoch_ratios[name] for name in names})

    def _with_total(self, ratios: Mapping[str, Ratio]) -> dict[str, Any]:
        """Results of the ratios, what is derived of them, and the total `loss`."""
        results = {name: ratio.result() for name, ratio in ratios.items()}
        results |= self._derived(results)
        losses = [
            objective.loss_weight * results[f"{name}_loss"]
            for name, objective in self.objectives.items()
            if f"{name}_loss" in results
        ]
        return {"loss": sum(losses), **results}

    def _derived(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Metrics that objectives derive from their results."""
        derived = {}
        for name, objective in self.objectives.items():
            prefix = f"{name}_"
            own = {
                metric.removeprefix(prefix): value
                for metric, value in results.items()
                if metric.startswith(prefix)
            }
            if own and hasattr(objective, "derived_metrics"):
                for metric, value in objective.derived_metrics(own).items():
                    derived[f"{prefix}{metric}"] = value
        return derived


def _names(results: Results) -> list[str]:
    return [name for name, _ in named_pairs(results)]


def _add(sums: Any, names: Sequence[str], ratios: Mapping[str, Ratio]) -> None:
    """Adds the numbers of `pack_sums` to the ratios of these names."""
    pairs = ops.unstack(ops.reshape(sums, (len(names), 2)))
    for name, pair in zip(names, pairs, strict=True):
        ratios[name].update_state(*ops.unstack(pair))
