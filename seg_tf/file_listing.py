"""The files of an input path: their order, their names, and what is passed over."""

import glob
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from seg_tf.remote_files import Path as Path
from seg_tf.remote_files import is_url as is_url
from seg_tf.remote_files import remote_path, with_retries
from seg_tf.remote_files import to_path as to_path

# Reasons to pass over a file. A hidden folder is one entry, regardless of its content.
HIDDEN = "hidden"
HIDDEN_FOLDER = "hidden_folder"
OTHER_NAME = "other_name"
NOT_A_FILE = "not_a_file"

PassOver = Callable[[str, Path], None]
"""Receives the reason and the path of a file that is passed over."""

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_WILDCARDS = frozenset("*?[")


def ignore(reason: str, path: Path) -> None:
    """A `PassOver` that does nothing."""
    del reason, path


def list_files(
    input_path: str | os.PathLike[str],
    suffixes: Sequence[str] = (),
    pass_over: PassOver = ignore,
) -> list[Path]:
    """Lists the files below `input_path`, sorted by their relative name.

    Args:
        input_path: a file; a folder, searched recursively without hidden files; or a
            glob of files and folders, where `**` matches any depth. URLs of these, such
            as `s3://bucket/folder`, are read with fsspec.
        suffixes: endings of the names of files in a folder, before any suffix of a
            compression. Empty accepts all. A file that `input_path` names, or that a
            glob matches, is always listed.
        pass_over: called once for each file of a folder that is not listed, in order
            of the names.

    Raises:
        OSError: if there is no such file or folder, or it cannot be read.
        ValueError: if no file matches, all are empty, or a pipe is named.
    """
    text = _to_text(input_path)
    if not text:
        raise ValueError("The input must name a file, a folder or a glob. Received: ''")
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
            f"The input must contain files{names and f' named {names}'}, hidden ones "
            f"aside. Received: {text!r}, with {len(passed_over)} other files"
            + ("; a glob accepts files of any name" if suffixes else "")
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
        try:  # `exists` is False if a server of HTTP answers with any error.
            with_retries(url, lambda: root.fs.info(root.path))
        except FileNotFoundError:
            if not _WILDCARDS.intersection(url):
                message = f"The input must exist. Received: {url!r}"
                raise FileNotFoundError(message) from None
            # As in local globs, hidden files have to be named.
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
    """Name of a listed file relative to the input's root, in POSIX style.

    The root is the folder, the parent of a file, or the part of a glob before the first
    wildcard.
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
    # Names are bytes to the system; this one has to be text that can be written.
    return os.fsencode(name).decode("utf-8", "replace")


def split_inputs(inputs: str | os.PathLike[str]) -> list[str]:
    """Splits inputs at commas, unless the whole string is the name of a file."""
    text = _to_text(inputs)
    whole = "," not in text or os.path.exists(text)
    return [text] if whole else [item.strip() for item in text.split(",")]


def short_names(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The shortest ends of paths that tell all of them apart."""
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
    """Recognises a glob pattern, unless there is a file of that very name."""
    return bool(_WILDCARDS.intersection(text)) and not os.path.exists(text)


def walk(
    path: pathlib.Path, suffixes: Sequence[str] = (), pass_over: PassOver = ignore
) -> Iterator[pathlib.Path]:
    """Yields the files of a folder as in `list_files`, unsorted; or the file itself."""
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
        # Sorted, so that of two ways to a folder it is always the same.
        hidden = [name for name in subfolders if name.startswith(".")]
        subfolders[:] = sorted(set(subfolders).difference(hidden))
        # A link to a folder further up must not send the walk round in circles.
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
    stem, suffix = os.path.splitext(name.lower())
    if suffix in COMPRESSION_SUFFIXES:
        # `corpus.gz` does not say what is in it.
        return not suffixes or "." not in stem or stem.endswith(tuple(suffixes))
    return not suffixes or name.lower().endswith(tuple(suffixes))
