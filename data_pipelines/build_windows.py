r"""Splits whole documents into windows of a given length for training.

  seg-tf build-windows --documents_dir=documents \
    --output_dir=windows-128 --window_length=128

Every window contains consecutive whole sentences of one document. A sentence is split
only if it is longer than a window, or with --cut_sentences, which fills windows
completely. Each window also stores its position in the document and a random
permutation of its sentences (see --seed). To resume an interrupted build, run the same
command again. The result is identical for any number of workers.
"""

from collections.abc import Sequence

from absl import flags

from data_pipelines import command_flags
from data_pipelines.builds import documents, sharded_build, windows
from data_pipelines.builds.windows import WindowOptions
from seg_tf.data import mirrors

RUN = command_flags.RUN_BUILD


def define_flags() -> None:
    flags.DEFINE_string(
        "documents_dir", None, "Folder or URL of the documents.", required=True
    )
    define_window_flags()
    command_flags.define_run_flags()


def define_window_flags() -> None:
    """Defines the flags that determine the windows."""
    command_flags.define_option_flags(
        WindowOptions, "window_length", "short_window_rate", "cut_sentences", "seed"
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    documents_dir = mirrors.local_records(values.documents_dir)
    output_dir = sharded_build.local_folder(values.output_dir)
    manifest = windows.build_windows(
        command_flags.options_from_flags(WindowOptions),
        documents_dir,
        output_dir,
        engine=command_flags.engine_from_flags(),
        overwrite=values.overwrite,
    )
    command_flags.write_requested_report(output_dir, documents_dir)
    sharded_build.publish(output_dir, values.output_dir)
    print(documents.summary(manifest))
    print(f"windows and manifest.json are in {values.output_dir}")
