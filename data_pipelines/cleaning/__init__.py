"""Cleaning a corpus: steps that are off by default, and count what they drop.

In this order: lines with too few words, documents with too few words, documents in
another language, documents that repeat an earlier one. Each step sees what the steps
before it left.
"""
