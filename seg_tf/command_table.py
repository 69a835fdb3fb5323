"""The commands by name, and how to show them as they were called.

Imports only the standard library, so that `seg-tf doctor` works without packages.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple


class Command(NamedTuple):
    """The module of a command, and what it does."""

    module: str
    summary: str


# Heading -> package of the modules, and {name: summary}.
_GROUPS = {
    "Models": (
        "seg_tf.commands",
        {
            "pretrain": "Pretrains a text encoder on records.",
            "finetune": "Fine-tunes an encoder on tasks and reports scores.",
            "export": "Exports a model as a SavedModel that takes text.",
            "demo": "Serves a local page that shows what a model does with a text.",
            "encode-text": "Writes a vector for every sentence of texts, in context.",
            "fill-mask": "Fills the masks in texts.",
            "find-sentences": "Finds the sentences of a corpus nearest to a query.",
            "reorder-sentences": "Puts shuffled sentences in order.",
            "generate-text": "Continues a prompt with a language model.",
            "evaluate-grammar": "Scores masked language models on minimal pairs.",
            "evaluate-perplexity": "Measures the perplexity of a language model.",
            "evaluate-sentences": "Scores a sentence splitter against a treebank.",
            "evaluate-similarity": "Scores sentence vectors on similarity tasks.",
            "evaluate-squad": "Scores answers to SQuAD like the official scripts.",
            "evaluation-texts": "Collects evaluation texts to exclude from a corpus.",
            "import-weights": "Converts weights of other programs to a checkpoint.",
            "export-weights": "Writes a checkpoint for other programs.",
            "paper-tables": "Prints the tables of a paper next to your own results.",
            "plot-attention": "Draws attention weights as heat maps.",
            "plot-runs": "Plots the validation losses of several runs.",
            "train-punkt": "Trains the Punkt sentence splitter on plain text.",
        },
    ),
    "Text and records": (
        "data_pipelines",
        {
            "build-records": "Turns raw text into training records.",
            "build-documents": "Builds documents, the first step of build-records.",
            "build-windows": "Cuts documents into windows, its second step.",
            "build-vocab": "Trains a WordPiece vocabulary on a corpus.",
            "build-word-vocab": "Counts the words of a corpus for a vocabulary.",
            "check-records": "Verifies every record of a folder.",
            "inspect-records": "Prints records as trees with their indices.",
            "readers": "Shows what a reader makes of a text.",
            "report": "Writes a page about records.",
        },
    ),
    "Installation": (
        "seg_tf",
        {
            "configs": "Lists the pretraining configs.",
            "doctor": "Checks this installation.",
            "tasks": "Lists the tasks of benchmarks.",
        },
    ),
}
COMMANDS = {
    heading: {
        name: Command(f"{package}.{name.replace('-', '_')}", summary)
        for name, summary in summaries.items()
    }
    for heading, (package, summaries) in _GROUPS.items()
}
MODULES = {
    name: command.module
    for group in COMMANDS.values()
    for name, command in group.items()
}
_NAMES = {module: name for name, module in MODULES.items()}
# Commands that 0.3 no longer has, each with its replacement.
REMOVED = {
    "compare-records": "builds with the same options are equal byte for byte, so "
    "`diff -r` compares them",
    "serve-check": "`python -m benchmarks.serving` measures an exported model",
}


def in_called_form(text: str) -> str:
    """Writes the commands in a text in the form that this process was called in.

    That is `seg-tf NAME` below `seg-tf`, and `python -m MODULE` elsewhere.
    """
    if sys.argv[0].startswith("seg-tf "):
        return re.sub(
            r"python -m\s+([a-z_]+(?:\.[a-z_]+)+)",
            lambda match: (
                f"seg-tf {_NAMES[match[1]]}" if match[1] in _NAMES else match[0]
            ),
            text,
        )
    return re.sub(
        r"seg-tf ([a-z]+(?:-[a-z]+)*)",
        lambda match: (
            f"python -m {MODULES[match[1]]}" if match[1] in MODULES else match[0]
        ),
        text,
    )


@contextlib.contextmanager
def quiet_broken_pipe() -> Iterator[None]:
    """Ends without a traceback when `head`, for example, stops reading our output."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
