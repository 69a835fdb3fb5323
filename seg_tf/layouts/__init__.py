"""Layouts, which convert trees of text to rows of features in TensorFlow graphs.

Pretraining, fine-tuning, inference and export share this code.
"""
