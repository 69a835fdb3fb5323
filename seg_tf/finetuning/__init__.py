"""Fine-tuning pretrained encoders on tasks: Keras models, and batches for them.

```python
from seg_tf.finetuning import TextClassifier, finetuning_optimizer
from seg_tf.finetuning import load_pretrained, text_batches

checkpoint = load_pretrained("runs/segabert_base")
train = text_batches(checkpoint, texts, labels, batch_size=32, seed=1)
model = TextClassifier.from_pretrained(checkpoint, num_classes=2)
model.compile(finetuning_optimizer(3e-5, 3 * len(train)), model.loss_of_labels())
model.fit(train, epochs=3)
```

What the encoder reads follows from the checkpoint: BERT, SegaBERT, SLM or ReAT.
`texts` are strings, or tuples of them (`num_texts=2` for pairs). `text_batches` without
labels is what `predict` takes. `run_finetuning.py` runs whole tasks of benchmarks, by
`seg_tf.finetuning.runners`.
"""

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.finetuning.classification.text_batches import text_batches
from seg_tf.finetuning.classification.text_classifier import TextClassifier
from seg_tf.finetuning.optimizer import finetuning_optimizer
from seg_tf.finetuning.probing.frozen_encoder import FrozenEncoder
from seg_tf.finetuning.spans.span_batches import SpanExample, span_batches
from seg_tf.finetuning.spans.span_extractor import SpanExtractor

__all__ = [
    "FrozenEncoder",
    "SpanExample",
    "SpanExtractor",
    "TextClassifier",
    "finetuning_optimizer",
    "load_pretrained",
    "span_batches",
    "text_batches",
]
