"""Layouts, which convert trees of text to features for training and inference."""
