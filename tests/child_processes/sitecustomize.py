"""Run by every Python process that a test starts: spares it seconds of imports.

Keras and TensorFlow import packages for functions that nothing here calls.
"""

import importlib.abc
import os
import sys

_UNUSED = {"pandas", "sklearn"}
if os.environ.get("KERAS_BACKEND") != "jax":
    _UNUSED.add("jax")
# Of which only oracles have need, and which takes time to import.
os.environ.pop("TF_USE_LEGACY_KERAS", None)


class _NotFound(importlib.abc.MetaPathFinder):
    """Finds none of these packages for Keras and TensorFlow, which do without."""

    def find_spec(self, fullname, path, target=None):
        if fullname in _UNUSED:
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            if frame.f_globals["__name__"].startswith(("keras.", "tensorflow.")):
                raise ModuleNotFoundError(f"Tests do without {fullname}")


sys.meta_path.insert(0, _NotFound())
