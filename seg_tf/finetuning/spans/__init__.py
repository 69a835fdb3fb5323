"""Extractive question answering: spans of a context."""
