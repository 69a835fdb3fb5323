"""Splits text into sentences and word pieces in the graph, for serving."""
