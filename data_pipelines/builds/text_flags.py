"""Flags of every script that reads raw text: the input and its format."""

from typing import Any

from absl import flags

from data_pipelines.readers import (
    FORMATS,
    MAX_DOCUMENT_MEGABYTES,
    options_of,
    parse_options,
)


def _options_of_formats() -> str:
    listed = []
    for name in sorted(FORMATS):
        if options := options_of(name):
            parts = (f"{option}={default}" for option, default in options.items())
            listed.append(f"{name}: {' '.join(parts)}")
    return "; ".join(listed)


def define_text_flags() -> None:
    """Defines `--format`, `--input` and the options of the reader."""
    flags.DEFINE_string(
        "format",
        None,
        "How the text is stored. "
        + " ".join(f"{name}: {line}" for name, line in FORMATS.items())
        + " Or package.module:Reader, a format of your own.",
        required=True,
    )
    flags.DEFINE_string(
        "input",
        "",
        "File, folder (searched recursively) or glob, local or a URL such as "
        "gs://bucket/folder, or several of one format with commas; for datasets and "
        "tfds the name of one, such as wiki40b/en[train]. May be left out for "
        "python_docs. See docs/sources.md.",
    )
    flags.DEFINE_list(
        "reader_options",
        [],
        "Options of the format, as name=value, comma-separated: text_field=body. They "
        f"are, with their defaults: {_options_of_formats()}. See docs/sources.md.",
    )
    flags.DEFINE_float(
        "max_document_megabytes",
        MAX_DOCUMENT_MEGABYTES,
        "Size of the largest document in millions of bytes, decompressed and with its "
        "markup. Larger ones are rejected as too_long_document without being held in "
        "memory.",
        lower_bound=1e-6,
    )


def reader_options() -> dict[str, Any]:
    """The options of the reader that the flags describe.

    The size of the largest document is one only if it is not the default, as for
    builds that Python code starts.
    """
    options = parse_options(flags.FLAGS.reader_options)
    size = flags.FLAGS.max_document_megabytes
    if size != MAX_DOCUMENT_MEGABYTES:
        options["max_document_megabytes"] = size
    return options
