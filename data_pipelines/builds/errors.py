"""The error of builds."""


class BuildError(Exception):
    """A build cannot continue; the message says why and what to do."""
