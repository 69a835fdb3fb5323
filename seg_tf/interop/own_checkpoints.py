"""Checkpoints of this package, to give another of its models a start."""

import dataclasses
import pathlib

from seg_tf.checkpoints import contents, pretrained
from seg_tf.interop import layouts, own_weights, pooler_file
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel
from seg_tf.interop.tensor_stores import VariableStore
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, VOCABULARY_FILE

SEG_TF = "seg_tf"


def read(
    path: pathlib.Path,
    vocab_file: pathlib.Path | None = None,
    lower_case: bool | None = None,
) -> ForeignModel:
    """Opens the encoder and the masked-LM head of a checkpoint.

    Args:
        path: what `find_checkpoint` finds one by.
        vocab_file: as for `load_pretrained`, and so is `lower_case`.
        lower_case: see there.

    Raises:
        CheckpointError: if it is damaged, or vocabulary or casing are not its own.
        ForeignWeightsError: if its model is no encoder like BERT.
    """
    source = pretrained.load_pretrained(path, vocab_file, lower_case)
    model, folder = source.config.model, source.folder
    if not getattr(model, "has_bert_layers", False):
        raise ForeignWeightsError(
            "`--from` must be of an encoder with BERT's layers and without rotary "
            f"positions, where it is a checkpoint of this package. Received: {folder}, "
            f"the run {source.config.name!r}, of a {type(model).__name__}, "
            f"model.trunk={getattr(model, 'trunk', None)!r}"
        )
    sizes, tables = own_weights.sizes_of(model), own_weights.tables_of(model)
    # Once each: the head has the token table under a second path.
    tied = {id(variable) for variable in source.encoder.weights}
    heads = source.objectives if own_weights.has_trained_head(source) else {}
    variables = {variable.path: variable for variable in source.encoder.weights} | {
        path: variable
        for path, variable in own_weights.variables_of(source.encoder, heads).items()
        if id(variable) not in tied
    }
    variables |= pooler_file.read_parts(folder)
    parameters = folder / SENTENCE_PARAMETERS_FILE
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
        table_rows=source.encoder.index_caps,
        vocab_size=source.vocabulary.size,
        layer_norm_epsilon=model.layer_norm_epsilon,
        approximate_gelu=model.approximate_gelu,
        dropout=model.dropout,
        initializer_range=model.initializer_range,
        vocabulary=vocab_file or folder / VOCABULARY_FILE,
        normalization=dataclasses.asdict(source.normalization),
        sentence_splitter=source.sentence_splitter,
        sentence_parameters=parameters.read_bytes() if parameters.exists() else None,
        notes=(f"weights of its objective {others} are not taken",) if others else (),
        files=(folder / contents.ENCODER_FILE, folder / contents.TRAINING_STATE_FILE),
    )
