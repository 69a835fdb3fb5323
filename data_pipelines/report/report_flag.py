"""`--report`, or `--report=page.html`, of the commands that build records."""

import pathlib

from absl import flags

from data_pipelines.report import FILE_NAME
from seg_tf import output_paths

# What a flag without a value means, and --noreport.
_TRUTH = ("true", "false")


class _Parser(flags.ArgumentParser):
    """Refuses what cannot be written to before the build, which may take hours."""

    def parse(self, argument: str) -> str:
        if argument.lower() in _TRUTH:
            return argument.lower()
        output_paths.file_path(argument, "report")
        return argument


def define_flag() -> None:
    """Defines `--report`, which takes a value or none."""
    flags.DEFINE_flag(
        flags.Flag(
            parser=_Parser(),
            serializer=flags.ArgumentSerializer(),
            name="report",
            default=None,
            help_string="Write a page on the corpus when it is built: --report for "
            f"{FILE_NAME} in --output_dir, --report=PATH for another file.",
            boolean=True,
        )
    )


def write_if_wanted(
    output_dir: pathlib.Path, documents_dir: pathlib.Path | None = None
) -> None:
    """Writes the page where the flag asks for it, and says so.

    Args:
        output_dir: documents, or windows.
        documents_dir: what windows were cut from, where that is elsewhere.
    """
    value = flags.FLAGS.report
    # A flag that takes no value means "true" or, as --noreport, "false".
    if value in (None, "false"):
        return
    path = output_dir / FILE_NAME if value == "true" else pathlib.Path(value)
    # What it needs, TensorFlow among it, is loaded where a page is wanted.
    from data_pipelines.report.page import write_report

    write_report(output_dir, path, documents_dir=documents_dir)
    print(f"the report is {path}")
