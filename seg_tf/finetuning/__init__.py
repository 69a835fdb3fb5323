"""Fine-tuning pretrained encoders on tasks: Keras models, and batches for them.

```python
classifier = TextClassifier.from_preset("runs/segabert_base", num_classes=2)
classifier.fit(texts, labels, epochs=3)
classifier.save_to_preset("reviews")
classifier.export("served")
```

What the encoder reads follows from the checkpoint: BERT, SegaBERT, SLM or ReAT.
`texts` are strings, or tuples of them (`num_texts=2` for pairs). `run_finetuning.py`
runs whole tasks of benchmarks, by `seg_tf.finetuning.runners`.
"""

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.finetuning.classification.text_batches import text_batches
from seg_tf.finetuning.classification.text_classifier import TextClassifier
from seg_tf.finetuning.optimizer import finetuning_optimizer
from seg_tf.finetuning.probing.frozen_encoder import FrozenEncoder
from seg_tf.finetuning.spans.span_batches import SpanExamples
from seg_tf.finetuning.spans.span_extractor import SpanExtractor

__all__ = [
    "FrozenEncoder",
    "SpanExamples",
    "SpanExtractor",
    "TextClassifier",
    "finetuning_optimizer",
    "load_pretrained",
    "text_batches",
]
