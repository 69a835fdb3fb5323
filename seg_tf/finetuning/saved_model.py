"""Fine-tuned models as files."""

import pathlib

import keras

MODEL_FILE = "model.keras"


def save_model(model: keras.Model, folder: pathlib.Path) -> None:
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
