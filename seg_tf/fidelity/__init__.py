"""Settings of the papers as data, and the deviations of a run from them.

A column holds the settings of one of the compared models. The recipe `paper` is
what the paper says and, where it is silent, what BERT does, whose settings it
takes over. The recipe `released` is what its authors' code does where that
differs; a run that follows it deviates from the paper, and is told so.
"""

from seg_tf.fidelity.comparison import COLUMNS, Deviation, describe, deviations

__all__ = ["COLUMNS", "Deviation", "describe", "deviations"]
