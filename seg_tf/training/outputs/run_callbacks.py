"""Callbacks of one's own: named in a config or by a flag, told of every row logged.

A callback is one of Keras. It may have one method more,

    on_log(updates, row)

which is called on the first process alone, with each row that the command logs: in
pretraining the values that `log.jsonl` and TensorBoard get, under TensorBoard's names;
in fine-tuning those of an epoch. Keras's own logs are means since its epoch began.
"""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import keras

from seg_tf.text.splitters import load_function
from seg_tf.training.errors import TrainingStopped

CallbackFactory = Callable[[pathlib.Path], keras.callbacks.Callback]


def find_factories(references: Sequence[str], argument: str) -> list[CallbackFactory]:
    """Imports what makes the callbacks, each `"package.module:function"`.

    Args:
        references: their names.
        argument: where they were given, for errors.

    Raises:
        ValueError: if one cannot be imported.
    """
    return [load_function(reference, argument) for reference in references]


def make_callbacks(
    factories: Iterable[CallbackFactory], folder: pathlib.Path
) -> list[keras.callbacks.Callback]:
    """Calls each factory with the folder, which is made if need be.

    Raises:
        TrainingStopped: if what comes back is no Keras callback.
    """
    made = []
    for factory in factories:
        folder.mkdir(parents=True, exist_ok=True)
        callback = factory(folder)
        if not isinstance(callback, keras.callbacks.Callback):
            raise TrainingStopped(
                "`callbacks` must name functions that return a Keras callback. "
                f"Received: {factory!r}, which returned {callback!r}"
            )
        made.append(callback)
    return made


def tell(
    callbacks: Iterable[keras.callbacks.Callback],
    updates: int,
    row: Mapping[str, float],
) -> None:
    """Hands a row of the log to the callbacks that take it."""
    for callback in callbacks:
        if hasattr(callback, "on_log"):
            callback.on_log(updates, dict(row))
