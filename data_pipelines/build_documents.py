r"""Builds whole documents: reads text, splits sentences, turns words into ids.

This is the slow half of preparing a corpus and needs to be done once; windows of any
length are quickly cut from the result (`data_pipelines.build_windows`).
`data_pipelines.build_records` runs both.

  seg-tf build-documents --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=documents --num_workers=4

Models that read a corpus as one stream use documents of whole words:
--tokenizer=words or whitespace, with a vocabulary of `data_pipelines.build_vocab`.
They need no windows.

For a corpus with its own validation file, use --validation_input; then all of --input
is the training split:

  seg-tf build-documents --format=wikitext --tokenizer=whitespace \
    --input=wiki.train.tokens --validation_input=wiki.valid.tokens \
    --vocab_file=words.txt --output_dir=records

A killed build resumes when the same command runs again. The result is identical, byte
for byte, for any number of workers.
"""

from collections.abc import Sequence

from absl import flags

from data_pipelines import command_flags
from data_pipelines.builds import documents, sharded_build
from data_pipelines.builds.documents import DocumentOptions
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from seg_tf.text.normalization import define_normalization_flags
from seg_tf.text.splitters import FUNCTION_HELP, PARAMETERS_HELP, load_parameters


def define_flags() -> None:
    """Flags that determine the documents, and those of every build."""
    command_flags.define_text_flags()
    names = ("vocab_file", "validation_input", "validation_fraction")
    names += ("slice_megabytes", "max_rejected_share")
    command_flags.define_option_flags(DocumentOptions, *names)
    command_flags.define_tokenizer_flag()
    define_normalization_flags(
        "Lower-case and, without --nostrip_accents, strip accents (uncased). Default: "
        "as the vocabulary's rows say; capital letters in more than 1 % make it cased."
    )
    flags.DEFINE_string("sentence_parameters", "english", PARAMETERS_HELP)
    flags.DEFINE_string("sentence_function", None, FUNCTION_HELP)
    command_flags.define_option_flags(CleaningOptions)
    command_flags.define_run_flags()


def options_from_flags() -> DocumentOptions:
    """The options that the flags describe."""
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


if __name__ == "__main__":
    define_flags()
    command_flags.run_build(main)
