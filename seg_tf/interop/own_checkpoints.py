"""Checkpoints of this package, to give another of its models a start."""

import pathlib

from seg_tf import configuration
from seg_tf.checkpoints import contents, pretrained
from seg_tf.interop import layouts, own_weights
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel
from seg_tf.interop.tensor_stores import VariableStore
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.text.preparation import VOCABULARY_FILE

SEG_TF = "seg_tf"


def read(path: pathlib.Path) -> ForeignModel:
    """Opens the encoder and the masked-LM head of a checkpoint.

    Args:
        path: what `find_checkpoint` finds one by.

    Raises:
        CheckpointError: if it is damaged.
        ForeignWeightsError: if its model is no encoder like BERT.
    """
    source = pretrained.load_pretrained(path)
    model, folder = source.config.model, source.folder
    if not isinstance(model, configuration.EncoderConfig):
        raise ForeignWeightsError(
            "`--from` must be of an encoder like BERT, where it is a checkpoint of "
            f"this package. Received: {folder}, the run {source.config.name!r}, of a "
            f"{type(model).__name__}"
        )
    sizes, tables = own_weights.sizes_of(model), own_weights.tables_of(model)
    # Once each: the head has the token table under a second path.
    tied = {id(variable) for variable in source.encoder.weights}
    variables = {variable.path: variable for variable in source.encoder.weights} | {
        path: variable
        for path, variable in own_weights.variables_of(
            source.encoder, source.objectives
        ).items()
        if id(variable) not in tied
    }
    others = ", ".join(
        name
        for name, objective in source.objectives.items()
        if not isinstance(objective, MaskedLM)
    )
    return ForeignModel(
        format=SEG_TF,
        store=VariableStore(variables, str(folder)),
        layout=layouts.own(sizes, tables),
        sizes=sizes,
        table_rows=dict(model.index_tables)
        | ({"token_type": model.num_token_types} if model.num_token_types else {}),
        vocab_size=source.vocabulary.size,
        layer_norm_epsilon=model.layer_norm_epsilon,
        approximate_gelu=model.approximate_gelu,
        dropout=model.dropout,
        initializer_range=model.initializer_range,
        vocabulary=folder / VOCABULARY_FILE,
        lower_case=source.lower_case,
        notes=(f"weights of its objective {others} are not taken",) if others else (),
        files=(folder / contents.ENCODER_FILE, folder / contents.TRAINING_STATE_FILE),
    )
