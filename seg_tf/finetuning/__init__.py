"""Fine-tuning pretrained encoders on tasks: Keras models, and batches for them.

```python
import keras
from seg_tf.finetuning import TextClassifier, load_pretrained, text_batches

checkpoint = load_pretrained("runs/segabert_base")
classifier = TextClassifier.from_pretrained(checkpoint, num_classes=2, num_texts=2)
train = text_batches(checkpoint, pairs, labels, batch_size=32, seed=1)
classifier.compile(
    keras.optimizers.AdamW(2e-5),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
classifier.fit(train, epochs=3)
```

What the encoder reads follows from the checkpoint: BERT, SegaBERT, SLM or ReAT.
"""

from seg_tf.finetuning.span_batches import SpanExample, span_batches
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.text_batches import text_batches
from seg_tf.finetuning.text_classifier import TextClassifier
from seg_tf.training.pretrained import load_pretrained

__all__ = [
    "SpanExample",
    "SpanExtractor",
    "TextClassifier",
    "load_pretrained",
    "span_batches",
    "text_batches",
]
