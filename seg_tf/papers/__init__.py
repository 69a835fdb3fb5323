"""The papers' settings and tables, and the deviations of runs from them.

`settings.toml` and `tables.toml` contain each value of the four papers once, with its
source. Settings that a paper leaves open have BERT's values or ours. If a run uses a
value of the authors' code that differs from the paper, its report notes this.
"""

from seg_tf.papers.settings import COLUMNS, Deviation, describe, deviations

__all__ = ["COLUMNS", "Deviation", "describe", "deviations"]
