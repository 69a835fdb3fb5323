"""DiscoEval: its tasks and its probes."""
