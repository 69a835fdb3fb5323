"""The papers' settings and tables, and the deviations of runs from them.

`settings.toml` and `tables.toml` contain each value of the four papers once, with its
source. The recipe `paper` has the paper's values and, where they are missing, BERT's
values. The recipe `released` has the values of the authors' code where they differ. Its
runs report these values as deviations from the paper.
"""

from seg_tf.papers.settings import COLUMNS, Deviation, describe, deviations

__all__ = ["COLUMNS", "Deviation", "describe", "deviations"]
