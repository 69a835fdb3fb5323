"""Docstrings of installed Python packages: a corpus that every machine has."""

import ast
import contextlib
import dataclasses
import functools
import gc
import io
import os
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Iterator
from typing import ClassVar

from data_pipelines.readers import base
from data_pipelines.readers.errors import DocumentError
from data_pipelines.readers.formats import prose
from data_pipelines.readers.io import byte_streams
from data_pipelines.readers.io.passed_over import EMPTY, PassedOver
from seg_tf import file_listing

# The packages that an installation of this project brings along, development tools
# aside: the corpus is the same with and without those.
_PACKAGES = (
    "PIL",
    "absl",
    "contourpy",
    "dateutil",
    "flatbuffers",
    "fontTools",
    "google/protobuf",
    "grpc",
    "h5py",
    "huggingface_hub",
    "keras",
    "keras_hub",
    "markdown",
    "matplotlib",
    "ml_collections",
    "mpl_toolkits",
    "numpy",
    "optree",
    "packaging",
    "pyparsing",
    "requests",
    "rich",
    "tensorboard",
    "tensorflow",
    "tensorflow_text",
    "urllib3",
    "werkzeug",
)
# Tests; other packages' code, copied in; modules that only pass on names; programs
# that are no library; tables of test cases.
_SKIPPED_FOLDER = re.compile(
    r"tests?|testing|testdata|(?:site|dist)-packages|_?vendor(?:ed)?|extern"
    r"|_api|_tf_keras|idlelib|lib2to3|turtledemo|ensurepip"
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)


@dataclasses.dataclass(frozen=True)
class Reader(base.FileReader):
    """Reads the prose of docstrings; a module is a document.

    Docstrings come in the order of the source: the module's, then those of its
    classes and functions. `prose` says which of their paragraphs count as prose; one
    that a module repeats word for word is taken once. A module without prose is no
    document, and nothing is said of it. Nothing is imported or run.

    The input is a file, folder or glob of Python files as for other formats; or
    empty: the standard library and the packages that this project depends on, as
    installed for the running interpreter, without tests.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".py",)

    def files(
        self, input_path: str | os.PathLike[str], passed_over: PassedOver | None = None
    ) -> list[pathlib.Path]:
        # Packages are full of empty `__init__.py`, which are no failed downloads.
        if not input_path:
            return [file for file in _installed_files() if file.stat().st_size]
        files = super().files(input_path, passed_over)
        if passed_over is not None:
            for file in files:
                if not file.stat().st_size:
                    passed_over.add(EMPTY, self.source_name(file, input_path))
        return [file for file in files if file.stat().st_size]

    def source_name(
        self, path: pathlib.Path, input_path: str | os.PathLike[str]
    ) -> str:
        if input_path:
            return super().source_name(path, input_path)
        return _installed_name(path)

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        code = byte_streams.read_all(stream, self.max_document_bytes)
        if b'"""' not in code and b"'''" not in code:
            return  # Parsing costs far more than this look for docstrings.
        with _no_garbage_collection():
            docstrings = list(_docstrings(_parse(code)))
        # A module's paragraphs in order, each once.
        paragraphs = dict.fromkeys(
            paragraph
            for docstring in docstrings
            for paragraph in prose.prose_paragraphs(docstring)
        )
        if paragraphs:
            yield base.Document(
                tuple(paragraphs),
                source,
                base.WHOLE_FILE,
                title=source.removesuffix(".py").replace("/", "."),
            )


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    # Syntax trees have no cycles. Their nodes set off the search for some again and
    # again, which passes through all that is loaded: twice the time of parsing.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _parse(code: bytes) -> ast.Module:
    with warnings.catch_warnings():
        # Invalid escapes and the like are for the authors of that code to fix.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            location = f"line {error.lineno}" if getattr(error, "lineno", None) else ""
            raise DocumentError(
                "not_python",
                f"Expected code of Python {sysconfig.get_python_version()}, found: "
                f"{error.args[0] if error.args else error!r}.",
                location,
            ) from error


def _docstrings(module: ast.Module) -> Iterator[str]:
    """Docstrings of a module and of all classes and functions in it, in order."""
    # Not recursive: each `elif` is a level, and generated code has thousands.
    nodes: list[ast.AST] = [module]
    while nodes:
        node = nodes.pop()
        if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield docstring
        children = ast.iter_child_nodes(node)
        nodes += reversed([child for child in children if isinstance(child, _HOLDERS)])


@functools.cache
def _roots() -> dict[str, pathlib.Path]:
    """Folders of installed modules; that of packages may lie in the library's."""
    paths = sysconfig.get_paths()
    return {
        name: pathlib.Path(paths[name]) for name in ("purelib", "platlib", "stdlib")
    }


def _installed_files() -> list[pathlib.Path]:
    roots = _roots()
    folders = [roots["stdlib"]]
    folders += [
        roots[name] / package
        for name in ("purelib", "platlib")
        for package in _PACKAGES
    ]
    files = {
        file
        for folder in folders
        if folder.is_dir()
        for file in file_listing.walk(folder, Reader.suffixes)
        if _is_documentation(file.relative_to(folder))
    }
    return sorted(files, key=_installed_name)


def _is_documentation(name: pathlib.PurePath) -> bool:
    is_test = name.stem.startswith("test_") or name.stem.endswith("_test")
    return not is_test and not any(map(_SKIPPED_FOLDER.fullmatch, name.parts))


def _installed_name(path: pathlib.Path) -> str:
    for root in _roots().values():
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name
