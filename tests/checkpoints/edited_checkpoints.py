"""Edited checkpoints, from a seed, and what loading one of them does.

An edit changes a checkpoint as an attacker or a broken tool could: every checksum is
recomputed, so that only the content can give it away. A checkpoint must then be refused
by an error that names its file, or be used and give the outputs of the original. An
edit that makes another valid model, such as one with other finite weights, says so.
"""

import contextlib
import io
import json
import os
import pathlib
import random
import shutil
import signal
import zipfile
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from seg_tf import files
from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import load_encoder, load_pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.text.punkt_parameters import PunktParameters
from tests.inference import tiny_slm

FINE = ("refused", "equal", "other model")
# Seconds after which loading a tiny checkpoint counts as hanging.
_PATIENCE = 60
# Values that a JSON field gets; `_DEEP` stands for brackets in brackets without end.
_DEEP = "of many brackets"
_VALUES = (
    *(None, True, 0, -1, 3, 64, 10**9, 2**63, 10**30, 0.5, 1e300, float("nan")),
    *("", "../../etc/passwd", "os:system", "\ud800", "EncoderConfig", _DEEP),
    *([], {}, {"type": "MaskedLMConfig"}, {"type": ["x"]}, {"type": "nowhere"}),
)
# === Edits: each changes a folder, and returns what it did and whether that may make
# another valid model ===


def _json_field(draw: random.Random, folder: pathlib.Path) -> tuple[str, bool]:
    state = _read_state(folder)
    path, value = draw.choice(list(_paths(state))), draw.choice(_VALUES)
    how = draw.choice(("set", "set", "set", "removed", "added", "scaled"))
    holder = state
    for name in path[:-1]:
        holder = holder[name]
    last = path[-1]
    if how == "removed":
        del holder[last]
    elif how == "added" and isinstance(holder, dict):
        holder["added"] = value
    elif how == "scaled" and type(holder[last]) in (int, float):
        holder[last] *= draw.choice((2, 0.5, -1, 1_000_000))
    else:
        holder[last] = value
    _write_state(folder, state)
    return f"{'.'.join(map(str, path))} {how} {value!r:.40}", True


def _paths(value: Any, prefix: tuple = ()) -> Iterator[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in items:
        if (*prefix, name) != ("checksum",):
            yield (*prefix, name)
            if isinstance(inner, (dict, list)):
                yield from _paths(inner, (*prefix, name))


def _bits(draw: random.Random, folder: pathlib.Path) -> tuple[str, bool]:
    name = draw.choice(sorted(_read_state(folder)["checksums"]))
    content = bytearray((folder / name).read_bytes())
    # The heads of files hold what says how the rest is read.
    limit = draw.choice((len(content), min(len(content), 2_048)))
    for _ in range(draw.choice((1, 3, 30))):
        content[draw.randrange(limit)] ^= 1 << draw.randrange(8)
    (folder / name).write_bytes(content)
    _sign(folder)
    return f"{name}: bits flipped below {limit}", True


def _truncated(draw: random.Random, folder: pathlib.Path) -> tuple[str, bool]:
    name = draw.choice((*sorted(_read_state(folder)["checksums"]), contents.STATE_FILE))
    size = draw.randrange((folder / name).stat().st_size)
    os.truncate(folder / name, size)
    _sign(folder)
    # A vocabulary that is cut at the end of a line is another.
    return f"{name}: cut to {size} bytes", name.endswith(".txt")


def _hdf5(draw: random.Random, folder: pathlib.Path) -> tuple[str, bool]:
    others = {  # what takes the place of an array
        "wider": lambda v: np.concatenate([v, v]),
        "not finite": lambda v: v * np.nan,
        "integers": lambda v: v.astype("i4"),
        "text": lambda v: "text",
        "soft link": lambda v: h5py.SoftLink("/" + names[0]),
        "external link": lambda v: h5py.ExternalLink("/etc/passwd", "/x"),
        "other numbers": lambda v: v + 1,
    }
    how = draw.choice(("removed", "bomb", "cycle", "doubled", "external data", *others))
    with h5py.File(folder / contents.ENCODER_FILE, "a") as file:
        names: list[str] = []
        file.visititems(lambda n, v: names.append(n) if hasattr(v, "shape") else None)
        name = draw.choice(names)
        value, group = file[name][()], file[name].parent
        if how == "bomb":
            chunks = (2**20,)
            group.create_dataset("7", [2**34], "f4", chunks=chunks, compression="gzip")
        elif how in ("cycle", "doubled"):
            group["7"] = file["/" if how == "cycle" else name]
        else:
            del file[name]
        if how in others:
            file[name] = others[how](value)
        elif how == "external data":
            zeros = [("/dev/zero", 0, value.size * 4)]
            file.create_dataset(name, value.shape, "f4", external=zeros)
    _sign(folder)
    return f"{name} {how}", how in ("other numbers", "doubled")


def _npz(draw: random.Random, folder: pathlib.Path) -> tuple[str, bool]:
    path = folder / contents.TRAINING_STATE_FILE
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(sorted(name for name in entries if name.startswith("obj")))
    with np.load(path) as arrays:
        value = np.array(arrays[name.removesuffix(".npy")])
    others = {  # the content that takes the place of the entry's
        "nan": lambda: _array(value * np.nan),
        "wider": lambda: _array(np.concatenate([value, value])),
        "bomb": lambda: _array(np.zeros(2**26, "f4")),
        "pickle": lambda: _array(np.array([{}], object)),
        "text": lambda: _array(np.full(value.shape, "x")),
        "header": lambda: entries[name].replace(b"(", b"9", 1),
        "empty": lambda: b"",
    }
    how = draw.choice(("removed", "added", *others))
    if how in others:
        entries[name] = others[how]()
    elif how == "added":
        entries["objectives.00099.x.npy"] = _array(value + 1)
    else:
        del entries[name]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    _sign(folder)
    return f"{name} {how}", False


def _array(value: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, value)
    return file.getvalue()


def _not_a_file(draw: random.Random, folder: pathlib.Path) -> tuple[str, bool]:
    name = draw.choice((*sorted(_read_state(folder)["checksums"]), contents.STATE_FILE))
    kind = draw.choice(("/dev/zero", "nowhere", name, "pipe", "folder", "sparse"))
    path = folder / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 2**40)
    else:
        path.symlink_to(kind)
    return f"{name}: {kind}", False


_EDITS = (*[_json_field] * 6, _bits, _truncated, _hdf5, _npz, _not_a_file)


def _read_state(folder: pathlib.Path) -> Any:
    return json.loads((folder / contents.STATE_FILE).read_bytes())


def _sign(folder: pathlib.Path) -> None:
    """Recomputes every checksum, if the state still is JSON that has them."""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        state = _read_state(folder)
        for name in state["checksums"]:
            state["checksums"][name] = files.checksum(folder / name)
        _write_state(folder, state)


def _write_state(folder: pathlib.Path, state: Any) -> None:
    text = files.to_json(state)
    if _DEEP in text:
        text = text.replace(f'"{_DEEP}"', "[" * 100_000 + "]" * 100_000)
        (folder / contents.STATE_FILE).write_text(text)
        return
    with contextlib.suppress(UnicodeEncodeError):  # no file holds such a text
        contents.write_state(folder, state)


# === What loading does ===


def example(folder: pathlib.Path) -> pathlib.Path:
    """The run of a tiny checkpoint with all files in it."""
    parameters = PunktParameters(abbreviation_types=frozenset({"dr"}))
    return tiny_slm.write_checkpoint(
        folder,
        sentence_parameters=parameters.to_bytes(),
        sentence_splitter={"name": "own", "parameters_sha256": parameters.checksum},
    )


def outputs(run: pathlib.Path) -> list[Any]:
    """What a run's checkpoint computes of a batch and of a text."""
    draw = np.random.default_rng(0)
    names = (*tiny_slm.INDEX_TABLES, "token_ids")
    batch = {name: draw.integers(0, 3, (2, 12)).astype("int32") for name in names}
    batch["padding_mask"] = np.ones((2, 12), bool)
    encoder, _ = load_encoder(run)
    loaded = load_pretrained(run)
    sentences = loaded.splitter().split("W1 w2 w3. W4, w5 w6! W7? dr. W8 w9.")
    heads = contents.objective_variables(loaded.encoder, loaded.objectives)
    return [
        sentences,
        np.concatenate(loaded.text_encoder().encode(sentences)).tolist(),
        *(np.asarray(model(batch)).tolist() for model in (encoder, loaded.encoder)),
        *(np.asarray(variable.value).tolist() for variable in heads),
    ]


class _Hang(BaseException):
    """Caught by nothing that only catches errors."""


def _stop(*_: Any) -> None:
    raise _Hang


def outcome(
    case: int, run: pathlib.Path, expected: list[Any], scratch: pathlib.Path
) -> tuple[str, str]:
    """An edit of a copy of the run's checkpoint, and what loading it does.

    Args:
        case: seed of the edit.
        run: as `example` makes it.
        expected: its outputs.
        scratch: where the copy goes.

    Returns:
        What was done, and one of `FINE`, or what is wrong.
    """
    copied = scratch / "copied"
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(run, copied)
    (checkpoint,) = (copied / "checkpoints").iterdir()
    draw = random.Random(case)
    text, is_other_model = draw.choice(_EDITS)(draw, checkpoint)
    before = signal.signal(signal.SIGALRM, _stop)
    signal.alarm(_PATIENCE)
    try:
        is_equal = outputs(copied) == expected
    except (CheckpointError, ValueError) as error:
        # A user's error, which commands print on a line.
        is_named = str(checkpoint) in str(error)
        return text, "refused" if is_named else f"the file is not named: {error!r}"
    except _Hang:
        return text, "hangs"
    except Exception as error:
        return text, f"a traceback: {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    other = "other model" if is_other_model else "silently different"
    return text, "equal" if is_equal else other
