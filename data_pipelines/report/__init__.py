"""A page that shows what a corpus is like and what was left out of it."""
