"""Errors of weights of other programs."""


class ForeignWeightsError(ValueError):
    """Weights are damaged, incomplete or of another model; nothing was loaded."""
