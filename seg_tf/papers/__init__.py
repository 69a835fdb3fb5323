"""The papers' settings and tables, and the deviations of runs from them.

`settings.toml` and `tables.toml` contain each value of the four papers once, with its
source. The recipe `paper` has the paper's values and, where the paper is silent, BERT's
values, on which it builds. The recipe `released` has the values of the authors' code
where they differ. Runs that follow it report them as deviations from the paper.
"""

from seg_tf.papers.settings import COLUMNS, Deviation, describe, deviations

__all__ = ["COLUMNS", "Deviation", "describe", "deviations"]
