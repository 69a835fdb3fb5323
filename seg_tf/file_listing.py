"""Which files an input path stands for, in which order, under which names."""

import glob
import os
import pathlib
from collections.abc import Iterator, Sequence

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".zst")
_WILDCARDS = frozenset("*?[")


def list_files(
    input_path: str | os.PathLike[str], suffixes: Sequence[str] = ()
) -> list[pathlib.Path]:
    """Lists the files below `input_path`, sorted by their relative name.

    Args:
        input_path: a file; a folder, searched recursively without hidden files;
            or a glob of files and folders, where `**` matches any depth.
        suffixes: what names of files in a folder end in, before any suffix of a
            compression. Empty takes all. A file that `input_path` names itself, or
            that a glob matches, is always taken.

    Raises:
        FileNotFoundError: if there is no such file or folder.
        ValueError: if no file matches, or all files that match are empty.
    """
    text = os.path.expanduser(os.fspath(input_path))
    if not text:
        raise ValueError(
            "`input_path` must name a file, a folder or a glob. Received: ''"
        )
    if _is_glob(text):
        files = [
            file
            for match in glob.glob(text, recursive=True)
            for file in walk(pathlib.Path(match), suffixes)
        ]
        looked_for = "files that match the glob"
    else:
        if not os.path.exists(text):
            raise FileNotFoundError(
                f"`input_path` must exist. Received: {text!r}, which is neither a "
                "file nor a folder"
            )
        files = list(walk(pathlib.Path(text), suffixes))
        names = " or ".join(f"*{suffix}" for suffix in suffixes)
        looked_for = f"files named {names} (plain, .gz, .bz2 or .zst)"
        looked_for = looked_for if suffixes else "files"
    if not files:
        raise ValueError(
            f"`input_path` must hold {looked_for}, hidden ones aside. "
            f"Received: {text!r}, which holds none"
            + ("; a glob takes files of any name" if suffixes else "")
        )
    # A glob such as "**" matches a folder and what lies in it.
    files = sorted(set(files), key=lambda file: relative_name(file, text))
    if not any(file.stat().st_size for file in files):
        raise ValueError(
            f"`input_path` must hold text. Received: {text!r}, whose {len(files)} "
            f"file(s) are all empty, {files[0].name!r} among them"
        )
    return files


def relative_name(path: pathlib.Path, input_path: str | os.PathLike[str]) -> str:
    """Name of a listed file relative to the input's root, in POSIX style.

    The root of a folder is itself, that of a file the folder it lies in, that of
    a glob the part before the first wildcard.
    """
    root = pathlib.Path(os.path.expanduser(os.fspath(input_path)))
    if _is_glob(str(root)):
        while _WILDCARDS.intersection(str(root)):
            root = root.parent
    elif path == root:
        root = root.parent
    name = path.relative_to(root).as_posix()
    # Names are bytes to the system; this one has to be text that can be written.
    return os.fsencode(name).decode("utf-8", "replace")


def _is_glob(text: str) -> bool:
    """Whether `text` is a pattern; a file of that very name comes first."""
    return bool(_WILDCARDS.intersection(text)) and not os.path.exists(text)


def walk(path: pathlib.Path, suffixes: Sequence[str] = ()) -> Iterator[pathlib.Path]:
    """The files of a folder as in `list_files`, in no order; or the file itself.

    Raises:
        OSError: if a folder cannot be read, rather than leave out what is in it.
    """
    if path.is_file():
        yield path
        return
    visited = set()
    for folder, subfolders, names in os.walk(path, onerror=_raise, followlinks=True):
        # Sorted, so that of two ways to a folder it is always the same one taken.
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        # A link to a folder further up must not send the walk round in circles.
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in visited:
            subfolders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        for name in names:
            file = pathlib.Path(folder, name)
            if not name.startswith(".") and _matches(name, suffixes) and file.is_file():
                yield file


def _raise(error: OSError) -> None:
    raise error


def _matches(name: str, suffixes: Sequence[str]) -> bool:
    stem, suffix = os.path.splitext(name.lower())
    if suffix in COMPRESSION_SUFFIXES:
        # `corpus.gz` does not say what is in it; it may well be what is wanted.
        return not suffixes or "." not in stem or stem.endswith(tuple(suffixes))
    return not suffixes or name.lower().endswith(tuple(suffixes))
