"""Lists the files of an input path, reports skipped files, and shortens file names."""

import glob
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from seg_tf.remote_files import Path as Path
from seg_tf.remote_files import is_url as is_url
from seg_tf.remote_files import remote_path, with_retries
from seg_tf.remote_files import to_path as to_path

# Reasons to skip a file. A hidden folder is one entry, regardless of its content.
HIDDEN = "hidden"
HIDDEN_FOLDER = "hidden_folder"
OTHER_NAME = "other_name"
NOT_A_FILE = "not_a_file"

PassOver = Callable[[str, Path], None]
"""Function that is called with the reason and the path of each skipped file."""

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_WILDCARDS = frozenset("*?[")


def ignore(reason: str, path: Path) -> None:
    """A `PassOver` function that does nothing."""
    del reason, path


def list_files(
    input_path: str | os.PathLike[str],
    suffixes: Sequence[str] = (),
    pass_over: PassOver = ignore,
) -> list[Path]:
    """Lists the files that `input_path` names or contains, sorted by relative name.

    Args:
        input_path: a file, a folder (searched recursively, without hidden files), or a
            glob of files and folders, in which `**` matches any depth. URLs, such as
            `s3://bucket/folder`, are read with fsspec.
        suffixes: suffixes of the files to list in a folder, before any compression
            suffix such as `.gz`. If empty, all files are listed. Files that
            `input_path` names or matches are always listed.
        pass_over: called once for each skipped file or hidden folder, in name order.

    Raises:
        OSError: if the file or folder does not exist or cannot be read.
        ValueError: if `input_path` is empty, a pipe or an unsupported URL, if no file
            matches, or if all files are empty.
    """
    text = _to_text(input_path)
    if not text:
        raise ValueError("--input must be a file, a folder or a glob. Received: ''")
    passed_over: set[tuple[str, Path]] = set()

    def note(reason: str, path: Path) -> None:
        passed_over.add((reason, path))

    if is_url(text):
        paths = _list_remote(text, suffixes, note)
    else:
        roots = [text]
        if _is_glob(text):
            roots = glob.glob(text, recursive=True)
        elif not os.path.exists(text):
            raise FileNotFoundError(f"The input must exist. Received: {text!r}")
        paths = {
            path for root in roots for path in walk(pathlib.Path(root), suffixes, note)
        }
    if not paths:
        names = " or ".join(f"*{suffix}" for suffix in suffixes)
        raise ValueError(
            f"The input must contain files{names and f' named {names}'} that are not "
            f"hidden. Received: {text!r}, with {len(passed_over)} other files"
            + (". A glob accepts files of any name" if suffixes else "")
        )
    files = sorted(paths, key=lambda file: relative_name(file, text))
    if not any(file.stat().st_size for file in files):
        raise ValueError(
            f"The input must contain text. Received: {text!r}, whose {len(files)} "
            "file(s) are all empty"
        )
    for reason, path in sorted(
        passed_over, key=lambda noted: (relative_name(noted[1], text), noted[0])
    ):
        # A glob such as "**" matches a folder as well as the files in it.
        if path not in paths:
            pass_over(reason, path)
    return files


def _to_text(input_path: str | os.PathLike[str]) -> str:
    text = str(input_path)
    return text if is_url(text) else os.path.expanduser(os.fspath(input_path))


def _list_remote(url: str, suffixes: Sequence[str], pass_over: PassOver) -> set[Path]:
    root = remote_path(url)
    try:
        roots = [root]
        try:  # `exists` is False if an HTTP server responds with any error.
            with_retries(url, lambda: root.fs.info(root.path))
        except FileNotFoundError:
            if not _WILDCARDS.intersection(url):
                message = f"The input must exist. Received: {url!r}"
                raise FileNotFoundError(message) from None
            # As in local globs, hidden files must be named explicitly.
            roots = [
                remote_path(root.fs.unstrip_protocol(name))
                for name in root.fs.glob(root.path)
                if "/." in root.path or "/." not in name
            ]
        return {
            file for path in roots for file in _walk_remote(path, suffixes, pass_over)
        }
    except OSError:
        raise
    # Each kind of storage raises different exceptions.
    except Exception as error:
        raise OSError(
            f"{url}: cannot be listed: {type(error).__name__}: {error}"
        ) from error


def _walk_remote(
    root: Path, suffixes: Sequence[str], pass_over: PassOver
) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for name in root.fs.find(root.path):
        file = remote_path(root.fs.unstrip_protocol(name))
        parts = _remote_relative(file, root).split("/")
        hidden = [place for place, part in enumerate(parts) if part.startswith(".")]
        if not hidden and _matches(file.name, suffixes):
            yield file
        elif not hidden:
            pass_over(OTHER_NAME, file)
        elif hidden[0] == len(parts) - 1:
            pass_over(HIDDEN, file)
        else:
            pass_over(HIDDEN_FOLDER, root.joinpath(*parts[: hidden[0] + 1]))


def _remote_relative(path: Path, root: Path) -> str:
    return path.path.removeprefix(root.path.rstrip("/")).lstrip("/")


def relative_name(path: Path, input_path: str | os.PathLike[str]) -> str:
    """Returns the POSIX path of a listed file relative to the root of the input.

    The root is the input folder, the parent of an input file, or the last folder of a
    glob before its first wildcard.
    """
    text = _to_text(input_path)
    if is_url(text):
        remote = remote_path(text)
        if path.path == remote.path:
            remote = remote.parent
        elif not path.path.startswith(remote.path.rstrip("/") + "/"):
            while _WILDCARDS.intersection(remote.path):
                remote = remote.parent
        return _remote_relative(path, remote)
    root = pathlib.Path(text)
    if _is_glob(str(root)):
        while _WILDCARDS.intersection(str(root)):
            root = root.parent
    elif path == root:
        root = root.parent
    name = path.relative_to(root).as_posix()
    # File names may be arbitrary bytes. Make sure that the name is valid UTF-8.
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def split_inputs(inputs: str | os.PathLike[str]) -> list[str]:
    """Splits a string of paths at commas, unless it is the path of a file or folder."""
    text = _to_text(inputs)
    whole = "," not in text or os.path.exists(text)
    return [text] if whole else [item.strip() for item in text.split(",")]


def short_names(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Shortens paths to their last N parts, with the smallest N for distinct names."""
    parts = [
        (str(path) if is_url(str(path)) else os.path.abspath(path))
        .rstrip("/")
        .split("/")
        for path in paths
    ]
    for length in range(1, max(map(len, parts))):
        names = ["/".join(part[-length:]) for part in parts]
        if len({*names}) == len(names):
            return names
    return ["/".join(part) for part in parts]


def _is_glob(text: str) -> bool:
    return bool(_WILDCARDS.intersection(text)) and not os.path.exists(text)


def walk(
    path: pathlib.Path, suffixes: Sequence[str] = (), pass_over: PassOver = ignore
) -> Iterator[pathlib.Path]:
    """Yields `path` if it is a file, or matching files below it. See `list_files`."""
    if path.is_file():
        yield path
        return
    if path.exists() and not path.is_dir():
        raise ValueError(
            "The input must be files, which are read more than once. Received: "
            f"{str(path)!r}, a pipe, device or socket. Write the text into a file"
        )

    def fail(error: OSError) -> None:
        raise error

    visited = set()
    for folder, subfolders, names in os.walk(path, onerror=fail, followlinks=True):
        # Sorted, so that a folder with two paths is always found under the same one.
        hidden = [name for name in subfolders if name.startswith(".")]
        subfolders[:] = sorted(set(subfolders).difference(hidden))
        # Symbolic links may form cycles.
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in visited:
            subfolders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        for name in hidden:
            pass_over(HIDDEN_FOLDER, pathlib.Path(folder, name))
        for name in names:
            file = pathlib.Path(folder, name)
            if name.startswith("."):
                pass_over(HIDDEN, file)
            elif not _matches(name, suffixes):
                pass_over(OTHER_NAME, file)
            elif not file.is_file():
                pass_over(NOT_A_FILE, file)
            else:
                yield file


def _matches(name: str, suffixes: Sequence[str]) -> bool:
    # A part of a MediaWiki dump is named `dump.xml-p1p41242.bz2`.
    name = re.sub(r"(?<=\.xml)-p\d+p\d+[^.]*", "", name.lower())
    stem, suffix = os.path.splitext(name)
    if suffix in COMPRESSION_SUFFIXES:
        # The name `corpus.gz` does not indicate a format.
        return not suffixes or "." not in stem or stem.endswith(tuple(suffixes))
    return not suffixes or name.endswith(tuple(suffixes))
