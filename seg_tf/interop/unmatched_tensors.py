"""Tensors of a checkpoint that match no part of a BERT."""

import itertools
import re
from collections.abc import Iterable

from seg_tf.interop import bert_parts
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.layouts import Layout
from seg_tf.interop.tensor_stores import TensorStore

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
_OF_ENCODER = ("tables", "embeddings_norm", "layers")


def check_layers(store: TensorStore, layout: Layout, num_layers: int) -> None:
    """Makes sure that a checkpoint has no more layers than its config says.

    Raises:
        ForeignWeightsError: naming the first tensor of a further layer.
    """
    layers = sorted(
        (layer, name) for name, layer in numbered_layers(store, layout).items()
    )
    further = [one for one in layers if one[0] >= num_layers]
    if further:
        raise ForeignWeightsError(
            f"{store.source}: must have as many layers as its config says, "
            f"{num_layers}. Found: {further[-1][0] + 1} layers, with the tensor "
            f"{further[0][1]!r}"
        )


def numbered_layers(store: TensorStore, layout: Layout) -> dict[str, int]:
    """Return the layer of each tensor that has the name of one of a layer.

    Args:
        store: the tensors.
        layout: names of a model of at least one layer.
    """
    start, separator = _layer_name(layout)
    # Layers have at most six digits, so that no name makes a number of thousands.
    numbered = re.compile(rf"{re.escape(start)}(\d{{1,6}}){re.escape(separator)}")
    matches = [match for match in map(numbered.match, store.shapes) if match]
    return {match.string: int(match[1]) for match in matches}


def name_in_layer(layout: Layout, name: str, layer: int) -> str:
    """Return the name that a tensor of layer 0 has in another layer."""
    start, _ = _layer_name(layout)
    return f"{start}{layer}{name.removeprefix(f'{start}0')}"


def of_encoder(layout: Layout, unmatched: Iterable[str]) -> tuple[str, ...]:
    """The unmatched tensors that an encoder may compute with: not known as harmless.

    Args:
        layout: names of the tensors that were looked for.
        unmatched: names of the tensors that belong to no part.
    """
    common = _common_start(
        [
            name
            for part, (name, _) in layout.items()
            if bert_parts.group_of(part) in _OF_ENCODER
        ]
    )
    prefix = re.match(r"(.*[./])?", common)[0]
    return tuple(
        name
        for name in unmatched
        if name.startswith(prefix) and not _HARMLESS.search(name)
    )


def _layer_name(layout: Layout) -> tuple[str, str]:
    """Return what is before and after the number: `bert.encoder.layer.` and `.`."""
    first = _common_start(
        [name for part, (name, _) in layout.items() if part.startswith("layers/0/")]
    )
    return first[:-2], first[-1]


def _common_start(names: Iterable[str]) -> str:
    """The characters that all names begin with."""
    ordered = sorted(names)
    # Of all pairs the first and the last differ the earliest.
    first, last = ordered[0], ordered[-1]
    same = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(first, last, strict=False)
    )
    return "".join(one for one, _ in same)
