"""Encoders for fine-tuning and export: copies, so that the checkpoint's own stays.

And under what they are made: precision, and a seed.
"""

import contextlib
import random
from collections.abc import Iterator

import keras

from seg_tf.checkpoints.pretrained import Pretrained


def copy_encoder(
    pretrained: Pretrained, *, randomly_initialized: bool = False
) -> keras.Model:
    """Copies an encoder under the current dtype policy; a row is one window.

    Args:
        pretrained: whose encoder is copied.
        randomly_initialized: whether it starts from new weights, as pretraining did,
            to see what pretraining is worth.
    """
    encoder = pretrained.encoder
    config = {**encoder.get_config(), "dtype": keras.config.dtype_policy()}
    if "packed_windows" in config:
        config["packed_windows"] = False
    # Not the constructor: of a layer among the arguments this makes a copy as well.
    copied = type(encoder).from_config(config)
    if not randomly_initialized:
        copied.set_weights(encoder.get_weights())
    return copied


@contextlib.contextmanager
def under_dtype_policy(policy: keras.DTypePolicy | str | None) -> Iterator[None]:
    """Makes Keras's layers under a policy of precision inside.

    Args:
        policy: the policy, or its name, such as "mixed_bfloat16"; None leaves the one
            that holds.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy or before)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Makes what Keras draws inside, for weights and dropout, depend on a seed alone.

    Layers without a seed draw one from Python's generator, whose state is as before
    afterwards.

    Args:
        seed: any number; None leaves the generator alone.
    """
    if seed is None:
        yield
        return
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
