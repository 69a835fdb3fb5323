"""A page that shows what a corpus is like and what became of it."""

FILE_NAME = "report.html"
