"""The weights of our own encoders and masked-LM heads, by BERT's parts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.interop import bert_parts, layouts, pooler_file
from seg_tf.interop.bert_parts import BertSizes
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.models.encoder import Encoder
from seg_tf.objectives.masked_lm import MaskedLM

_HEAD = "head"


def sizes_of(model: Any) -> BertSizes:
    """Sizes of an encoder, or of the config of one."""
    return BertSizes(
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        num_heads=model.num_heads,
        intermediate_size=model.intermediate_size,
    )


def tables_of(model: Any) -> tuple[str, ...]:
    """Features that an encoder, or the config of one, embeds beside word pieces."""
    types = ("token_type",) if model.num_token_types else ()
    return (*model.index_tables, *types)


def variables_of(encoder: Encoder, objectives: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of an encoder, and of its masked-LM head if it has one, by path."""
    variables = {variable.path: variable for variable in encoder.weights}
    for head in (one.head for one in objectives.values() if isinstance(one, MaskedLM)):
        for variable in head.weights:
            _, _, below = f"/{variable.path}".rpartition(f"/{_HEAD}/")
            if below:
                variables[f"{_HEAD}/{below}"] = variable
    return variables


def read_parts(
    encoder: Encoder, objectives: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Every part of a model, those of its masked-LM head if it has one.

    Raises:
        ForeignWeightsError: if the layers of the model are not BERT's.
    """
    if not getattr(encoder, "has_bert_layers", False):
        raise ForeignWeightsError(
            "`encoder` must have BERT's layers and no rotary positions. Received: "
            f"{type(encoder).__name__}, trunk={getattr(encoder, 'trunk', None)!r}"
        )
    sizes, tables = sizes_of(encoder), tables_of(encoder)
    variables = variables_of(encoder, objectives)
    shapes = bert_parts.part_shapes(sizes, tables)
    return {
        part: np.asarray(
            form.part(
                np.asarray(variables[name].value), _known(shapes[part], variables[name])
            ),
            np.float32,
        )
        for part, (name, form) in layouts.own(sizes, tables).items()
        if name in variables
    }


def parts_to_hand_on(
    pretrained: Pretrained, objectives: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Parts for a BERT of others: two token types, and the pooler of the import.

    Args:
        pretrained: the checkpoint.
        objectives: those of it whose masked-LM head is wanted.
    """
    parts = read_parts(pretrained.encoder, objectives)
    # A tokenizer gives the second text of a pair the type 1.
    types = parts.get(
        bert_parts.TOKEN_TYPES,
        np.zeros((1, pretrained.encoder.hidden_size), np.float32),
    )
    parts[bert_parts.TOKEN_TYPES] = types if len(types) > 1 else types.repeat(2, 0)
    return parts | pooler_file.read_parts(pretrained.folder)


def has_trained_head(pretrained: Pretrained) -> bool:
    """True if a checkpoint's masked-LM head was trained, here or at its source."""
    imported = contents.read_state(pretrained.folder).get("imported") or {}
    untrained = tuple(imported.get("new", ()))
    heads = [
        name for name, one in pretrained.objectives.items() if isinstance(one, MaskedLM)
    ]
    return bool(heads) and not any(f"{_HEAD}/" in path for path in untrained)


def assign_parts(
    encoder: Encoder, objectives: Mapping[str, Any], parts: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """Gives variables the values of parts.

    Args:
        encoder: a built encoder.
        objectives: name -> a built objective.
        parts: those of BERT's parts that are known; others are left as they are.

    Returns:
        The path of the variable that each part went to.
    """
    layout = layouts.own(sizes_of(encoder), tables_of(encoder))
    variables = variables_of(encoder, objectives)
    # What does not fit comes out here, before the first variable is changed.
    stored = {
        layout[part].name: layout[part].form.stored(value)
        for part, value in parts.items()
        if part in layout and layout[part].name in variables
    }
    for path, value in stored.items():
        if tuple(variables[path].shape) != value.shape:
            raise ForeignWeightsError(
                f"the weight {path!r} must have the shape "
                f"{tuple(variables[path].shape)}. Found: {value.shape}"
            )
    for path, value in stored.items():
        variables[path].assign(value)
    return {
        part: layout[part].name
        for part in parts
        if part in layout and layout[part].name in stored
    }


def _known(shape: bert_parts.Shape, variable: Any) -> bert_parts.Shape:
    """A part's shape with the rows that a table of ours has."""
    if None not in shape:
        return shape
    return tuple(variable.shape)
