"""Pipelines that turn raw text into training records, for corpora of any size."""


class BuildError(Exception):
    """A build cannot continue. The message states the cause and the remedy."""
