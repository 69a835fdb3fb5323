"""Raw text to whole documents: read, split into sentences, made into ids.

One process reads the sources and cuts them into slices (`document_slices`); workers
turn one slice after the other into a train and a validation shard.
"""

import pathlib

from data_pipelines.builds.document_options import DocumentOptions
from data_pipelines.builds.sharded_build import Maker
from data_pipelines.readers import Document, get_reader
from data_pipelines.readers.base import PassedOver
from seg_tf import file_listing
from seg_tf.text.encoding import VOCABULARY_FILE
from seg_tf.text.vocabulary import TokenTable


def list_sources(
    options: DocumentOptions, passed_over: PassedOver | None = None
) -> dict[str, file_listing.Path]:
    """Lists the files to read, in order, by a name that is the same on every machine.

    With a `validation_input` the names begin with the split: `train/` of `input`, which
    comes first, and `validation/`. So a name that both inputs have stays two sources.

    Args:
        options: the build's options.
        passed_over: is told of each file that is not read, by the same kind of name.

    Raises:
        FileNotFoundError: if an input does not exist.
        ValueError: if an input holds no text, both hold the same file, or no document
            can be read from `validation_input`.
    """
    reader = get_reader(options.format, **options.reader_options)

    def named(input_path: str, prefix: str = "") -> dict[str, file_listing.Path]:
        not_read = PassedOver()
        sources = reader.sources(input_path, not_read)
        if passed_over is not None:
            passed_over.extend(not_read, prefix)
        return {prefix + name: path for name, path in sources.items()}

    if options.validation_input is None:
        return named(options.input)
    train = named(options.input, "train/")
    validation = named(options.validation_input, "validation/")
    train_files = {path.resolve() for path in train.values()}
    for path in validation.values():
        if path.resolve() in train_files:
            raise ValueError(
                "`validation_input` must hold no file that `input` holds. "
                f"Received: {str(path)!r} in both"
            )
    # Checked by the first document, before all of `input` is read.
    items = (
        item for name, path in validation.items() for item in reader.read(path, name)
    )
    if not any(isinstance(item, Document) for item in items):
        raise ValueError(
            "`validation_input` must hold a document. Received: "
            f"{options.validation_input!r}, of which none can be read as "
            f"{options.format}"
        )
    return train | validation


def describe_vocabulary(vocabulary: TokenTable, options: DocumentOptions) -> dict:
    """The manifest's entry on the vocabulary.

    It names settings of the normalization only where they are not BERT's.
    """
    return {
        "file": VOCABULARY_FILE,
        "size": vocabulary.size,
        "sha256": vocabulary.checksum,
        **options.normalization.described(),
        "special_ids": dict(vocabulary.special_ids),
        "tokenizer": options.tokenizer,
    }


def new_slice_maker(options: DocumentOptions, duplicates: pathlib.Path | None) -> Maker:
    """Loads the splitter and the tokenizer, once in a worker."""
    # TensorFlow takes a second to import; the parent process never needs it.
    from data_pipelines.builds.text_worker import SliceMaker

    return SliceMaker(options, duplicates)
