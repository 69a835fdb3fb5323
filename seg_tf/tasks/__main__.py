"""Shows what a task's file holds: how many examples, which labels, how long the texts.

  python -m seg_tf.tasks --task=glue/mrpc --data_dir=glue --split=train --show=3

--data_dir is the folder of the benchmark, as its download leaves it, or of the task.
Without --split all splits whose files exist are shown; without --task all tasks are
listed, with SQuAD, whose files are not shown here. --show prints random examples.
"""

import collections
import random
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from absl import flags

from seg_tf import command_line, tasks
from seg_tf.tasks.task import Example, Split, Task

_QUANTILES = {"shortest": 0, "half": 50, "95 %": 95, "longest": 100}
# Questions to contexts, which are no `Task`: see `seg_tf.tasks.squad`.
_SQUAD_LINES = tuple(
    f"{name:24} question and context, an answer in it; f1/exact; {sizes}"
    for name, sizes in {
        "squad/v1.1": "train 87,599, dev 10,570",
        "squad/v2.0": "train 130,319, dev 11,873",
    }.items()
)


def define_flags() -> None:
    flags.DEFINE_string("task", None, "Name of the task, as in glue/mrpc.")
    flags.DEFINE_string("data_dir", None, "Folder of the benchmark, or of the task.")
    flags.DEFINE_string("split", None, "Name of the split, as in train.")
    flags.DEFINE_integer("show", 0, "Number of examples to print.", lower_bound=0)
    flags.DEFINE_integer("seed", 0, "Seed of the draw of --show.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    if not values.task:
        for name in tasks.names():
            task = tasks.get(name)
            kind = "a score" if task.is_regression else f"{len(task.labels)} labels"
            texts = "1 text" if task.num_texts == 1 else f"{task.num_texts} texts"
            sizes = [f"{split.name} {split.num_examples:,}" for split in task.splits]
            metrics = "/".join(task.metrics)
            print(f"{name:24} {texts}, {kind}; {metrics}; {', '.join(sizes)}")
        print("\n".join(_SQUAD_LINES))
        return
    task = tasks.get(values.task)
    if not values.data_dir:
        raise ValueError(
            f"`--data_dir` must name the folder with the files of {task.name}. "
            "Received: nothing"
        )
    missing = []
    names = [values.split] if values.split else task.split_names
    for name in names:
        try:
            examples = tasks.read(task, values.data_dir, name)
        except FileNotFoundError as error:
            missing.append(error)
            if len(missing) == len(names):
                raise missing[0] from None
            continue
        print("\n".join(_summary(task, task.split(name), examples)))
        drawn = range(len(examples))
        drawn = random.Random(values.seed).sample(drawn, min(values.show, len(drawn)))
        for example in (examples[number] for number in sorted(drawn)):
            label = example.label
            if label is not None and not task.is_regression:
                label = task.labels[label]
            print(f"  {example.identifier}: {'no label' if label is None else label}")
            print("\n".join(f"    {text}" for text in example.texts))
    for error in missing:
        print(f"Not shown: {error}")


def _summary(task: Task, split: Split, examples: Sequence[Example]) -> Iterator[str]:
    published = f"published: {split.num_examples:,}"
    if len(examples) == split.num_examples:
        published = "as published"
    yield f"{task.name}, {split.name}: {len(examples):,} examples ({published})"
    labels = [example.label for example in examples if example.label is not None]
    if not labels:
        yield "  no labels"
    elif task.is_regression:
        lowest, middle, highest = np.percentile(labels, [0, 50, 100])
        yield f"  scores: {lowest:g} to {highest:g}, half below {middle:g}"
    else:
        counts = collections.Counter(labels)
        for number, word in enumerate(task.labels):
            share = counts[number] / len(labels)
            yield f"  label {word}: {counts[number]:,} ({share:.1%})"
    for number in range(task.num_texts):
        lengths = [len(example.texts[number].split()) for example in examples]
        quantiles = np.percentile(lengths, list(_QUANTILES.values()))
        described = ", ".join(
            f"{name} {value:.0f}"
            for name, value in zip(_QUANTILES, quantiles, strict=True)
        )
        num_empty = lengths.count(0)
        empty = f"; {num_empty:,} empty" if num_empty else ""
        yield f"  words of text {number + 1}: {described}{empty}"


if __name__ == "__main__":
    define_flags()
    sys.exit(command_line.run(main))
