"""The language of a text, by a function of the user's."""

import importlib
from collections.abc import Callable


def load_function(name: str) -> Callable[[str], object]:
    """The function that `module:function` names.

    Raises:
        ValueError: if there is none, saying what is missing.
    """
    module_name, separator, function_name = name.partition(":")
    if not (separator and module_name and function_name):
        raise ValueError(
            "`language_function` must have the form `module:function`. "
            f"Received: {name!r}"
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(
            f"`language_function` must name a module that can be imported. "
            f"Received: {name!r} ({error}). Its folder has to be the current one or in "
            "PYTHONPATH"
        ) from error
    except Exception as error:  # Whatever the module does when it is imported.
        raise ValueError(
            "`language_function` must name a module that can be imported. Received: "
            f"{name!r}, whose import fails: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        found = "is missing" if function is None else "is no function"
        raise ValueError(
            "`language_function` must name a function of its module. "
            f"Received: {name!r}; {function_name} {found} in {module_name}"
        )
    return function


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
