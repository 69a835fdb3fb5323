"""The error of builds."""


class BuildError(Exception):
    """A build cannot go on; the message says why and what to do."""
