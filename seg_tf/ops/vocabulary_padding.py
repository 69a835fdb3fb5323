"""Vocabularies padded to the sizes that the kernels of a GPU are fast for."""

# Shape key: V vocabulary, D width.

from typing import Any

from keras import ops

# Far below any logit, so that its probability is exactly 0; float16 holds it.
_NEVER = -3e4


def pad_vocabulary(table: Any, bias: Any, multiple: int) -> tuple[Any, Any]:
    """An output layer whose vocabulary is padded to a multiple.

    The rows of logits lie one after another in memory. Where a row does not begin at a
    multiple of 16 bytes (8 numbers of half precision), tensor cores read and write it
    in small pieces, in the product and in the two of its backward pass. 30,522 is no
    multiple of 8. Padded are the operands of the product, so that weights, checkpoints
    and gradients have their own sizes; that copies the table once, as the cast to half
    precision does anyway.

    Words of the padding have a probability of 0, and their gradient is 0.

    Args:
        table: vectors of the words `(V, D)`.
        bias: float tensor `(V,)`.
        multiple: int; 1 pads nothing.

    Returns:
        Table and bias, of as many rows as the next multiple of `multiple`.
    """
    missing = -table.shape[0] % multiple
    if not missing:
        return table, bias
    table = ops.pad(table, [[0, missing], [0, 0]])
    return table, ops.pad(bias, [[0, missing]], constant_values=_NEVER)
