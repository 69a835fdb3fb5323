"""Text encoders that know the structure of a document, for TensorFlow and Keras."""

import importlib
from typing import Any

# Loaded when they are asked for: much of the package does without TensorFlow.
_PUBLIC = {
    "LanguageModel": "seg_tf.inference.language_model",
    "MaskFiller": "seg_tf.inference.mask_filling",
    "SentenceEncoder": "seg_tf.inference.sentence_encoder",
    "SentenceOrderer": "seg_tf.inference.ordering",
    "SpanExtractor": "seg_tf.finetuning",
    "TextClassifier": "seg_tf.finetuning",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
