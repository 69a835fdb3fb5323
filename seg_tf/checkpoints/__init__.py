"""Checkpoint folders: what they hold, and models read from them."""
