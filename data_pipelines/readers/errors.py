"""The error by which the parts of a reader give up on a document."""


class DocumentError(Exception):
    """A document, or the rest of a file, cannot be read.

    Readers catch it and yield a `RejectedDocument`; it never leaves a reader.

    Args:
        reason: short machine-readable name such as `"not_utf8"`.
        message: a sentence that says what was expected and what was found.
        location: where in the file; empty where the one who catches it knows.
    """

    def __init__(self, reason: str, message: str, location: str = ""):
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.location = location


def too_long(max_bytes: int, location: str = "") -> DocumentError:
    """The error of a document that is larger than `max_document_megabytes`."""
    return DocumentError(
        "too_long_document",
        f"Expected at most {max_bytes / 1e6:,g} MB of text in a document, found more. "
        "`max_document_megabytes` is the limit.",
        location,
    )
