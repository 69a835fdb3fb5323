"""Operations that layers and objectives use, on any Keras backend."""

from seg_tf.ops.attention import (
    attention_weights,
    fused_attention,
    gather_vectors,
    mean_vectors,
    rotary_sizes,
    rotate,
    rotations,
    visible_keys,
)
from seg_tf.ops.losses import masked_accuracy, masked_cross_entropy
from seg_tf.ops.relative_logits import position_vectors

__all__ = [
    "attention_weights",
    "fused_attention",
    "gather_vectors",
    "masked_accuracy",
    "masked_cross_entropy",
    "mean_vectors",
    "position_vectors",
    "rotary_sizes",
    "rotate",
    "rotations",
    "visible_keys",
]
