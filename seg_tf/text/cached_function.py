"""A function of short strings with a bounded cache."""

from collections.abc import Callable
from typing import Any


class CachedFunction(dict):
    """Cache of a function: `cache[text]` is `function(text)`.

    Args:
        function: of a string.
        max_entries: values that are held before all are dropped.
    """

    MAX_KEY_LENGTH = 40

    def __init__(self, function: Callable[[str], Any], max_entries: int = 2**16):
        super().__init__()
        self._function = function
        self._max_entries = max_entries

    def __missing__(self, key: str) -> Any:
        value = self._function(key)
        if len(key) <= self.MAX_KEY_LENGTH:
            if len(self) >= self._max_entries:
                self.clear()
            self[key] = value
        return value
