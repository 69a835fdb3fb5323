"""Scripts that make a vocabulary of a text: their flags, their run, their file."""

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import flags

from data_pipelines.builds import text_flags
from seg_tf import command_line, files, output_paths
from seg_tf.text.vocabulary import TokenTable


def define_flags() -> None:
    """Defines the flags of the text, `--output` and those for a file that is there."""
    text_flags.define_text_flags()
    flags.DEFINE_string("output", None, "The vocab.txt to write.", required=True)
    flags.DEFINE_bool("overwrite", False, "Replace an --output that is there.")
    flags.DEFINE_bool("skip_if_present", False, "Leave an --output that is there.")


def run(build: Callable[..., TokenTable], options: type) -> NoReturn:
    """Runs a script: reads the text of its flags, writes the vocabulary, exits.

    Args:
        build: makes a vocabulary of a format, an input, options and reader options.
        options: dataclass of the options, whose fields are flags.
    """

    def main(_: Sequence[str]) -> None:
        values = flags.FLAGS
        output = _output_from_flags()
        if output is None:
            return
        fields = [field.name for field in dataclasses.fields(options)]
        vocabulary = build(
            values.format,
            values.input,
            options(**{name: values[name].value for name in fields}),
            text_flags.reader_options(),
        )
        write_vocabulary(vocabulary, output)

    sys.exit(command_line.run(main))


def _output_from_flags() -> pathlib.Path | None:
    """The file to write; None if it is there and is to stay.

    Raises:
        OSError: if its folder cannot be made.
        ValueError: if it is there and the flags do not say what to do, or it cannot be
            written.
    """
    values = flags.FLAGS
    output = output_paths.local_path(values.output, "output", "file")
    if not output.exists() or values.overwrite:
        # Told before the text is read, which may take hours.
        output.parent.mkdir(parents=True, exist_ok=True)
        return output_paths.file_path(values.output, "output")
    if values.skip_if_present:
        print(f"{output} is there already")
        return None
    raise ValueError(
        f"--output must not exist: {output}. Give another name, or --overwrite to "
        "replace it, or --skip_if_present to leave it"
    )


def write_vocabulary(vocabulary: TokenTable, output: pathlib.Path) -> None:
    """Writes a `vocab.txt` that is whole or not there, and says so."""
    with files.written_aside(output) as aside:
        aside.write_bytes(vocabulary.to_bytes())
    print(
        f"{vocabulary.size:,} tokens in {output} (sha256 {vocabulary.checksum[:12]}…)"
    )
