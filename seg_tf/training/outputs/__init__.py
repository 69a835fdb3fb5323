"""Files and messages that a run writes: logs, curves, progress, profiles."""
