"""What it means that a checkpoint has tensors which no part of a BERT came from."""

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
    first = _common_start(
        [name for part, (name, _) in layout.items() if part.startswith("layers/0/")]
    )
    # Such as `bert.encoder.layer.0.`, of which the number is to be another.
    numbered = re.compile(rf"{re.escape(first[:-2])}(\d+){re.escape(first[-1])}")
    matches = [match for match in map(numbered.match, store.shapes) if match]
    layers = sorted((int(match[1]), match.string) for match in matches)
    further = [one for one in layers if one[0] >= num_layers]
    if further:
        raise ForeignWeightsError(
            f"{store.source}: must have as many layers as its config says, "
            f"{num_layers}. Found: {further[-1][0] + 1} layers, with the tensor "
            f"{further[0][1]!r}"
        )


def of_encoder(layout: Layout, left_over: Iterable[str]) -> tuple[str, ...]:
    """Those left over that an encoder may compute with: all not known to be harmless.

    Args:
        layout: names of the tensors that were looked for.
        left_over: names of those that nothing was loaded from.
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
        for name in left_over
        if name.startswith(prefix) and not _HARMLESS.search(name)
    )


def _common_start(names: Iterable[str]) -> str:
    """The characters that all names begin with."""
    ordered = sorted(names)
    # Of all pairs the first and the last differ the earliest.
    first, last = ordered[0], ordered[-1]
    same = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(first, last, strict=False)
    )
    return "".join(one for one, _ in same)
