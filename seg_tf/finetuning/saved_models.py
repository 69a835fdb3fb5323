"""Fine-tuned models from files that Keras wrote."""

import pathlib

import keras

from seg_tf.finetuning.text_classifier import TextClassifier
from seg_tf.finetuning.text_layout import text_layout
from seg_tf.finetuning.text_readout import TextReadout, text_readout
from seg_tf.training.pretrained import Pretrained


def load_classifier(
    path: pathlib.Path, pretrained: Pretrained, num_texts: int
) -> TextClassifier:
    """A classifier that was fine-tuned from a checkpoint.

    Args:
        path: a `.keras` file.
        pretrained: the checkpoint, whose encoder it has a copy of.
        num_texts: texts of its examples.

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
    if not isinstance(model, TextClassifier):
        raise ValueError(
            f"`finetuned_model` must hold a TextClassifier. Received: {path}, which "
            f"holds a {type(model).__name__}"
        )
    expected = text_readout(text_layout(pretrained), num_texts)
    if (
        type(model.readout) is not type(expected)
        or model.readout.get_config() != expected.get_config()
    ):
        raise ValueError(
            f"`finetuned_model` must read examples of {num_texts} texts in the rows of "
            f"the checkpoint. Received: {path}, whose readout is "
            f"{_describe(model.readout)}, not {_describe(expected)}"
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


def _describe(readout: TextReadout) -> str:
    return f"{type(readout).__name__}({readout.get_config()})"
