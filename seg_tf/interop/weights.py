"""Tensors of other programs, read and checked, and the weights of our own models."""

import dataclasses
import os.path
import pathlib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from seg_tf.checkpoints import contents, weight_files
from seg_tf.checkpoints.errors import DamagedCheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import EncoderConfig
from seg_tf.interop.tensor_names import (
    HEAD,
    OUTPUT_BIAS,
    POOLER,
    TOKEN_TYPES,
    WORDS,
    TensorNames,
    shape_text,
    table,
    weight_shapes,
)
from seg_tf.objectives.masked_lm import MaskedLM

POOLER_FILE = "pooler.npz"
# Rows that a token table may have after the last token.
MAX_PADDING = 1024
# Parts of names that an encoder's output does not depend on: counters, heads, and the
# state of optimizers.
_HARMLESS = re.compile(
    r"(^|[./])("
    r"position_ids|token_type_ids"
    r"|cls|seq_relationship|next_sentence|sentence_prediction|classifier|qa_outputs"
    r"|pooler|pooler_transform|pooled_dense"
    r"|optimizer|adam\w*|lamb\w*|beta_?[12]_power|learning_rate"
    r"|iter|iterations|global_step|save_counter"
    r")([./]|$)",
    re.IGNORECASE,
)


class ForeignWeightsError(ValueError):
    """Weights are damaged, incomplete or of another model; nothing was loaded."""


@dataclasses.dataclass(frozen=True)
class Store:
    """Tensors by name, each read on demand.

    Attributes:
        source: their origin, for messages.
        shapes: shape of each, by name.
        read: returns the tensor of a name, or raises `ForeignWeightsError`.
    """

    source: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray] = dataclasses.field(repr=False)

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any], source: str) -> "Store":
        shapes = {name: tuple(value.shape) for name, value in variables.items()}
        return cls(source, shapes, lambda name: np.asarray(variables[name]))

    def find_prefix(self, *endings: str) -> str | None:
        """Prefix of the shortest name with one of the endings; None without one."""
        prefixes = [
            name.removesuffix(ending)
            for ending in endings
            for name in self.shapes
            if name.endswith(ending)
        ]
        return min(prefixes, key=len, default=None)

    def table_rows(self, names: TensorNames, features: Collection[str]) -> dict:
        """Rows of the tables of features, for those that have one."""
        rows = {}
        for feature in features:
            name = names.name(table(feature))
            if name not in self.shapes:
                continue
            if len(self.shapes[name]) != 2 or not self.shapes[name][0]:
                raise ForeignWeightsError(
                    f"{self.source}: the tensor {name!r} must be a table with at least "
                    f"one row. Found: {shape_text(self.shapes[name])}"
                )
            rows[feature] = self.shapes[name][0]
        return rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A foreign checkpoint: its tensors, settings and vocabulary.

    Attributes:
        format: a key of `seg_tf.interop.convert.FORMATS`.
        store: the tensors.
        names: their names and forms.
        model: its settings, and the rows of all tables.
        idle_tables: index features whose tables the model never reads.
        vocabulary: vocabulary file, or its rows; None if there is none.
        normalization: settings of `seg_tf.text.normalization.Normalization` in its
            files; the vocabulary determines the others.
        sentence_splitter: name and checksum of its sentence splitter, if known.
        sentence_parameters: content of the splitter's file, as in `TextPreparation`.
        notes: lines for the report.
        files: the files with the weights.
    """

    format: str
    store: Store
    names: TensorNames
    model: EncoderConfig
    idle_tables: tuple[str, ...] = ()
    vocabulary: pathlib.Path | tuple[str, ...] | None = None
    normalization: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    sentence_splitter: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sentence_parameters: bytes | None = None
    notes: tuple[str, ...] = ()
    files: tuple[pathlib.Path, ...] = ()


# === Reading ===


@dataclasses.dataclass(frozen=True)
class Weights:
    """Loaded weights.

    Attributes:
        values: our weight -> float32 array.
        sources: our weight -> its tensor.
        unmatched: tensors without a weight of ours.
        missing: the unmatched tensors that the source's encoder may compute with.
        notes: lines for the report.
    """

    values: Mapping[str, np.ndarray]
    sources: Mapping[str, str]
    unmatched: tuple[str, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def read(
    store: Store, names: TensorNames, model: Any, tables: Collection[str]
) -> Weights:
    """Reads all weights of a model; pooler and masked-LM head may be absent.

    Args:
        store: the tensors.
        names: their names and forms.
        model: config of the model.
        tables: features that have a table, `token_type` included.

    Raises:
        ForeignWeightsError: naming the tensor, if one is absent, unreadable, not
            finite, of another shape or of a layer that the config does not have.
    """
    layers = names.layer_numbers(store.shapes)
    extra = sorted((n, name) for name, n in layers.items() if n >= model.num_layers)
    if extra:
        raise ForeignWeightsError(
            f"{store.source}: must have the number of layers that its config says, "
            f"{model.num_layers}. Found: {extra[-1][0] + 1} layers, with the tensor "
            f"{extra[0][1]!r}"
        )
    shapes, sources = {}, {}
    for weight, shape in weight_shapes(model, tables).items():
        if place := names.find(weight):
            choices = (place[0], *names.aliases.get(weight, ()))
            shapes[weight] = shape
            sources[weight] = next(filter(store.shapes.__contains__, choices), place[0])
    for group in (POOLER, HEAD):
        members = [weight for weight in shapes if weight.startswith(f"{group}/")]
        if not any(sources[weight] in store.shapes for weight in members):
            for weight in members:
                del shapes[weight], sources[weight]
    # Names and shapes first: checking them is fast, and reading is slow.
    for weight, shape in shapes.items():
        expected = names.stored_shape(weight, shape)
        actual = store.shapes.get(sources[weight])
        if (
            actual is None
            or len(actual) != len(expected)
            or any(
                size not in (None, other)
                for size, other in zip(expected, actual, strict=True)
            )
        ):
            raise ForeignWeightsError(
                f"{store.source}: the tensor {sources[weight]!r} must have the shape "
                f"{shape_text(expected)}. Found: "
                f"{'no tensor of that name' if actual is None else shape_text(actual)}"
            )
    values = {}
    for weight, shape in shapes.items():
        stored = store.read(sources[weight])
        if not np.isfinite(stored).all():
            raise ForeignWeightsError(
                f"{store.source}: the tensor {sources[weight]!r} must have finite "
                f"values only. Found: {int((~np.isfinite(stored)).sum())} of "
                f"{stored.size} that are not"
            )
        value = names.to_ours(weight, stored, shape)
        values[weight] = np.ascontiguousarray(value, np.float32)
    rows = len(values[WORDS])
    if OUTPUT_BIAS in values and len(values[OUTPUT_BIAS]) != rows:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {sources[OUTPUT_BIAS]!r} must have the shape "
            f"({rows}), a value for each row of {sources[WORDS]!r}. Found: "
            f"{shape_text(values[OUTPUT_BIAS].shape)}"
        )
    unmatched = sorted(set(store.shapes) - set(sources.values()))
    notes = []
    for weight, aliases in names.aliases.items():
        for alias in set(aliases).intersection(unmatched if weight in values else ()):
            if np.array_equal(store.read(alias), values[weight]):
                unmatched.remove(alias)
            else:
                notes.append(
                    f"{alias} differs from {sources[weight]}, which our masked-LM head "
                    "uses: its predictions differ from the source's"
                )
    encoder_tensors = [
        name
        for weight, name in sources.items()
        if not weight.startswith((HEAD, POOLER))
        and name not in names.aliases.get(weight, ())
    ]
    common = os.path.commonprefix(encoder_tensors)  # noqa: RUF071 - of characters
    start = re.sub(r"[^./]*$", "", common)
    missing = tuple(
        name
        for name in unmatched
        if name.startswith(start) and not _HARMLESS.search(name)
    )
    return Weights(values, sources, tuple(unmatched), missing, tuple(notes))


# === Our own models ===


def list_tables(model: Any) -> tuple[str, ...]:
    """Features that an encoder, or its config, has tables for."""
    return (*model.index_tables, *(("token_type",) if model.num_token_types else ()))


def named_variables(encoder: Any, objectives: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of an encoder, and of its masked-LM head if it has one."""
    variables = {variable.path: variable for variable in encoder.weights}
    for objective in objectives.values():
        if isinstance(objective, MaskedLM):
            for variable in objective.head.weights:
                _, _, name = f"/{variable.path}".rpartition(f"/{HEAD}/")
                if name:
                    variables[f"{HEAD}/{name}"] = variable
    return variables


def has_trained_head(pretrained: Pretrained) -> bool:
    """True if a checkpoint's masked-LM head was trained, here or at its source."""
    imported = contents.read_state(pretrained.folder).get("imported") or {}
    has_head = any(isinstance(o, MaskedLM) for o in pretrained.objectives.values())
    return has_head and not any(f"{HEAD}/" in path for path in imported.get("new", ()))


def exported_values(
    pretrained: Pretrained, *, with_head: bool
) -> dict[str, np.ndarray]:
    """Weights for another program's BERT: two token types, and a pooler if imported."""
    encoder = pretrained.encoder
    names = weight_shapes(encoder, list_tables(encoder))
    variables = named_variables(encoder, pretrained.objectives if with_head else {})
    values = {
        name: np.asarray(variable.value, np.float32)
        for name, variable in variables.items()
        if name in names
    }
    # Tokenizers give the second text of a pair the type 1.
    zeros = np.zeros((1, encoder.hidden_size), np.float32)
    types = values.get(TOKEN_TYPES, zeros)
    values[TOKEN_TYPES] = types if len(types) > 1 else types.repeat(2, 0)
    return values | (read_pooler(pretrained.folder) or {})


def write_pooler(folder: pathlib.Path, values: Mapping[str, np.ndarray]) -> None:
    """Stores BERT's pooler, which our encoders do not have, in a checkpoint."""
    arrays = {name: values[f"{POOLER}/{name}"] for name in ("kernel", "bias")}
    np.savez(folder / POOLER_FILE, **arrays)


def read_pooler(folder: pathlib.Path) -> dict[str, np.ndarray] | None:
    """A checkpoint's `pooler/kernel` `(D, D)` and `pooler/bias` `(D,)`, if present."""
    path = folder / POOLER_FILE
    if not path.is_file():
        return None
    arrays = weight_files.read_npz(path)
    kernel, bias = arrays.get("kernel"), arrays.get("bias")
    if kernel is None or bias is None or kernel.shape[1:] != bias.shape:
        raise DamagedCheckpointError(f"{path}: must have a `kernel` and a `bias`")
    return {f"{POOLER}/kernel": kernel, f"{POOLER}/bias": bias}
