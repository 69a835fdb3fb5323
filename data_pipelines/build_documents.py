r"""Reads raw text, splits it into sentences and encodes it as whole documents.

This is the slow half of preparing a corpus and is needed only once. Windows of any
length are quickly built from it (`build-windows`). `build-records` runs both steps.

  seg-tf build-documents --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=documents --num_workers=4

Models that read a corpus as one stream use documents of whole words:
--tokenizer=words or whitespace, with a vocabulary from `seg-tf build-vocab`.
They do not need windows.

If the corpus has a separate validation file, pass it as --validation_input. All of
--input is then the training split:

  seg-tf build-documents --format=wikitext --tokenizer=whitespace \
    --input=wiki.train.tokens --validation_input=wiki.valid.tokens \
    --vocab_file=words.txt --output_dir=records

To resume an interrupted build, run the same command again. The result is identical,
byte for byte, for any number of workers.
"""

from collections.abc import Sequence

from absl import flags

from data_pipelines import command_flags
from data_pipelines.builds import documents, sharded_build
from data_pipelines.builds.documents import DocumentOptions
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from seg_tf.text.normalization import define_normalization_flags
from seg_tf.text.splitters import FUNCTION_HELP, PARAMETERS_HELP, load_parameters

RUN = command_flags.RUN_BUILD


def define_flags() -> None:
    command_flags.define_text_flags()
    names = ("vocab_file", "validation_input", "validation_fraction")
    names += ("slice_megabytes", "max_rejected_share")
    command_flags.define_option_flags(DocumentOptions, *names)
    command_flags.define_tokenizer_flag()
    define_normalization_flags(
        "Lowercase text and, without --nostrip_accents, strip accents. Default: "
        "inferred from the vocabulary (cased if over 1 % of its rows have capitals)."
    )
    flags.DEFINE_string("sentence_parameters", "english", PARAMETERS_HELP)
    flags.DEFINE_string("sentence_function", None, FUNCTION_HELP)
    command_flags.define_option_flags(CleaningOptions)
    command_flags.define_run_flags()


def options_from_flags() -> DocumentOptions:
    """Builds `DocumentOptions` from flags. Raises ValueError for invalid values."""
    values = flags.FLAGS
    options: DocumentOptions = command_flags.options_from_flags(
        DocumentOptions,
        reader_options=command_flags.reader_options(),
        cleaning=command_flags.options_from_flags(CleaningOptions),
        sentence_parameters=load_parameters(
            values.sentence_parameters, values.sentence_function
        ),
    )
    return options


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = sharded_build.local_folder(values.output_dir)
    manifest = documents.build_documents(
        options_from_flags(),
        output_dir,
        engine=command_flags.engine_from_flags(),
        overwrite=values.overwrite,
    )
    command_flags.write_requested_report(output_dir)
    sharded_build.publish(output_dir, values.output_dir)
    print(documents.summary(manifest))
    print(f"documents and manifest.json are in {values.output_dir}")
