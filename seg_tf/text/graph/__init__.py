"""Text in the graph: characters to sentences to word pieces, for serving."""
