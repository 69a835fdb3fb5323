"""Files that a run writes: logs, curves, profiles."""
