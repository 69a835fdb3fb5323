"""Fine-tuned models as files of Keras."""

import pathlib

import keras

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.classification.text_classifier import TextClassifier
from seg_tf.finetuning.spans.span_extractor import SpanExtractor
from seg_tf.layouts.readouts import TextReadout

MODEL_FILE = "model.keras"


def save_finetuned(model: keras.Model, folder: pathlib.Path) -> None:
    """Writes a model as it is used: without what its training needed.

    The state of AdamW is twice as large as the model.

    Args:
        model: a `TextClassifier` or a `SpanExtractor`.
        folder: existing folder, of a trial that is not finished.
    """
    # `from_config` makes parts of its own, and Keras has no other way to leave out the
    # optimizer of a compiled model.
    alone = type(model).from_config(model.get_config())
    alone.set_weights(model.get_weights())
    alone.save(folder / MODEL_FILE)


def load_finetuned(
    path: pathlib.Path, pretrained: Pretrained, num_texts: int = 1
) -> TextClassifier | SpanExtractor:
    """A model that was fine-tuned from a checkpoint.

    Args:
        path: a `.keras` file.
        pretrained: the checkpoint, whose encoder it has a copy of.
        num_texts: texts of the examples of a classifier.

    Raises:
        ValueError: if there is no such file, it is of something else, or it does not
            read what the checkpoint's rows hold.
    """
    if not path.is_file():
        raise ValueError(
            f"`finetuned_model` must be a file that Keras wrote. Received: {path}, "
            "which is no file"
        )
    model = keras.models.load_model(path, compile=False)
    if isinstance(model, TextClassifier):
        _check_readout(path, model.readout, pretrained, num_texts)
    elif isinstance(model, SpanExtractor):
        _check_pointers(path, model, pretrained)
    else:
        raise ValueError(
            "`finetuned_model` must hold a TextClassifier or a SpanExtractor. "
            f"Received: {path}, which holds a {type(model).__name__}"
        )
    of_encoder = model.encoder.get_config()
    differing = [
        f"{name}={of_encoder.get(name)} instead of {value}"
        for name, value in pretrained.encoder.get_config().items()
        if name in ("vocab_size", "index_tables", "hidden_size", "num_layers")
        and of_encoder.get(name) != value
    ]
    if differing:
        raise ValueError(
            "`finetuned_model` must have been fine-tuned from the checkpoint. "
            f"Received: {path}, whose encoder has {', '.join(differing)}"
        )
    return model


def _check_readout(
    path: pathlib.Path, readout: TextReadout, pretrained: Pretrained, num_texts: int
) -> None:
    expected = pretrained.layout().readout(num_texts)
    if (
        type(readout) is not type(expected)
        or readout.get_config() != expected.get_config()
    ):
        raise ValueError(
            f"`finetuned_model` must read examples of {num_texts} texts in the rows of "
            f"the checkpoint. Received: {path}, whose readout is "
            f"{_describe(readout)}, not {_describe(expected)}"
        )


def _check_pointers(
    path: pathlib.Path, model: SpanExtractor, pretrained: Pretrained
) -> None:
    layout = pretrained.layout().for_spans()
    if model.points_at_sentences and layout.sent_id is None:
        raise ValueError(
            "`finetuned_model` must point at what the rows of the checkpoint hold. "
            f"Received: {path}, which points at sentences, and {pretrained.folder}, "
            "whose rows have no [SENT]"
        )


def _describe(readout: TextReadout) -> str:
    return f"{type(readout).__name__}({readout.get_config()})"
