"""Run by every Python process that a test starts: spares it seconds.

Keras and TensorFlow import packages for functions that nothing here calls. Rewriting
graphs takes longer than their few executions gain, as in `tests/conftest.py`.
"""

import importlib.abc
import importlib.machinery
import os
import sys

_UNUSED = {"pandas", "sklearn"}
if os.environ.get("KERAS_BACKEND") != "jax":
    _UNUSED.add("jax")
# Of which only oracles have need, and which takes time to import.
os.environ.pop("TF_USE_LEGACY_KERAS", None)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds none of the packages for Keras and TensorFlow, which do without.

    TensorFlow executes graphs as traced from its import on.
    """

    def find_spec(self, fullname, path, target=None):
        if fullname == "tensorflow":
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            execute = spec.loader.exec_module

            def execute_and_set(module):
                execute(module)
                options = {"disable_meta_optimizer": True}
                module.config.optimizer.set_experimental_options(options)

            spec.loader.exec_module = execute_and_set
            return spec
        if fullname in _UNUSED:
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            if frame.f_globals["__name__"].startswith(("keras.", "tensorflow.")):
                raise ModuleNotFoundError(f"Tests do without {fullname}")
        return None


sys.meta_path.insert(0, _Finder())
