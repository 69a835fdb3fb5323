"""GLUE: its tasks, averages and prediction files."""
