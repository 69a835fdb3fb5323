"""Readers of Wikipedia's dumps and of WikiExtractor's output."""
