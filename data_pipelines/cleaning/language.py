"""The answers of a user's function that tells the language of a text."""


def code_and_confidence(name: str, answer: object) -> tuple[str, float | None]:
    """Checks a language function's answer; the confidence is None if it gave none.

    Args:
        name: `module:function`, for the message.
        answer: what it returned.

    Raises:
        ValueError: if that is neither a code nor a code with a confidence.
    """
    if isinstance(answer, str):
        return answer, None
    if isinstance(answer, tuple | list) and len(answer) == 2:
        code, confidence = answer
        try:
            if isinstance(code, str):
                return code, float(confidence)
        except (TypeError, ValueError):
            pass
    raise ValueError(
        "`language_function` must return a language code, or (code, confidence). "
        f"Received: {answer!r} from {name}"
    )
