"""Checkpoint folders, and the models loaded from them."""
