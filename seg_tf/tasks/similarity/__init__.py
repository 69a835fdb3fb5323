"""Sets of sentence pairs with their similarity, for vectors without training."""
