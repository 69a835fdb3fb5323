"""The papers as data: their settings, their tables, and what a run does differently.

`settings.toml` and `tables.toml` hold each value of the four papers once, with its
source. The recipe `paper` is what a paper says and, where it is silent, what BERT does,
whose settings it takes over. The recipe `released` is what its authors' code does where
that differs; a run that follows it deviates from the paper, and says so.
"""

from seg_tf.papers.settings import COLUMNS, Deviation, describe, deviations

__all__ = ["COLUMNS", "Deviation", "describe", "deviations"]
