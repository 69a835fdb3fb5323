"""Reads the parts of a BERT from a store: all that a layout names, or an error."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from seg_tf.interop import bert_parts, unmatched_tensors
from seg_tf.interop.bert_parts import BertSizes, Shape
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.layouts import Layout
from seg_tf.interop.tensor_stores import TensorStore


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts that were read, and the unmatched tensors.

    Attributes:
        values: float32 array of each part.
        names: the tensor that each part came from.
        unmatched: names of the tensors that belong to no part.
        missed: those of them that the source's encoder may compute with.
    """

    values: Mapping[str, np.ndarray]
    names: Mapping[str, str]
    unmatched: tuple[str, ...]
    missed: tuple[str, ...]


def read_parts(
    store: TensorStore, layout: Layout, sizes: BertSizes, tables: tuple[str, ...]
) -> Parts:
    """Reads every part, or raises before anything is used.

    Args:
        store: the tensors.
        layout: which of them holds which part.
        sizes: those that the model is to have.
        tables: index features whose tables are wanted, `token_type` among them.

    Raises:
        ForeignWeightsError: naming the tensor, and the shape expected and found, if
            one is missing, has another shape, cannot be read or holds what is no
            number, or there are layers beyond those of `sizes`.
    """
    unmatched_tensors.check_layers(store, layout, sizes.num_layers)
    shapes = bert_parts.part_shapes(sizes, tables)
    absent = _absent_groups(store, layout)
    wanted = {
        part: shape
        for part, shape in shapes.items()
        if bert_parts.group_of(part) not in absent
    }
    # Names and shapes of all first: they are had at once, and reading takes long.
    for part, shape in wanted.items():
        _check_shape(store, layout[part].name, layout[part].form.stored_shape(shape))
    values = {}
    for part, shape in wanted.items():
        name, form = layout[part]
        stored = store.read(name)
        if not np.isfinite(stored).all():
            raise ForeignWeightsError(
                f"{store.source}: the tensor {name!r} must hold finite numbers. Found: "
                f"{int((~np.isfinite(stored)).sum())} of {stored.size} that are not"
            )
        values[part] = np.ascontiguousarray(form.part(stored, shape), np.float32)
    _check_rows_of_head(store, layout, values)
    names = {part: layout[part].name for part in wanted}
    others = tuple(sorted(set(store.shapes) - set(names.values())))
    return Parts(values, names, others, unmatched_tensors.of_encoder(layout, others))


def _absent_groups(store: TensorStore, layout: Layout) -> set[str]:
    """The groups without which a checkpoint is whole, where nothing of one is there.

    A group of which a part is there must be there with all.
    """
    present = {
        bert_parts.group_of(part)
        for part, (name, _) in layout.items()
        if name in store.shapes
    }
    return set(bert_parts.OPTIONAL_GROUPS) - present


def _check_shape(store: TensorStore, name: str, expected: Shape) -> None:
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


def _check_rows_of_head(
    store: TensorStore, layout: Layout, values: Mapping[str, np.ndarray]
) -> None:
    """The masked-LM head has a bias for each row of the token table."""
    part = f"{bert_parts.MASKED_LM}/output_bias"
    rows = len(values[bert_parts.WORDS])
    if part in values and len(values[part]) != rows:
        raise ForeignWeightsError(
            f"{store.source}: the tensor {layout[part].name!r} must have the shape "
            f"({rows}), a number for each row of {layout[bert_parts.WORDS].name!r}. "
            f"Found: {shape_text(values[part].shape)}"
        )


def shape_text(shape: Shape) -> str:
    """A shape for people: `(any, 768)`."""
    return f"({', '.join('any' if size is None else str(size) for size in shape)})"
