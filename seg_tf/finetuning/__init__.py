"""Keras models and batches for fine-tuning pretrained encoders on tasks.

```python
classifier = TextClassifier.from_preset("runs/segabert_base", num_classes=2)
classifier.fit(texts, labels, epochs=3)
classifier.save_to_preset("reviews")
classifier.export("served")
```

The checkpoint (BERT, SegaBERT, SLM or ReAT) determines the encoder's features. `texts`
are strings, or tuples of strings (`num_texts=2` for pairs). `seg-tf finetune` runs
benchmark tasks with `seg_tf.finetuning.runners`.
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
