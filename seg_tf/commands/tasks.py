"""Lists the benchmark tasks with their texts, labels, metrics and sizes."""

from collections.abc import Sequence

from seg_tf import tasks

# Extractive question answering is not a `Task`. See `seg_tf.tasks.squad`.
_SQUAD_SIZES = {
    "squad/v1.1": "train 87,599, dev 10,570",
    "squad/v2.0": "train 130,319, dev 11,873",
}


def main(_: Sequence[str]) -> None:
    for name in tasks.names():
        task = tasks.get(name)
        kind = "a score" if task.is_regression else f"{len(task.labels)} labels"
        texts = "1 text" if task.num_texts == 1 else f"{task.num_texts} texts"
        sizes = [f"{split.name} {split.num_examples:,}" for split in task.splits]
        metrics = "/".join(task.metrics)
        print(f"{name:24} {texts}, {kind}; {metrics}; {', '.join(sizes)}")
    for name, sizes in _SQUAD_SIZES.items():
        print(f"{name:24} question and context, answer span; f1/exact; {sizes}")
