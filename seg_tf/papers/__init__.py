"""The papers' settings and tables, and the deviations of runs from them.

`settings.toml` and `tables.toml` contain each value of the four papers once, with its
source. Settings that a paper does not specify have BERT's values or our own.
"""

from seg_tf.papers.settings import COLUMNS, Deviation, describe, deviations

__all__ = ["COLUMNS", "Deviation", "describe", "deviations"]
