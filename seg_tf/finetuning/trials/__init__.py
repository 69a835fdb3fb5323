"""Trials: trainings of a task over settings and seeds, and their results."""
