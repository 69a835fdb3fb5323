"""BERT's tensors by names of our own, which every format's layout refers to.

A part is a table, a kernel `(inputs, outputs)`, a bias or a scale. Attention's kernels
are matrices over all heads.
"""

# Shape key: V vocabulary, R rows of a table, D hidden size, I intermediate size.

import dataclasses

WORDS = "tables/token_ids"
POSITIONS = "tables/position_index"
TOKEN_TYPES = "tables/token_type"
POOLER = "pooler"
MASKED_LM = "masked_lm"

# Groups of parts of which a checkpoint may hold all or none.
OPTIONAL_GROUPS = (POOLER, MASKED_LM)

Shape = tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertSizes:
    """Sizes that shapes follow from. How many rows a table has is left open.

    Attributes:
        num_layers: transformer layers.
        hidden_size: width.
        num_heads: attention heads, which share the width.
        intermediate_size: width inside the feed-forward blocks.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    intermediate_size: int

    def __post_init__(self):
        if self.hidden_size % self.num_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_heads`. Received: "
                f"hidden_size={self.hidden_size}, num_heads={self.num_heads}"
            )


def table(feature: str) -> str:
    """The part that is the table of an index feature."""
    return f"tables/{feature}"


def part_shapes(sizes: BertSizes, tables: tuple[str, ...]) -> dict[str, Shape]:
    """Shape of every part of a model; None where it may have any number of rows.

    Args:
        sizes: the model's.
        tables: index features that have one, `token_type` among them.
    """
    width, inner = sizes.hidden_size, sizes.intermediate_size
    shapes: dict[str, Shape] = {WORDS: (None, width)}
    shapes |= {table(feature): (None, width) for feature in tables}
    shapes |= _norm("embeddings_norm", width)
    for layer in range(sizes.num_layers):
        at = f"layers/{layer}"
        for name in ("query", "key", "value", "attention_output"):
            shapes |= _dense(f"{at}/{name}", width, width)
        shapes |= _norm(f"{at}/attention_norm", width)
        shapes |= _dense(f"{at}/intermediate", width, inner)
        shapes |= _dense(f"{at}/output", inner, width)
        shapes |= _norm(f"{at}/output_norm", width)
    shapes |= _dense(POOLER, width, width)
    shapes |= _dense(f"{MASKED_LM}/dense", width, width)
    shapes |= _norm(f"{MASKED_LM}/norm", width)
    shapes[f"{MASKED_LM}/output_bias"] = (None,)
    return shapes


def group_of(part: str) -> str:
    """The group of a part, such as `tables`, `layers` or `pooler`."""
    return part.partition("/")[0]


def _dense(name: str, inputs: int, outputs: int) -> dict[str, Shape]:
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _norm(name: str, width: int) -> dict[str, Shape]:
    return {f"{name}/gamma": (width,), f"{name}/beta": (width,)}
