"""The tables of the four papers as data, filled with what was run.

A table names the figures of its columns and the runs of its rows; `results` finds them
below a folder of runs and trials, `rendering` prints them beside the paper's.
"""
