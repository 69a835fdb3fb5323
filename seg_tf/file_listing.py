"""The files of an input path: their order, their names, and what is passed over."""

import glob
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from seg_tf.remote_files import Path as Path
from seg_tf.remote_files import is_url as is_url
from seg_tf.remote_files import remote_path, with_retries
from seg_tf.remote_files import to_path as to_path

if TYPE_CHECKING:
    import upath

HIDDEN = "hidden"
HIDDEN_FOLDER = "hidden_folder"
OTHER_NAME = "other_name"
NOT_A_FILE = "not_a_file"
"""Reasons to pass over a file. A hidden folder is one entry, whatever is in it; what
is not a file is a pipe, a device or a link to nothing."""

PassOver = Callable[[str, Path], None]
"""Takes the reason and the path of a file that is passed over."""

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_WILDCARDS = frozenset("*?[")


def _say_nothing(reason: str, path: Path) -> None:
    del reason, path


def list_files(
    input_path: str | os.PathLike[str],
    suffixes: Sequence[str] = (),
    pass_over: PassOver = _say_nothing,
) -> list[Path]:
    """Lists the files below `input_path`, sorted by their relative name.

    Args:
        input_path: what is to be read. A file; a folder, searched recursively
            without hidden files; or a glob of files and folders, where `**` matches
            any depth. URLs of these, such as `s3://bucket/folder`, are read with
            fsspec.
        suffixes: what names of files in a folder end in, before any suffix of a
            compression. Empty takes all. A file that `input_path` names itself, or
            that a glob matches, is always taken.
        pass_over: called once for each file of a folder that is not taken, in order
            of the names.

    Raises:
        FileNotFoundError: if there is no such file or folder.
        ValueError: if no file matches, all files that match are empty, or a pipe is
            named; or the package that reads such URLs is not installed.
        OSError: if a remote folder cannot be read.
    """
    text = _to_text(input_path)
    if not text:
        raise ValueError("The input must name a file, a folder or a glob. Received: ''")
    passed_over: set[tuple[str, Path]] = set()

    def note(reason: str, path: Path) -> None:
        passed_over.add((reason, path))

    files, looked_for = _find(text, suffixes, note)
    if not files:
        raise ValueError(
            f"The input must hold {looked_for}, hidden ones aside. "
            f"Received: {text!r}, which holds none"
            + (f" and {len(passed_over)} others" if passed_over else "")
            + ("; a glob takes files of any name" if suffixes else "")
        )
    # A glob such as "**" matches a folder and what lies in it.
    taken = set(files)
    files = sorted(taken, key=lambda file: relative_name(file, text))
    if not any(file.stat().st_size for file in files):
        raise ValueError(
            f"The input must hold text. Received: {text!r}, whose {len(files)} "
            f"file(s) are all empty, {files[0].name!r} among them"
        )
    for reason, path in sorted(
        passed_over, key=lambda noted: (relative_name(noted[1], text), noted[0])
    ):
        if path not in taken:
            pass_over(reason, path)
    return files


def _find(
    text: str, suffixes: Sequence[str], pass_over: PassOver
) -> tuple[list[Path], str]:
    """The files of an input, unsorted, and words for those that were looked for."""
    if is_url(text):
        return _remote_files(text, suffixes, pass_over), "files that match"
    if _is_glob(text):
        files = [
            file
            for match in glob.glob(text, recursive=True)
            for file in walk(pathlib.Path(match), suffixes, pass_over)
        ]
        return files, "files that match the glob"
    if not os.path.exists(text):
        raise FileNotFoundError(
            f"The input must exist. Received: {text!r}, which is neither a file nor a "
            "folder"
        )
    names = " or ".join(f"*{suffix}" for suffix in suffixes)
    looked_for = f"files named {names} (plain, .gz, .bz2, .xz or .zst)"
    files = list(walk(pathlib.Path(text), suffixes, pass_over))
    return files, looked_for if suffixes else "files"


def _to_text(input_path: str | os.PathLike[str]) -> str:
    text = str(input_path)
    return text if is_url(text) else os.path.expanduser(os.fspath(input_path))


def _remote_files(
    url: str, suffixes: Sequence[str], pass_over: PassOver
) -> list["upath.UPath"]:
    """`list_files` of a URL, unsorted."""
    root = remote_path(url)
    try:
        is_there = _is_there(root)
        is_pattern = bool(_WILDCARDS.intersection(url)) and not is_there
        roots = [root]
        if is_pattern:
            names = root.fs.glob(root.path)
            # As a glob of local files: a hidden one has to be asked for.
            hidden = "/." in root.path
            roots = [
                _sibling(root, name) for name in names if hidden or "/." not in name
            ]
        elif not is_there:
            raise FileNotFoundError(
                f"The input must exist. Received: {url!r}, which is neither a file "
                "nor a folder"
            )
        return [
            file for path in roots for file in _remote_walk(path, suffixes, pass_over)
        ]
    except OSError:
        raise
    # Each kind of storage raises different exceptions.
    except Exception as error:
        raise OSError(
            f"{url}: cannot be listed: {type(error).__name__}: {error}"
        ) from error


def _is_there(path: "upath.UPath") -> bool:
    try:  # `exists` is False for whatever a server of HTTP answers with an error.
        with_retries(str(path), lambda: path.fs.info(path.path))
    except FileNotFoundError:
        return False
    return True


def _remote_walk(
    root: "upath.UPath", suffixes: Sequence[str], pass_over: PassOver
) -> Iterator["upath.UPath"]:
    if root.is_file():
        yield root
        return
    for name in root.fs.find(root.path):
        file = _sibling(root, name)
        parts = pathlib.PurePosixPath(_remote_relative(file, root)).parts
        hidden = next(
            (place for place, part in enumerate(parts) if part.startswith(".")), None
        )
        if hidden is None:
            if _matches(file.name, suffixes):
                yield file
            else:
                pass_over(OTHER_NAME, file)
        elif hidden == len(parts) - 1:
            pass_over(HIDDEN, file)
        else:
            pass_over(HIDDEN_FOLDER, root.joinpath(*parts[: hidden + 1]))


def _sibling(path: "upath.UPath", name: str) -> "upath.UPath":
    """The path with `name` in the file system of `path`."""
    return remote_path(path.fs.unstrip_protocol(name))


def _remote_relative(path: "upath.UPath", root: "upath.UPath") -> str:
    return path.path.removeprefix(root.path.rstrip("/")).lstrip("/")


def relative_name(path: Path, input_path: str | os.PathLike[str]) -> str:
    """Name of a listed file relative to the input's root, in POSIX style.

    The root of a folder is itself, that of a file the folder it lies in, that of
    a glob the part before the first wildcard.
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
    """The inputs that are given with commas between them; one if it is there whole.

    Raises:
        ValueError: if one of several is empty.
    """
    text = _to_text(inputs)
    if "," not in text or os.path.exists(text):
        return [text]
    given = [item.strip() for item in text.split(",")]
    if not all(given):
        raise ValueError(
            "Several inputs must each name a file, a folder or a glob. Received: "
            f"{text!r}"
        )
    return given


def short_names(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Names of paths: their ends, as short as tells all of them apart."""
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
    path: pathlib.Path,
    suffixes: Sequence[str] = (),
    pass_over: PassOver = _say_nothing,
) -> Iterator[pathlib.Path]:
    """Yields the files of a folder as in `list_files`, unsorted; or the file itself.

    Args:
        path: folder or file.
        suffixes: as in `list_files`.
        pass_over: called for each file of a folder that is not taken.

    Raises:
        ValueError: if it is a pipe or a device.
        OSError: if a folder cannot be read, rather than leave out what is in it.
    """
    if path.is_file():
        yield path
        return
    _check_is_no_pipe(path)
    visited = set()
    for folder, subfolders, names in os.walk(path, onerror=_raise, followlinks=True):
        # Sorted, so that of two ways to a folder it is always the same one taken.
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


def _check_is_no_pipe(path: pathlib.Path) -> None:
    if path.is_dir() or not path.exists():
        return
    kind = "a pipe" if path.is_fifo() else "a device or socket"
    raise ValueError(
        "The input must be files, which are read more than once: for a checksum, and "
        f"again when a build resumes. Received: {str(path)!r}, which is {kind}. Write "
        "the text into a file first (compressed files are read as they are, gzip, "
        "bzip2, xz and Zstandard)"
    )


def _raise(error: OSError) -> None:
    raise error


def _matches(name: str, suffixes: Sequence[str]) -> bool:
    stem, suffix = os.path.splitext(name.lower())
    if suffix in COMPRESSION_SUFFIXES:
        # `corpus.gz` does not say what is in it; it may well be what is wanted.
        return not suffixes or "." not in stem or stem.endswith(tuple(suffixes))
    return not suffixes or name.lower().endswith(tuple(suffixes))
