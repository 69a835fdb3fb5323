"""Probes of frozen encoders: DiscoEval's protocol (Chen et al., 2019)."""
