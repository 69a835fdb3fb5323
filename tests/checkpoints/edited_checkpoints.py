"""A seeded generator of edited checkpoints, and what loading one of them does.

An edit changes a checkpoint as an attacker or a broken tool could: every checksum is
recomputed, so that only the content can give it away. A checkpoint must then be refused
by an error that names its file, or be used and give the outputs of the original. An
edit that makes another valid model, such as one with other finite weights, says so.

To try more of them than the tests do, where N is their number:

  python -m tests.checkpoints.edited_checkpoints N [SEED]
"""

import collections
import contextlib
import copy
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np

from seg_tf import files
from seg_tf.checkpoints import contents
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import load_encoder, load_pretrained

# Seconds after which loading a tiny checkpoint counts as hanging.
PATIENCE = 60
# Values that a JSON field gets; `_DEEP` stands for brackets in brackets without end.
_DEEP = "of many brackets"
_VALUES = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 64, 10**9, 2**63, 10**30, -(2**70)),
    *(0.5, -0.5, 1.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", "x", "../../etc/passwd", "os:system", "\ud800", "x" * 5_000, "EncoderConfig"),
    *([], [[]], {}, {"type": "MaskedLMConfig"}, {"type": ["x"]}, {"a": {"b": 1}}),
    *([1, 2, 3], ["x"], {"type": "nowhere"}, _DEEP),
)


class Edit(NamedTuple):
    """A change of a checkpoint.

    Attributes:
        text: what it does.
        apply: called with the folder of a copy of the checkpoint.
        is_other_model: whether it may make another valid model, of other outputs.
    """

    text: str
    apply: Callable[[pathlib.Path], None]
    is_other_model: bool = False


def random_edit(draw: random.Random, folder: pathlib.Path) -> Edit:
    """An edit of a checkpoint like the one in `folder`."""
    kinds = (*[_json_field] * 6, _bytes, _truncated, _hdf5, _npz, _text, _not_a_file)
    return draw.choice(kinds)(draw, folder)


# === Edits ===


def _json_field(draw: random.Random, folder: pathlib.Path) -> Edit:
    paths = list(_paths(json.loads((folder / contents.STATE_FILE).read_text())))
    path, value = draw.choice(paths), copy.deepcopy(draw.choice(_VALUES))
    how = draw.choice(("set", "set", "set", "removed", "added", "scaled"))
    # Whether the weights say no more which settings they belong to.
    is_forged = draw.random() < 0.5

    def apply(copied: pathlib.Path) -> None:
        state = json.loads((copied / contents.STATE_FILE).read_text())
        holder = state
        for name in path[:-1]:
            holder = holder[name]
        if how == "removed":
            del holder[path[-1]]
        elif how == "added" and isinstance(holder, dict):
            holder["added"] = value
        elif how == "scaled" and type(holder[path[-1]]) in (int, float):
            holder[path[-1]] *= draw.choice((2, 0.5, -1, 1_000_000))
        else:
            holder[path[-1]] = value
        if is_forged:
            with h5py.File(copied / contents.ENCODER_FILE, "a") as file:
                del file.attrs["settings"]
            changed = files.checksum(copied / contents.ENCODER_FILE)
            if path[0] != "checksums":
                state["checksums"][contents.ENCODER_FILE] = changed
        _write_state(copied, state)

    text = f"{'forged ' * is_forged}{'.'.join(map(str, path))} {how} {value!r:.40}"
    return Edit(text, apply, is_forged)


def _paths(value: Any, prefix: tuple = ()) -> Iterator[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in items:
        if (*prefix, name) == ("checksum",):
            continue
        yield (*prefix, name)
        if isinstance(inner, (dict, list)):
            yield from _paths(inner, (*prefix, name))


def _bytes(draw: random.Random, folder: pathlib.Path) -> Edit:
    name = draw.choice(_names(folder))
    size = (folder / name).stat().st_size
    # The heads of files hold what says how the rest is read.
    limit = draw.choice((size, min(size, 2_048)))
    flips = [
        (draw.randrange(limit), 1 << draw.randrange(8))
        for _ in range(draw.choice((1, 3, 30)))
    ]

    def apply(copied: pathlib.Path) -> None:
        content = bytearray((copied / name).read_bytes())
        for at, bit in flips:
            content[at] ^= bit
        (copied / name).write_bytes(content)
        _sign(copied)

    # Bits of weights, or of words of the vocabulary, are other weights and words.
    return Edit(f"{name}: bits flipped at {flips}", apply, name != contents.STATE_FILE)


def _truncated(draw: random.Random, folder: pathlib.Path) -> Edit:
    name = draw.choice((*_names(folder), contents.STATE_FILE))
    size = draw.randrange((folder / name).stat().st_size)

    def apply(copied: pathlib.Path) -> None:
        os.truncate(copied / name, size)
        if name != contents.STATE_FILE:
            _sign(copied)

    # A vocabulary that is cut at the end of a line is another.
    return Edit(f"{name}: cut to {size} bytes", apply, name.endswith(".txt"))


def _hdf5(draw: random.Random, folder: pathlib.Path) -> Edit:
    path = contents.ENCODER_FILE
    with h5py.File(folder / path) as file:
        names: list[str] = []
        file.visititems(
            lambda name, one: names.append(name) if hasattr(one, "shape") else None
        )
    name = draw.choice(names)
    how = draw.choice(
        (
            "nan",
            "inf",
            "removed",
            "added",
            "wider",
            "bomb",
            "unwritten",
            "integers",
            "soft link",
            "external link",
            "external data",
            "cycle",
            "virtual",
            "text",
            "attributes",
            "doubled",
            "other numbers",
        )
    )

    def apply(copied: pathlib.Path) -> None:
        with h5py.File(copied / path, "a") as file:
            value, group = file[name][()], file[name].parent
            if how == "attributes":
                file.attrs["settings"] = draw.choice(("{", "[1]", "null", "{}", "x"))
            elif how in ("nan", "inf"):
                value.flat[0] = float(how)
                file[name][()] = value
            elif how == "other numbers":
                file[name][()] = value + 1
            elif how in ("added", "bomb"):
                size = 2**34 if how == "bomb" else 3
                group.create_dataset(
                    "7", [size], "f4", chunks=(min(size, 2**20),), compression="gzip"
                )
            elif how == "cycle":
                group["7"] = file["/"]
            elif how == "doubled":
                group["7"] = file[name]
            else:
                del file[name]
                if how == "wider":
                    file[name] = np.concatenate([value, value])
                elif how == "unwritten":
                    file.create_dataset(name, value.shape, "f4")
                elif how == "integers":
                    file[name] = value.astype("i4")
                elif how == "text":
                    file[name] = "text"
                elif how == "soft link":
                    file[name] = h5py.SoftLink("/" + names[0])
                elif how == "external link":
                    file[name] = h5py.ExternalLink("/etc/passwd", "/x")
                elif how == "external data":
                    size = value.size * 4
                    zeros = [("/dev/zero", 0, size)]
                    file.create_dataset(name, value.shape, "f4", external=zeros)
                elif how == "virtual":
                    layout = h5py.VirtualLayout(value.shape, "f4")
                    layout[:] = h5py.VirtualSource("/tmp/no.h5", "x", value.shape)
                    file.create_virtual_dataset(name, layout)
        _sign(copied)

    return Edit(
        f"{path}: {name} {how}", apply, how in ("other numbers", "unwritten", "doubled")
    )


def _npz(draw: random.Random, folder: pathlib.Path) -> Edit:
    path = contents.TRAINING_STATE_FILE
    with zipfile.ZipFile(folder / path) as archive:
        entries = {one: archive.read(one) for one in archive.namelist()}
    name = draw.choice(sorted(one for one in entries if one.startswith("objectives")))
    how = draw.choice(
        (
            "nan",
            "removed",
            "added",
            "wider",
            "bomb",
            "pickle",
            "text",
            "twice",
            "renamed",
            "integers",
            "header",
            "big header",
            "empty",
            "lzma",
        )
    )

    def array(value: Any, **options: Any) -> bytes:
        with tempfile.TemporaryFile() as file:
            np.lib.format.write_array(file, np.asarray(value), **options)
            file.seek(0)
            return file.read()

    def apply(copied: pathlib.Path) -> None:
        with np.load(copied / path) as archive:
            value = np.array(archive[name.removesuffix(".npy")])
        changed = dict(entries)
        if how == "nan":
            value.flat[0] = np.nan
            changed[name] = array(value)
        elif how == "removed":
            del changed[name]
        elif how == "added":
            changed["objectives.00099.kernel.npy"] = array(value)
        elif how == "wider":
            changed[name] = array(np.concatenate([value, value]))
        elif how == "bomb":
            changed[name] = array(np.zeros(2**26, "f4"))
        elif how == "pickle":
            changed[name] = array(np.array([{}], object), allow_pickle=True)
        elif how == "text":
            changed[name] = array(np.full(value.shape, "x"))
        elif how == "integers":
            changed[name] = array(value.astype("i4"))
        elif how == "header":
            changed[name] = entries[name].replace(b"(", b"9", 1)
        elif how == "big header":
            changed[name] = b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65_535
        elif how == "empty":
            changed[name] = b""
        elif how == "renamed":
            changed[name.replace("0000", "0009")] = changed.pop(name)
        method = zipfile.ZIP_LZMA if how == "lzma" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(copied / path, "w", method) as archive:
            for one, content in changed.items():
                archive.writestr(one, content)
            if how == "twice":
                other = name.replace(".npy", "x.npy")
                archive.writestr(other, array(value + 1))
        _sign(copied)

    return Edit(f"{path}: {name} {how}", apply)


def _text(draw: random.Random, folder: pathlib.Path) -> Edit:
    name = draw.choice(("vocab.txt", "sentence_parameters.json", contents.STATE_FILE))
    content = draw.choice(
        (
            b"",
            b"\xff\xfe",
            b"[" * 200_000,
            b'{"a":' * 200_000,
            b"null",
            b"[]",
            b"{}",
            b"1" * 10_000,
            b"\n\n",
            b'{"format": "sentence_function"}',
            b"\x00" * 99,
            b'{"format": "sentence_function", "format_version": 1, "function": "os:_"}',
        )
    )

    def apply(copied: pathlib.Path) -> None:
        (copied / name).write_bytes(content)
        if name != contents.STATE_FILE:
            _sign(copied)

    return Edit(f"{name}: {content[:20]!r}", apply)


def _not_a_file(draw: random.Random, folder: pathlib.Path) -> Edit:
    name = draw.choice((*_names(folder), contents.STATE_FILE))
    kind = draw.choice(
        (
            "/dev/zero",
            "/dev/null",
            "/dev/random",
            "itself",
            "nowhere",
            "pipe",
            "folder",
            "sparse",
            "removed",
        )
    )

    def apply(copied: pathlib.Path) -> None:
        path = copied / name
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "sparse":
            path.touch()
            os.truncate(path, 2**40)
        elif kind != "removed":
            path.symlink_to(name if kind == "itself" else kind)

    return Edit(f"{name}: {kind}", apply)


def _names(folder: pathlib.Path) -> list[str]:
    state = json.loads((folder / contents.STATE_FILE).read_text())
    return sorted(state["checksums"])


def _sign(folder: pathlib.Path) -> None:
    """Recomputes every checksum, and that of the vocabulary."""
    with contextlib.suppress(ValueError):  # a state that is JSON no more
        state = json.loads((folder / contents.STATE_FILE).read_bytes())
        for name in state["checksums"]:
            state["checksums"][name] = files.checksum(folder / name)
        _write_state(folder, state)


def _write_state(folder: pathlib.Path, state: Any) -> None:
    text = files.to_json(state)
    if _DEEP in text:
        depth = 100_000
        text = text.replace(f'"{_DEEP}"', "[" * depth + "]" * depth)
        (folder / contents.STATE_FILE).write_text(text)
        return
    with contextlib.suppress(UnicodeEncodeError):  # no file holds such a text
        contents.write_state(folder, state)


# === What loading does ===


class Outputs(NamedTuple):
    """What a checkpoint computes of a batch and of a text."""

    sequence: np.ndarray
    of_encoder: np.ndarray
    objectives: list[np.ndarray]
    sentences: list[str]
    token_ids: list[int]


_TEXT = "W1 w2 w3. W4, w5 w6! W7? dr. W8 w9."


def outputs(folder: pathlib.Path, batch: dict[str, np.ndarray]) -> Outputs:
    """Loads a checkpoint in each way, and uses it."""
    loaded = load_pretrained(folder)
    encoder, _ = load_encoder(folder)
    sentences = loaded.splitter().split(_TEXT)
    return Outputs(
        np.asarray(loaded.encoder(batch)),
        np.asarray(encoder(batch)),
        [
            np.asarray(variable.value)
            for variable in contents.objective_variables(
                loaded.encoder, loaded.objectives
            )
        ],
        sentences,
        np.concatenate(loaded.text_encoder().encode(sentences)).tolist(),
    )


def outcome(
    edit: Edit,
    folder: pathlib.Path,
    batch: dict[str, np.ndarray],
    expected: Outputs,
    scratch: pathlib.Path,
) -> str:
    """`refused`, `equal` or `other model`, or what is wrong.

    Args:
        edit: what is done to a copy of the checkpoint.
        folder: the checkpoint.
        batch: features for its encoder.
        expected: its outputs.
        scratch: where the copy goes.
    """
    copied = scratch / folder.name
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(folder, copied)
    edit.apply(copied)
    try:
        with _limited():
            found = outputs(copied, batch)
    except (CheckpointError, ValueError) as error:
        # A user's error, which commands print on a line.
        is_named = str(copied) in str(error)
        return "refused" if is_named else f"the file is not named: {error!r}"
    except _Hang:
        return "hangs"
    except Exception as error:
        return f"a traceback: {type(error).__name__}: {error}"
    is_equal = all(
        len(one) == len(two) and np.array_equal(one, two)
        for one, two in [
            *zip(found.objectives, expected.objectives, strict=False),
            (found.sequence, expected.sequence),
            (found.of_encoder, expected.of_encoder),
            (found.sentences, expected.sentences),
            (found.token_ids, expected.token_ids),
        ]
    )
    if is_equal and len(found.objectives) == len(expected.objectives):
        return "equal"
    return "other model" if edit.is_other_model else "silently different"


class _Hang(BaseException):
    """Caught by nothing that only catches errors."""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


FINE = ("refused", "equal", "other model")


def example(folder: pathlib.Path) -> tuple[pathlib.Path, dict[str, np.ndarray]]:
    """A tiny checkpoint with all files in it, and a batch for its encoder."""
    from seg_tf.text.punkt_parameters import PunktParameters
    from tests.inference import tiny_slm

    parameters = PunktParameters(abbreviation_types=frozenset({"dr"}))
    run = tiny_slm.write_checkpoint(
        folder,
        sentence_parameters=parameters.to_bytes(),
        sentence_splitter={"name": "own", "parameters_sha256": parameters.checksum},
    )
    (checkpoint,) = (run / "checkpoints").iterdir()
    draw = np.random.default_rng(0)
    batch = {
        name: draw.integers(0, 3, (2, 12)).astype("int32")
        for name in (*tiny_slm.INDEX_TABLES, "token_ids")
    }
    return checkpoint, {**batch, "padding_mask": np.ones((2, 12), bool)}


def main(number: int, seed: int) -> None:
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        checkpoint, batch = example(pathlib.Path(name) / "run")
        expected = outputs(checkpoint, batch)
        for case in range(seed, seed + number):
            edit = random_edit(random.Random(case), checkpoint)
            print(case, edit.text[:100], end=": ", file=sys.stderr, flush=True)
            how = outcome(edit, checkpoint, batch, expected, pathlib.Path(name))
            print(how[:200], file=sys.stderr, flush=True)
            counts[how if how in FINE else "WRONG"] += 1
            if how not in FINE:
                print(case, edit.text, how, sep="\n  ", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
