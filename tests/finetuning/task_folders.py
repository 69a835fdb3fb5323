"""Small files of GLUE tasks whose labels can be learnt from one word."""

import dataclasses

import numpy as np

from seg_tf.finetuning import probing
from seg_tf.tasks import discoeval
from tests.finetuning.tiny_models import some_texts
from tests.inference.tiny_slm import WORDS

RTE_LABELS = ("entailment", "not_entailment")
MNLI_LABELS = ("entailment", "neutral", "contradiction")
# A word of its own for each label.
SIGNS = WORDS[:3]


def texts_of(label_numbers, num_texts, seed):
    """Texts of which the first is the sign of its label, some times."""
    generator = np.random.default_rng(seed)
    examples = some_texts(generator, len(label_numbers), num_texts, longest=3)
    return [
        [" ".join([SIGNS[number]] * (2 + number_of % 3)), *others]
        for number_of, (number, (_, *others)) in enumerate(
            zip(label_numbers, examples, strict=True)
        )
    ]


def train_little(monkeypatch, **changed):
    """Probes of one penalty, and few passes, or what `changed` names."""
    changed = {"l2": (1e-5,), "max_passes": 4, **changed}
    monkeypatch.setattr(
        probing,
        "settings_of",
        lambda task: dataclasses.replace(discoeval.settings_of(task), **changed),
    )


def write(folder, split, columns, rows):
    """A file of tab-separated columns with a header."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) for row in (columns, *rows)]
    (folder / f"{split}.tsv").write_text("".join(f"{line}\n" for line in lines))


def write_pairs(folder, task, sizes, words, label_column="label"):
    """Files of a task of pairs: split -> number of rows.

    Label 0 is twice as frequent as each of the others. Test splits have no label.
    """
    for seed, (split, size) in enumerate(sizes.items()):
        numbers = [(0, *range(len(words)))[k % (1 + len(words))] for k in range(size)]
        pairs = texts_of(numbers, 2, seed)
        columns = ["index", "sentence1", "sentence2"]
        rows = [[k, *pair] for k, pair in enumerate(pairs)]
        if split.startswith(("train", "dev")):
            columns.append(label_column)
            rows = [
                [*row, words[number]] for row, number in zip(rows, numbers, strict=True)
            ]
        write(folder / task, split, columns, rows)
    return folder


def write_rte(folder, train=48, dev=24, test=5):
    return write_pairs(
        folder, "RTE", {"train": train, "dev": dev, "test": test}, RTE_LABELS
    )


def write_mnli(folder):
    sizes = {"train": 40, "dev_matched": 12, "dev_mismatched": 20}
    sizes |= {"test_matched": 3, "test_mismatched": 4}
    write_pairs(folder, "MNLI", sizes, MNLI_LABELS, "gold_label")
    return write_pairs(folder, "diagnostic", {"AX": 2}, MNLI_LABELS)


def write_sts_b(folder):
    """Scores of 1 and 4, by the sign."""
    for split, size in (("train", 48), ("dev", 12), ("test", 3)):
        numbers = [k % 2 for k in range(size)]
        pairs = texts_of(numbers, 2, size)
        rows = [
            [k, *pair, 1.0 + 3 * number]
            for k, (pair, number) in enumerate(zip(pairs, numbers, strict=True))
        ]
        columns = ["index", "sentence1", "sentence2", "score"]
        write(folder / "STS-B", split, columns, rows)
    return folder


def write_bso(folder, train=20, dev=10):
    """DiscoEval's ordering of sentences: whatever is first begins with a sign."""
    folder = folder / "BSO/wiki"
    folder.mkdir(parents=True)
    for split, size in (("train", train), ("valid", dev)):
        pairs = texts_of([0] * size, 2, size)
        lines = ["\t".join(pair) + "\n" for pair in pairs]
        (folder / f"{split}.txt").write_text("".join(lines))
    return folder.parent.parent
