"""Layouts: the rows that models read, each form written once, in the graph.

A layout takes `Trees` and returns the features of rows. Pretraining, fine-tuning,
inference and export call the same functions.
"""
