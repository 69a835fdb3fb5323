"""Weights from and to the formats of others."""
