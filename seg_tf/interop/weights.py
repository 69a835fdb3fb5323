"""Tensors of other programs, read and checked, and the weights of our own models."""

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from seg_tf.checkpoints import contents, weight_files
from seg_tf.checkpoints.errors import DamagedCheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop.layouts import (
    HEAD,
    OUTPUT_BIAS,
    POOLER,
    TOKEN_TYPES,
    WORDS,
    Shape,
    Sizes,
    TensorNames,
    shape_text,
    weight_shapes,
)
from seg_tf.objectives.masked_lm import MaskedLM

POOLER_FILE = "pooler.npz"
# Rows behind the last token that a token table may have.
MAX_PADDING = 1024
# Components of names that no output of an encoder depends on: buffers that count,
# heads above it, and what optimizers keep.
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
    """Tensors by name, each read when it is asked for.

    Attributes:
        source: where they come from, for messages.
        shapes: shape of each, by name.
        read: the tensor of a name; raises `ForeignWeightsError` if it cannot be read.
    """

    source: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray] = dataclasses.field(repr=False)

    @classmethod
    def of_variables(cls, variables: Mapping[str, Any], source: str) -> "Store":
        """Variables in memory, by names of the caller's choice."""
        shapes = {name: tuple(one.shape) for name, one in variables.items()}
        return cls(source, shapes, lambda name: np.asarray(variables[name]))

    def prefix_of(self, *endings: str) -> str | None:
        """Prefix of the shortest name that has one of the endings; None without one."""
        found = [
            name.removesuffix(ending)
            for ending in endings
            for name in self.shapes
            if name.endswith(ending)
        ]
        return min(found, key=len, default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A foreign checkpoint: its tensors, sizes, settings and vocabulary.

    Attributes:
        format: a key of `seg_tf.interop.convert.FORMATS`.
        store: the tensors.
        layout: their names and forms.
        sizes: sizes of the model.
        table_rows: index feature, or `token_type`, to the rows of its table.
        idle_tables: those of these features that the model never reads.
        vocab_size: rows of its token table, as its config says, if it does.
        layer_norm_epsilon: float.
        approximate_gelu: True for GELU by tanh.
        dropout: rate.
        initializer_range: standard deviation of its initial weights.
        vocabulary: file of the vocabulary, or its rows; None if there is none.
        normalization: settings of `seg_tf.text.normalization.Normalization` that its
            files give; the rows of the vocabulary decide about the others.
        sentence_splitter: name and checksum of its sentence splitter, if known.
        sentence_parameters: content of the splitter's file, as in `TextPreparation`.
        notes: lines for the report.
        files: the files with the weights.
    """

    format: str
    store: Store
    layout: TensorNames
    sizes: Sizes
    table_rows: Mapping[str, int]
    idle_tables: tuple[str, ...] = ()
    vocab_size: int | None = None
    layer_norm_epsilon: float = 1e-12
    approximate_gelu: bool = True
    dropout: float = 0.1
    initializer_range: float = 0.02
    vocabulary: pathlib.Path | tuple[str, ...] | None = None
    normalization: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    sentence_splitter: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sentence_parameters: bytes | None = None
    notes: tuple[str, ...] = ()
    files: tuple[pathlib.Path, ...] = ()

    @property
    def is_segabert(self) -> bool:
        """True if it has SegaBERT's tables."""
        return "token_index" in self.table_rows


# === Reading ===


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights that were read, and the tensors that were not.

    Attributes:
        values: our weight to a float32 array.
        names: our weight to the tensor that it came from.
        unmatched: names of the tensors that no weight came from.
        missed: those of them that the source's encoder may compute with.
        notes: lines for the report.
    """

    values: Mapping[str, np.ndarray]
    names: Mapping[str, str]
    unmatched: tuple[str, ...]
    missed: tuple[str, ...]
    notes: tuple[str, ...]


def read(
    store: Store, layout: TensorNames, sizes: Sizes, tables: Collection[str]
) -> Weights:
    """Reads every weight of a model, or raises before anything is used.

    Pooler and masked-LM head may be missing as a whole.

    Args:
        store: the tensors.
        layout: their names and forms.
        sizes: sizes of the model.
        tables: features that have a table, `token_type` included.

    Raises:
        ForeignWeightsError: naming the tensor, and the shape expected and found, if
            one is missing, has another shape, cannot be read, is not finite, or is of a
            layer beyond those of `sizes`.
    """
    _check_num_layers(store, layout, sizes.num_layers)
    shapes, names, found_in = {}, {}, {}
    for weight, shape in weight_shapes(sizes, tables).items():
        if (place := layout.find(weight)) is None:
            continue
        candidates = (place[0], *layout.aliases.get(weight, ()))
        name = next((one for one in candidates if one in store.shapes), place[0])
        shapes[weight], names[weight] = shape, name
        if (name, place[1]) in found_in:
            raise ForeignWeightsError(
                f"{store.source}: the tensor {name!r} must be used once. Found: it is "
                f"both {found_in[name, place[1]]!r} and {weight!r}"
            )
        found_in[name, place[1]] = weight
    for group in (POOLER, HEAD):
        weights = [weight for weight in shapes if weight.startswith(f"{group}/")]
        if not any(names[weight] in store.shapes for weight in weights):
            for weight in weights:
                del shapes[weight], names[weight]
    # Names and shapes first: they cost nothing, and reading takes long.
    for weight, shape in shapes.items():
        _check_shape(store, names[weight], layout.stored_shape(weight, shape))
    values = {}
    for weight, shape in shapes.items():
        stored = store.read(names[weight])
        if not np.isfinite(stored).all():
            raise ForeignWeightsError(
                f"{store.source}: the tensor {names[weight]!r} must hold finite "
                f"numbers. Found: {int((~np.isfinite(stored)).sum())} of {stored.size} "
                "that are not"
            )
        value = layout.to_ours(weight, stored, shape)
        values[weight] = np.ascontiguousarray(value, np.float32)
    rows = len(values[WORDS])
    if OUTPUT_BIAS in values and len(values[OUTPUT_BIAS]) != rows:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {names[OUTPUT_BIAS]!r} must have the shape "
            f"({rows}), a number for each row of {names[WORDS]!r}. Found: "
            f"{shape_text(values[OUTPUT_BIAS].shape)}"
        )
    unmatched = sorted(set(store.shapes) - set(names.values()))
    notes = []
    for weight, aliases in layout.aliases.items():
        for alias in aliases:
            if weight not in values or alias not in unmatched:
                continue
            if np.array_equal(store.read(alias), values[weight]):
                unmatched.remove(alias)
            else:
                notes.append(
                    f"{alias} differs from {names[weight]}, and our masked-LM head "
                    "computes with the latter: predictions of masked pieces are not "
                    "the source's"
                )
    missed = _of_encoder(layout, names, unmatched)
    return Weights(values, names, tuple(unmatched), missed, tuple(notes))


def _check_num_layers(store: Store, layout: TensorNames, num_layers: int) -> None:
    numbers = layout.layer_numbers(store.shapes)
    layers = sorted((number, name) for name, number in numbers.items())
    further = [one for one in layers if one[0] >= num_layers]
    if further:
        raise ForeignWeightsError(
            f"{store.source}: must have as many layers as its config says, "
            f"{num_layers}. Found: {further[-1][0] + 1} layers, with the tensor "
            f"{further[0][1]!r}"
        )


def _check_shape(store: Store, name: str, expected: Shape) -> None:
    if name not in store.shapes:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {name!r} must be there, of shape "
            f"{shape_text(expected)}. Found: none of that name"
        )
    found = store.shapes[name]
    fits = len(found) == len(expected) and all(
        size in (None, other) for size, other in zip(expected, found, strict=True)
    )
    if not fits:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {name!r} must have the shape "
            f"{shape_text(expected)}. Found: {shape_text(found)}"
        )


def _of_encoder(
    layout: TensorNames, names: Mapping[str, str], unmatched: Collection[str]
) -> tuple[str, ...]:
    """The unmatched tensors that an encoder may compute with: not known as harmless."""
    of_encoder = [
        name
        for weight, name in names.items()
        if not weight.startswith((HEAD, POOLER))
        and name not in layout.aliases.get(weight, ())
    ]
    first, last = min(of_encoder), max(of_encoder)
    common = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(first, last, strict=False)
    )
    start = re.sub(r"[^./]*$", "", "".join(letter for letter, _ in common))
    return tuple(
        name
        for name in unmatched
        if name.startswith(start) and not _HARMLESS.search(name)
    )


# === Our own models ===


def tables_of(model: Any) -> tuple[str, ...]:
    """Features that an encoder, or the config of one, has tables for."""
    types = ("token_type",) if model.num_token_types else ()
    return (*model.index_tables, *types)


def variables_of(encoder: Any, objectives: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of an encoder, and of its masked-LM head if it has one."""
    variables = {variable.path: variable for variable in encoder.weights}
    for objective in objectives.values():
        if isinstance(objective, MaskedLM):
            for variable in objective.head.weights:
                _, _, below = f"/{variable.path}".rpartition(f"/{HEAD}/")
                if below:
                    variables[f"{HEAD}/{below}"] = variable
    return variables


def assign(
    encoder: Any, objectives: Mapping[str, Any], values: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    """Gives variables new values; returns the weights that have a variable.

    Raises:
        ForeignWeightsError: if a shape differs. No variable was changed then.
    """
    variables = variables_of(encoder, objectives)
    assigned = tuple(name for name in values if name in variables)
    for name in assigned:
        expected, found = tuple(variables[name].shape), values[name].shape
        if expected != found:
            raise ForeignWeightsError(
                f"the weight {name!r} must have the shape {expected}. Found: {found}"
            )
    for name in assigned:
        variables[name].assign(values[name])
    return assigned


def has_trained_head(pretrained: Pretrained) -> bool:
    """True if a checkpoint's masked-LM head was trained, here or at its source."""
    imported = contents.read_state(pretrained.folder).get("imported") or {}
    has_head = any(isinstance(one, MaskedLM) for one in pretrained.objectives.values())
    return has_head and not any(f"{HEAD}/" in path for path in imported.get("new", ()))


def values_to_hand_on(
    pretrained: Pretrained, *, with_head: bool
) -> dict[str, np.ndarray]:
    """Weights for a BERT of another program: two token types, and any pooler."""
    encoder = pretrained.encoder
    objectives = pretrained.objectives if with_head else {}
    names = weight_shapes(Sizes.of(encoder), tables_of(encoder))
    values = {
        name: np.asarray(variable.value, np.float32)
        for name, variable in variables_of(encoder, objectives).items()
        if name in names
    }
    # A tokenizer gives the second text of a pair the type 1.
    zeros = np.zeros((1, encoder.hidden_size), np.float32)
    types = values.get(TOKEN_TYPES, zeros)
    values[TOKEN_TYPES] = types if len(types) > 1 else types.repeat(2, 0)
    return values | (read_pooler(pretrained.folder) or {})


def write_pooler(folder: pathlib.Path, values: Mapping[str, np.ndarray]) -> None:
    """Keeps the pooler of a BERT, which our encoders do without, in a checkpoint."""
    np.savez(
        folder / POOLER_FILE,
        kernel=values[f"{POOLER}/kernel"],
        bias=values[f"{POOLER}/bias"],
    )


def read_pooler(folder: pathlib.Path) -> dict[str, np.ndarray] | None:
    """`pooler/kernel` `(D, D)` and `pooler/bias` `(D,)` in a checkpoint, if there."""
    path = folder / POOLER_FILE
    if not path.is_file():
        return None
    arrays = weight_files.read_npz(path)
    kernel, bias = arrays.get("kernel"), arrays.get("bias")
    if kernel is None or bias is None or kernel.shape[1:] != bias.shape:
        raise DamagedCheckpointError(
            f"{path}: must hold `kernel` of shape (C, D) and `bias` of shape (D,). "
            f"Received: { ({name: array.shape for name, array in arrays.items()}) }"
        )
    return {f"{POOLER}/kernel": kernel, f"{POOLER}/bias": bias}
