"""Keras models and batches for fine-tuning pretrained encoders on tasks.

The encoder is a BERT, SegaBERT, SLM or ReAT, each with its own input features. See
`TextClassifier` for an example. The command `seg-tf finetune` uses `runners`.
"""

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.finetuning.optimizer import finetuning_optimizer
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.spans import SpanExamples
from seg_tf.finetuning.text_classifier import TextClassifier

__all__ = [
    "SpanExamples",
    "SpanExtractor",
    "TextClassifier",
    "finetuning_optimizer",
    "load_pretrained",
]
