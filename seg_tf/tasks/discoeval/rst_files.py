"""RST-DT as DiscoEval has it: `RST_TRAIN.pkl`, `RST_DEV.pkl`, `RST_TEST.pkl`.

A file is a pickled list; an item of it is an inner node of a discourse tree:
`(relation, units of its first child, units of its second)`, the units as lists of
texts. Pickles can run code when they are read. These need none but lists, tuples and
strings, so that anything else is an error and is not run.
"""

import pathlib
import pickle
from collections.abc import Sequence
from typing import Any

from seg_tf.tasks.example import Example


class _DataOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")


def read(path: pathlib.Path, labels: Sequence[str]) -> list[Example]:
    """The nodes of a file, in order; each text has a discourse unit a line.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it holds anything but such nodes, naming the file and the node.
    """
    with open(path, "rb") as file:
        try:
            nodes = _DataOnly(file).load()
        # Whatever bytes may lead to: that file is no such pickle.
        except Exception as error:
            raise ValueError(
                f"{path} must be a pickled list of texts. Received: "
                f"{type(error).__name__}: {error}"
            ) from error
    if not isinstance(nodes, list):
        raise ValueError(
            f"{path} must be a pickled list. Received: {type(nodes).__name__}"
        )
    return [_example(path, number, node, labels) for number, node in enumerate(nodes)]


def _example(
    path: pathlib.Path, number: int, node: Any, labels: Sequence[str]
) -> Example:
    is_node = (
        isinstance(node, tuple | list)
        and len(node) == 3
        and node[0] in labels
        and all(map(_are_units, node[1:]))
    )
    if not is_node:
        raise ValueError(
            f"{path}: node {number} must be a relation ({labels[0]}, …) and two lists "
            f"of texts. Received: {str(node)[:60]!r}"
        )
    texts = tuple(
        "\n".join(" ".join(unit.split()) for unit in units) for units in node[1:]
    )
    return Example(texts, labels.index(node[0]), str(number))


def _are_units(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(unit, str) and unit.strip() for unit in value)
    )
