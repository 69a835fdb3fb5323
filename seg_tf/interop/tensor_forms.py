"""The forms in which formats hold a part: as it is, transposed, by heads, packed."""

# Shape key: D hidden size, H heads, K size of a head.

import abc
import dataclasses

import numpy as np

from seg_tf.interop.bert_parts import Shape


class TensorForm(abc.ABC):
    """A way to hold a part of a known shape in a tensor."""

    @abc.abstractmethod
    def stored_shape(self, shape: Shape) -> Shape:
        """Shape of the tensor that holds a part of shape `shape`."""

    @abc.abstractmethod
    def part(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        """The part of shape `shape` in a tensor of its `stored_shape`."""

    @abc.abstractmethod
    def stored(self, part: np.ndarray) -> np.ndarray:
        """The tensor that holds a part."""


class AsItIs(TensorForm):
    """The part itself."""

    def stored_shape(self, shape: Shape) -> Shape:
        return shape

    def part(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        return stored

    def stored(self, part: np.ndarray) -> np.ndarray:
        return part


class Transposed(TensorForm):
    """A kernel `(outputs, inputs)`, as PyTorch has them."""

    def stored_shape(self, shape: Shape) -> Shape:
        return shape[::-1]

    def part(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        return stored.T

    def stored(self, part: np.ndarray) -> np.ndarray:
        return part.T


@dataclasses.dataclass(frozen=True)
class OutputsByHead(TensorForm):
    """Projection to the heads: a kernel `(D, H, K)` or a bias `(H, K)`."""

    num_heads: int

    def stored_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.num_heads, shape[-1] // self.num_heads)

    def part(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        return stored.reshape(shape)

    def stored(self, part: np.ndarray) -> np.ndarray:
        return part.reshape(self.stored_shape(part.shape))


@dataclasses.dataclass(frozen=True)
class InputsByHead(TensorForm):
    """Projection from the heads: a kernel `(H, K, D)`."""

    num_heads: int

    def stored_shape(self, shape: Shape) -> Shape:
        return (self.num_heads, shape[0] // self.num_heads, *shape[1:])

    def part(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        return stored.reshape(shape)

    def stored(self, part: np.ndarray) -> np.ndarray:
        return part.reshape(self.stored_shape(part.shape))


@dataclasses.dataclass(frozen=True)
class StackedRows(TensorForm):
    """One of three parts that lie one below the other, kernels transposed.

    So Megatron-LM, on which SegaBERT's authors built, holds query, key and value.

    Args:
        number: which of the three, from 0.
    """

    number: int

    def stored_shape(self, shape: Shape) -> Shape:
        outputs, *inputs = shape[::-1]
        return (3 * outputs, *inputs)

    def part(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        outputs = shape[-1]
        return stored[self.number * outputs :][:outputs].T

    def stored(self, part: np.ndarray) -> np.ndarray:
        raise NotImplementedError("Nothing is written in this form")
