"""From raw text to records, for corpora of any size."""


class BuildError(Exception):
    """A build cannot continue; the message says why and what to do."""
