"""Reads the docstrings of installed Python packages as a corpus."""

import ast
import dataclasses
import functools
import io
import itertools
import os
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Iterator
from typing import ClassVar

from data_pipelines.readers import base, streams
from data_pipelines.readers.streams import DocumentError
from seg_tf import file_listing
from seg_tf.file_listing import PassOver, Path, ignore

# The packages that are installed with this project, without development tools, so that
# the corpus is the same with and without them.
_PACKAGES = """
PIL absl contourpy dateutil flatbuffers fontTools google/protobuf grpc h5py
huggingface_hub keras keras_hub markdown matplotlib ml_collections mpl_toolkits numpy
optree packaging pyparsing requests rich tensorboard tensorflow tensorflow_text urllib3
werkzeug
"""
# Tests, vendored code, modules that only re-export names, programs, test data.
_SKIPPED_FOLDER = re.compile(
    r"tests?|testing|testdata|(?:site|dist)-packages|_?vendor(?:ed)?|extern"
    r"|_api|_tf_keras|idlelib|lib2to3|turtledemo|ensurepip"
)
_TEST_FILE = re.compile(r"test_.*|.*_test\.py")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)

_FENCE = re.compile(r"\s*(?:```|~~~)")
_UNDERLINE = re.compile(r"([-=~^#*+\"'`.])\1{2,}$")
# Sections (named as in numpydoc) that contain entries instead of sentences.
_LIST_SECTIONS = re.compile(
    r"(?:other )?parameters|attributes|methods|returns|yields|receives|raises|warns"
    r"|see also|references|(?:keyword )?arguments|args"
)
# Doctests, reST directives and comments, fields, list items, quotes, tables.
_NO_PROSE_LINE = re.compile(
    r">>>|\.{2,3}\s|:\w[^:]*:\s|@\w|[-*+•>$%#]\s|\(?(?:\d{1,3}|\w)[.)]\s|\[\d+\]|\||\+-"
)
_ROLE = re.compile(r":[\w:+.-]+:`([^`]+)`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`__?|\[([^\]]+)\]\([^)\s]+\)")
_CODE = re.compile(r"``([^`]+)``|`([^`]+)`(?:__?\b)?")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,2})(?![\s*])([^*]+?)(?<!\s)\1(?![\w*])")
_BOILERPLATE = re.compile(
    r"Copyright\b|This file (?:was|is) (?:auto|machine)|Disclaimer:|NO WARRANTY",
    re.IGNORECASE,
)
_SENTENCE_START = re.compile(r"[\"'(]?[^\W\d_]")
# A colon may end a second sentence, "It fails. Do instead:", but not the only one.
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?:$| .*:$)")
_LETTERS = r"[^\W\d_]+"
_WORD = re.compile(
    rf"[\"'(\[]*(?:{_LETTERS}(?:['’./-]{_LETTERS})*|\d+(?:[.,]\d+)*%?)[\"')\],.;:!?]*$"
    r"|-{1,3}$"
)
_MIN_WORDS = 5
_MIN_WORD_SHARE = 0.85


@dataclasses.dataclass(frozen=True)
class PythonDocsReader(base.FileReader):
    """Docstrings of installed Python packages, a corpus available on every machine.

    Each module is a document. Its docstrings come in source order: first the module's,
    then those of its classes and functions. Only the `prose_paragraphs` of a docstring
    are used, without repetitions within a module. Modules without prose are skipped and
    not reported. No code is imported or run.

    The input is a file, folder or glob of Python files, as for other formats. If it is
    empty, the reader uses the standard library and the packages that this project
    depends on, as installed for the running interpreter, without tests.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".py",)

    def files(
        self, input_path: str | os.PathLike[str], pass_over: PassOver = ignore
    ) -> list[Path]:
        files = super().files(input_path, pass_over) if input_path else _installed()
        # Packages contain many empty `__init__.py`, which are not failed downloads.
        return [path for path in files if path.stat().st_size]

    def source_name(self, path: Path, input_path: str | os.PathLike[str]) -> str:
        named = super().source_name
        return named(path, input_path) if input_path else _installed_name(path)

    def read_stream(
        self, stream: io.BufferedReader, source: str
    ) -> Iterator[base.Document | base.RejectedDocument]:
        code = streams.read_all(stream, self.max_document_bytes)
        if b'"""' not in code and b"'''" not in code:
            return  # Parsing is far slower than searching for docstrings.
        paragraphs = dict.fromkeys(
            paragraph
            for docstring in _docstrings(code)
            for paragraph in prose_paragraphs(docstring)
        )
        if paragraphs:
            title = source.removesuffix(".py").replace("/", ".")
            yield base.Document(tuple(paragraphs), source, base.WHOLE_FILE, title)


def _docstrings(code: bytes) -> Iterator[str]:
    """Yields a module's docstrings in order. Raises DocumentError for invalid code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Invalid escapes and the like.
        try:
            nodes: list[ast.AST] = [ast.parse(code)]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            location = f"line {error.lineno}" if getattr(error, "lineno", None) else ""
            raise DocumentError(
                "not_python",
                f"Expected code of Python {sysconfig.get_python_version()}, found: "
                f"{error.args[0] if error.args else error!r}.",
                location,
            ) from error
    # Not recursive, because each `elif` adds a level and generated code has thousands.
    while nodes:
        node = nodes.pop()
        if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield docstring
        children = ast.iter_child_nodes(node)
        nodes += reversed([child for child in children if isinstance(child, _HOLDERS)])


@functools.cache
def _roots() -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """Returns the folders purelib, platlib and stdlib, which may be nested."""
    paths = sysconfig.get_paths()
    return tuple(pathlib.Path(paths[name]) for name in ("purelib", "platlib", "stdlib"))


def _installed() -> list[pathlib.Path]:
    *package_folders, library = _roots()
    names = _PACKAGES.split()
    folders = [library, *(root / name for root in package_folders for name in names)]
    files = {
        file
        for folder in folders
        if folder.is_dir()
        for file in file_listing.walk(folder, PythonDocsReader.suffixes)
        if not _TEST_FILE.fullmatch(file.name)
        and not any(map(_SKIPPED_FOLDER.fullmatch, file.relative_to(folder).parts))
    }
    return sorted(files, key=_installed_name)


def _installed_name(path: pathlib.Path) -> str:
    for root in _roots():
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name


def prose_paragraphs(docstring: str) -> Iterator[str]:
    """Yields the paragraphs of a docstring that consist of sentences.

    Blank lines separate paragraphs. A paragraph is left out if

    * one of its lines is indented (code, parameter lists, quotations),
    * one of its lines is in a fenced block, or begins like a doctest, list item, field,
      directive or table row,
    * it is in a section of entries, such as numpydoc's "Parameters", or
    * `is_prose` rejects it.

    Markup for code, emphasis, links and roles is removed and its text kept.
    """
    lines, is_fenced = [], False
    for line in docstring.split("\n"):
        is_fence = _FENCE.match(line)
        lines.append("" if is_fenced or is_fence else line.rstrip())
        is_fenced ^= bool(is_fence)
    section = ""
    for has_text, run in itertools.groupby(lines, bool):
        block = list(run) if has_text else []
        if len(block) > 1 and _UNDERLINE.match(block[1]):
            section = block[0].strip().lower()
            block = block[2:]
        if not block or _LIST_SECTIONS.fullmatch(section):
            continue
        if any(line[0].isspace() or _NO_PROSE_LINE.match(line) for line in block):
            continue
        paragraph = strip_marks(" ".join(line.strip() for line in block))
        if is_prose(paragraph):
            yield paragraph


def is_prose(paragraph: str) -> bool:
    """Returns whether a paragraph consists of sentences, as opposed to a list or code.

    A paragraph of prose is printable, begins with a letter, ends like a sentence, does
    not only announce a list or code and is not license boilerplate. It has at least
    five words, and at least 85 % of its tokens are words or plain numbers, as opposed
    to names with underscores or formulas.
    """
    tokens = paragraph.split()
    return bool(
        paragraph.isprintable()
        and _SENTENCE_START.match(paragraph)
        and not _BOILERPLATE.match(paragraph)
        and _SENTENCE_END.search(paragraph)
        and sum(bool(_WORD.match(token)) for token in tokens)
        >= max(_MIN_WORDS, _MIN_WORD_SHARE * len(tokens))
    )


def strip_marks(paragraph: str) -> str:
    """Removes the inline markup of reStructuredText and Markdown."""

    def role_text(match: re.Match[str]) -> str:
        # `Door <house.Door>` shows its first half, `~house.Door` its last name.
        text, has_target, _ = match[1].partition(" <")
        if text.startswith("~") and not has_target:
            return text[1:].rpartition(".")[2]
        return text

    if "`" in paragraph or "](" in paragraph:
        paragraph = _ROLE.sub(role_text, paragraph)
        paragraph = _LINK.sub(lambda match: match[1] or match[2], paragraph)
        paragraph = _CODE.sub(lambda match: match[1] or match[2], paragraph)
    if "*" in paragraph:
        paragraph = _EMPHASIS.sub(r"\2", paragraph)
    # `::` announces a literal block.
    return paragraph[:-1] if paragraph.endswith("::") else paragraph
