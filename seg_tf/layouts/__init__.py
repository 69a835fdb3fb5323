"""Layouts convert trees of text into the rows that models read, in the graph.

Pretraining, fine-tuning, inference and export share this code.
"""
