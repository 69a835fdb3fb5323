"""Encoders and language models."""

from seg_tf.models.encoder import Encoder
from seg_tf.models.reat import ReAT
from seg_tf.models.transformer_xl import TransformerXL

__all__ = ["Encoder", "ReAT", "TransformerXL"]
