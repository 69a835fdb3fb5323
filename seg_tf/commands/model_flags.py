"""Flags shared by the commands that use a pretrained model: checkpoint and texts."""

import dataclasses
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from absl import flags

from seg_tf.checkpoints import folders
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.inference import texts
from seg_tf.text.splitters import (
    FUNCTION_HELP,
    PARAMETERS_HELP,
    load_parameters,
)


def define_model_flags(*, several: bool = False, default: str | None = None) -> None:
    """Defines the flags that say which model is used, and how it reads text.

    Args:
        several: whether `--checkpoint` may name several, for `load_models`.
        default: the model where none is named; None makes the flag a required one.
    """
    define = flags.DEFINE_list if several else flags.DEFINE_string
    define(
        "checkpoint",
        default,
        "Checkpoint of a run, or the run's --output_dir, whose best one is taken"
        + "".join(f", or {name}" for name in folders.included())
        + ("; or several, comma-separated." if several else "."),
        required=default is None,
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "The run's vocab.txt; only for a checkpoint that does not hold it.",
    )
    flags.DEFINE_bool(
        "lower_case",
        None,
        "Whether the vocabulary is uncased; only for a checkpoint that does not say. "
        "Default: as the vocabulary's rows say.",
    )
    flags.DEFINE_string(
        "sentence_parameters",
        None,
        f"{PARAMETERS_HELP} Default: the checkpoint's, else english.",
    )
    flags.DEFINE_string("sentence_function", None, FUNCTION_HELP)


def load_model(
    memory_length: int | None = None, checkpoint: str | pathlib.Path | None = None
) -> Pretrained:
    """The model, with its sentence splitter, that the flags name.

    Says so on stderr where the model was trained on sentences that another splitter
    made.

    Args:
        memory_length: of a model with memory, if other than in training.
        checkpoint: a checkpoint in place of the one that `--checkpoint` names.

    Raises:
        CheckpointError: if the checkpoint cannot be used.
        ValueError: if the parameters of the splitter cannot be read.
    """
    settings = {} if memory_length is None else {"memory_length": memory_length}
    return _load(checkpoint or flags.FLAGS.checkpoint, settings)


def load_models() -> list[Pretrained]:
    """Loads all models that `--checkpoint` names, as `load_model` does."""
    return [_load(checkpoint) for checkpoint in flags.FLAGS.checkpoint]


def with_sentence_parameters(pretrained: Pretrained) -> Pretrained:
    """The model with the parameters that `--sentence_parameters` names, if it does.

    Says so on stderr where they are not those of the run.

    Raises:
        ValueError: if the parameters cannot be read.
    """
    if flags.FLAGS.sentence_parameters is not None:
        pretrained = dataclasses.replace(
            pretrained,
            sentence_parameters=load_parameters(
                flags.FLAGS.sentence_parameters, flags.FLAGS.sentence_function
            ),
        )
    parameters, trained_with = (
        pretrained.sentence_parameters,
        pretrained.sentence_splitter,
    )
    if trained_with.get("parameters_sha256", "") not in ("", parameters.checksum):
        print(
            "Note: the model was trained on sentences split by "
            f"{trained_with['name']}, not by {parameters.name}: "
            "see --sentence_parameters",
            file=sys.stderr,
        )
    return pretrained


def sentence_function() -> str | None:
    """The function that a checkpoint may name; None if its parameters are not used."""
    values = flags.FLAGS
    return None if values.sentence_parameters else values.sentence_function


def _load(
    checkpoint: str | pathlib.Path, settings: Mapping[str, Any] | None = None
) -> Pretrained:
    values = flags.FLAGS
    return with_sentence_parameters(
        load_pretrained(
            checkpoint,
            values.vocab_file,
            values.lower_case,
            settings,
            sentence_function(),
        )
    )


def read_lines(path: str) -> list[str]:
    """Lines of a file that are not blank, without space around them.

    Args:
        path: the file; `-` is stdin.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not UTF-8, naming it and the line.
    """
    if path == "-":
        lines = list(texts.decode_lines(sys.stdin.buffer, "stdin"))
    else:
        with open(path, "rb") as file:
            lines = list(texts.decode_lines(file, path))
    return list(filter(None, map(str.strip, lines)))
