r"""Builds whole documents: reads text, splits sentences, makes ids of the words.

This is the slow half of preparing a corpus and needs to be done once; windows of
any length are cut from its result in a moment (`data_pipelines.build_windows`).
`data_pipelines.build_records` runs both.

  python -m data_pipelines.build_documents --format=wikiextractor --input=text/ \
    --vocab_file=vocab.txt --output_dir=documents --num_workers=4

Documents of whole words, for models that read a corpus as one stream, take
--tokenizer=words or whitespace and a vocabulary of `data_pipelines.build_word_vocab`;
they need no windows.

A corpus that comes with its own validation file gives it as --validation_input;
--input is all trained on then:

  python -m data_pipelines.build_documents --format=wikitext --tokenizer=whitespace \
    --input=wiki.train.tokens --validation_input=wiki.valid.tokens \
    --vocab_file=words.txt --output_dir=records

A killed build resumes where it stopped when the same command is given again. The
result is the same, byte for byte, for any number of workers.
"""

import dataclasses
from collections.abc import Sequence

from absl import flags

from data_pipelines.builds import (
    document_build,
    engine_flags,
    remote_output,
    text_flags,
)
from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.cleaning import cleaning_options
from data_pipelines.report import report_flag
from seg_tf.text import encoding
from seg_tf.text.normalization import define_normalization_flags
from seg_tf.text.splitters import (
    FUNCTION_HELP,
    PARAMETERS_HELP,
    load_parameters,
)


def define_flags() -> None:
    """Flags that say what the documents depend on."""
    text_flags.define_text_flags()
    flags.DEFINE_string(
        "vocab_file", None, "A file with a token a line.", required=True
    )
    flags.DEFINE_string(
        "output_dir", None, remote_output.OUTPUT_DIR_HELP, required=True
    )
    flags.DEFINE_enum(
        "tokenizer",
        encoding.WORD_PIECES,
        list(encoding.TOKENIZERS),
        "What the tokens are. "
        + " ".join(f"{name}: {line}" for name, line in encoding.TOKENIZERS.items()),
    )
    define_normalization_flags(
        "Lower-case and, without --nostrip_accents, strip accents (uncased). Default: "
        "as the vocabulary's rows say; capital letters in more than 1 % make it cased."
    )
    flags.DEFINE_string("sentence_parameters", "english", PARAMETERS_HELP)
    flags.DEFINE_string("sentence_function", None, FUNCTION_HELP)
    flags.DEFINE_string(
        "validation_input",
        None,
        "File, folder or glob of the validation split, read as --input is; all of "
        "--input is the training split then.",
    )
    flags.DEFINE_float(
        "validation_fraction",
        None,
        "Share of documents of --input held out for validation, spread evenly, so that "
        "each of several inputs gives its share. Default: 0.01, or none with "
        "--validation_input.",
        lower_bound=0.0,
        upper_bound=0.5,
    )
    flags.DEFINE_float(
        "slice_megabytes",
        8.0,
        "Text that makes one shard, in millions of characters. Less keeps more workers "
        "busy on a small corpus and takes less memory (3 bytes or more a character in "
        "each worker); more makes fewer, larger shards.",
        lower_bound=0.001,
    )
    flags.DEFINE_bool("strict", False, "Stop at the first bad document.")
    flags.DEFINE_float(
        "max_rejected_share",
        0.05,
        "End with an error if more of the corpus than this share cannot be read: of "
        "documents, or of bytes in files that cannot be read to their end. Checked at "
        "the end, and on the way after 1,000 documents. What is finished is kept.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    cleaning_options.define_flags()
    engine_flags.define_run_flags()


def options_from_flags() -> DocumentOptions:
    """The options that the flags describe."""
    values = flags.FLAGS
    names = {field.name for field in dataclasses.fields(DocumentOptions)}
    names -= {"reader_options", "cleaning", "sentence_parameters"}
    return DocumentOptions(
        reader_options=text_flags.reader_options(),
        cleaning=cleaning_options.options_from_flags(),
        sentence_parameters=load_parameters(
            values.sentence_parameters, values.sentence_function
        ),
        **{name: values[name].value for name in names},
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = remote_output.local_folder(values.output_dir)
    manifest = document_build.build_documents(
        options_from_flags(),
        output_dir,
        engine=engine_flags.engine_from_flags(),
        overwrite=values.overwrite,
    )
    report_flag.write_if_wanted(output_dir)
    remote_output.publish(output_dir, values.output_dir)
    print(document_build.summary(manifest))
    print(f"documents and manifest.json are in {values.output_dir}")


if __name__ == "__main__":
    define_flags()
    engine_flags.run(main)
