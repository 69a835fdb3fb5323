"""Flags of every script that reads raw text: which, and how it is stored."""

from absl import flags

from data_pipelines.readers import FORMATS, options_of


def _options_of_formats() -> str:
    listed = []
    for name in sorted(FORMATS):
        if options := options_of(name):
            parts = (f"{option}={default}" for option, default in options.items())
            listed.append(f"{name}: {' '.join(parts)}")
    return "; ".join(listed)


def define_text_flags() -> None:
    """Defines `--format`, `--input` and `--reader_options`."""
    flags.DEFINE_enum(
        "format",
        None,
        sorted(FORMATS),
        "How the text is stored. "
        + " ".join(f"{name}: {line}" for name, line in FORMATS.items()),
        required=True,
    )
    flags.DEFINE_string(
        "input",
        "",
        "File, folder (searched recursively) or glob, local or a URL such as "
        "gs://bucket/folder; for tfds a dataset, such as wiki40b/en[train]. May be "
        "left out for python_docs. See docs/sources.md.",
    )
    flags.DEFINE_list(
        "reader_options",
        [],
        "Options of the format, as name=value, comma-separated: text_field=body. They "
        f"are, with their defaults: {_options_of_formats()}. See docs/sources.md.",
    )
