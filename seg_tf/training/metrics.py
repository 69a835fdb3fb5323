"""Metrics that are sums over counts, never means of means."""

from typing import Any

import keras


def _zero(metric: keras.metrics.Metric, name: str) -> keras.Variable:
    """A variable of the metric's dtype, which Keras would not give it unasked."""
    return metric.add_weight(name=name, initializer="zeros", dtype=metric.dtype)


class Ratio(keras.metrics.Metric):
    """Sum of numerators over sum of denominators; 0 while nothing was counted.

    Sums are kept in float64: float32 stops counting single predictions at 2**24,
    which a validation reaches.
    """

    def __init__(self, name: str):
        super().__init__(name=name, dtype="float64")
        self.numerator = _zero(self, "numerator")
        self.denominator = _zero(self, "denominator")

    def update_state(self, numerator: Any, denominator: Any) -> None:
        self.numerator.assign_add(keras.ops.cast(numerator, "float64"))
        self.denominator.assign_add(keras.ops.cast(denominator, "float64"))

    def result(self) -> Any:
        return keras.ops.divide_no_nan(self.numerator, self.denominator)


class Total(keras.metrics.Metric):
    """Sum of all entries of what it is given."""

    def __init__(self, name: str):
        super().__init__(name=name, dtype="float64")
        self.total = _zero(self, "total")

    def update_state(self, values: Any) -> None:
        self.total.assign_add(keras.ops.sum(keras.ops.cast(values, "float64")))

    def result(self) -> Any:
        return keras.ops.convert_to_tensor(self.total)


class Latest(keras.metrics.Metric):
    """The last value it was given."""

    def __init__(self, name: str):
        super().__init__(name=name, dtype="float64")
        self.value = _zero(self, "value")

    def update_state(self, value: Any) -> None:
        self.value.assign(keras.ops.cast(value, "float64"))

    def result(self) -> Any:
        return keras.ops.convert_to_tensor(self.value)
