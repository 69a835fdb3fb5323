"""Text encoders that use the structure of documents, for TensorFlow and Keras."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seg_tf.finetuning import SpanExtractor, TextClassifier
    from seg_tf.inference.language_model import LanguageModel
    from seg_tf.inference.masked_lm import MaskFiller
    from seg_tf.inference.ordering import SentenceOrderer
    from seg_tf.inference.sentence_encoder import SentenceEncoder

__all__ = [
    "LanguageModel",
    "MaskFiller",
    "SentenceEncoder",
    "SentenceOrderer",
    "SpanExtractor",
    "TextClassifier",
]
__version__ = "0.3.0.dev0"

# Imported on first use, because much of the package does not need TensorFlow.
_PUBLIC = {
    "LanguageModel": "seg_tf.inference.language_model",
    "MaskFiller": "seg_tf.inference.masked_lm",
    "SentenceEncoder": "seg_tf.inference.sentence_encoder",
    "SentenceOrderer": "seg_tf.inference.ordering",
    "SpanExtractor": "seg_tf.finetuning",
    "TextClassifier": "seg_tf.finetuning",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
