"""Flags, input texts and outputs of the commands that use a pretrained model."""

import contextlib
import dataclasses
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from absl import flags

from data_pipelines import readers
from seg_tf import command_line, files
from seg_tf.checkpoints import folders
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.text.splitters import FUNCTION_HELP, PARAMETERS_HELP, load_parameters

STDIN = "-"


def define_model_flags(*, several: bool = False, default: str | None = None) -> None:
    """Defines `--checkpoint`, required if `default` is None, and splitter flags."""
    define = flags.DEFINE_list if several else flags.DEFINE_string
    define(
        "checkpoint",
        default,
        f"Checkpoint, output folder of a run, or {', '.join(folders.included())}"
        + (". Several are comma-separated." if several else "."),
        required=default is None,
    )
    flags.DEFINE_string(
        "sentence_parameters",
        None,
        f"{PARAMETERS_HELP} Default: the checkpoint's, or english.",
    )
    flags.DEFINE_string("sentence_function", None, FUNCTION_HELP)


def load_model(
    checkpoint: str | pathlib.Path | None = None, **settings: Any
) -> Pretrained:
    """Loads a model, by default `--checkpoint`, with the splitter that the flags set.

    `settings` override fields of the model's config.
    """
    return with_sentence_parameters(
        load_pretrained(
            checkpoint or flags.FLAGS.checkpoint,
            model_settings=settings,
            sentence_function=sentence_function(),
        )
    )


def load_models() -> list[Pretrained]:
    """Loads all models that `--checkpoint` names."""
    return [load_model(checkpoint) for checkpoint in flags.FLAGS.checkpoint]


def with_sentence_parameters(pretrained: Pretrained) -> Pretrained:
    """Applies the splitter of `--sentence_parameters` to a model, if the flag is set.

    Prints a note to stderr if the model was trained with a different splitter.
    """
    values = flags.FLAGS
    if values.sentence_parameters is not None:
        parameters = load_parameters(
            values.sentence_parameters, values.sentence_function
        )
        pretrained = dataclasses.replace(pretrained, sentence_parameters=parameters)
    parameters = pretrained.sentence_parameters
    trained_with = pretrained.sentence_splitter
    if trained_with.get("parameters_sha256", "") not in ("", parameters.checksum):
        print(
            "Note: the model was trained on sentences split by "
            f"{trained_with['name']}, not by {parameters.name}: "
            "see --sentence_parameters",
            file=sys.stderr,
        )
    return pretrained


def sentence_function() -> str | None:
    """Returns `--sentence_function`, or None if `--sentence_parameters` is set."""
    values = flags.FLAGS
    return None if values.sentence_parameters else values.sentence_function


def define_memory_flag() -> None:
    flags.DEFINE_integer(
        "memory_length",
        None,
        "Number of previous words to attend to. Default: as in training.",
        lower_bound=0,
    )


def load_language_model() -> Pretrained:
    """Loads the model of `--checkpoint`. `--memory_length` overrides its memory."""
    length = flags.FLAGS.memory_length
    return load_model(**({} if length is None else {"memory_length": length}))


def define_text_flags() -> None:
    flags.DEFINE_string(
        "format",
        None,
        f"Format of the texts: {', '.join(readers.FORMATS)}, or package.module:Reader. "
        "Default: the format of the file's extension (CSV, JSON lines, Markdown, "
        "Parquet), or plain text with one paragraph per line and blank lines between "
        "documents. Lines that look hard-wrapped are joined, with a warning.",
    )
    flags.DEFINE_list(
        "reader_options",
        [],
        "Comma-separated format options as name=value, such as encoding=cp1252. See "
        "docs/sources.md.",
    )


def read_documents(path: str | os.PathLike[str]) -> Iterator[tuple[str, ...]]:
    """Yields the paragraphs of each document in a file, or in stdin for `STDIN`."""
    options = readers.parse_options(flags.FLAGS.reader_options)
    with _seekable(path) as file:
        for document in readers.read_texts(file, flags.FLAGS.format, **options):
            yield document.paragraphs


def read_paragraphs(path: str | os.PathLike[str]) -> list[str]:
    """Returns the paragraphs of all documents in a file, or in stdin for `STDIN`."""
    return [text for paragraphs in read_documents(path) for text in paragraphs]


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Returns the stripped, nonblank lines of a text file, or of stdin for `STDIN`."""
    with _seekable(path) as file:
        documents = readers.read_texts(file, "plain_text", documents="lines")
        return [line for document in documents for line in document.paragraphs]


@contextlib.contextmanager
def _seekable(path: str | os.PathLike[str]) -> Iterator[str | os.PathLike[str]]:
    if str(path) != STDIN:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "stdin")
        copy.write_bytes(sys.stdin.buffer.read())
        yield copy


def define_output_flag(what: str = "the scores as JSON") -> None:
    flags.DEFINE_string("output", None, f"Output file for {what}.")


def output_file() -> pathlib.Path | None:
    """Returns the path of `--output`, if set. Raises ValueError if not writable."""
    value = flags.FLAGS.output
    return None if value is None else command_line.file_path(value, "output")


def write_result(output: pathlib.Path | None, result: Any) -> None:
    """Writes a result as JSON and prints the path, unless `output` is None."""
    if output is not None:
        files.write_json(output, result)
        print(f"Written: {output}")
