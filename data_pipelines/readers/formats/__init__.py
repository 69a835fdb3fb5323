"""Readers of file formats other than Wikipedia's dumps."""
