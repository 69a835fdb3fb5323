"""Keras layers of the encoders and language models."""

from seg_tf.layers.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from seg_tf.layers.attention import MultiHeadAttention
from seg_tf.layers.common import Dropout
from seg_tf.layers.embeddings import IndexEmbedding
from seg_tf.layers.reat import AlphaTransformerLayer, SentenceTransformerLayer
from seg_tf.layers.sequence_reconstructor import SequenceReconstructor
from seg_tf.layers.transformer import ModernTransformerLayer, TransformerEncoder
from seg_tf.layers.transformer_xl import (
    RelativePositions,
    SegmentRelativeAttention,
    TransformerXLLayer,
)

__all__ = [
    "AdaptiveEmbedding",
    "AdaptiveSoftmax",
    "AlphaTransformerLayer",
    "Dropout",
    "IndexEmbedding",
    "ModernTransformerLayer",
    "MultiHeadAttention",
    "RelativePositions",
    "SegmentRelativeAttention",
    "SentenceTransformerLayer",
    "SequenceReconstructor",
    "TransformerEncoder",
    "TransformerXLLayer",
]
