"""Compares the speed of building TFRecords from raw text with a plain Python script.

  python -m benchmarks.record_building --num_files=10

The other side is tf-models-official's `create_pretraining_data` (the script of the
BERT release, which NVIDIA's recipe also calls) with one copy of each text. It expects
one sentence per line, usually split by NLTK. This step is timed separately, and ratios
are printed with and without it. Both sides run in turn on one core.
"""

import pathlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence

from absl import flags, logging

from benchmarks import paired, sample_data
from seg_tf import command_line

_INPUT = flags.DEFINE_string(
    "input", str(sample_data.WIKIPEDIA), "WikiExtractor files."
)
_VOCAB = flags.DEFINE_string(
    "vocabulary", str(sample_data.VOCABULARY), "A BERT vocab.txt."
)
_FILES = flags.DEFINE_integer("num_files", 10, "Files of the input to take.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Counted rounds.")
_LENGTH = flags.DEFINE_integer("window_length", 512, "Positions of a row.")
_MAX_PREDICTIONS = 80


def _copy_sample(folder: pathlib.Path) -> int:
    paths = sorted(p for p in pathlib.Path(_INPUT.value).rglob("*") if p.is_file())
    for path in paths[: _FILES.value]:
        shutil.copy(path, folder / path.name)
    return sum(path.stat().st_size for path in folder.iterdir())


def _ours(text: pathlib.Path, output: pathlib.Path) -> None:
    from data_pipelines.builds.documents import DocumentOptions, build_documents
    from data_pipelines.builds.windows import WindowOptions, build_windows

    shutil.rmtree(output, ignore_errors=True)
    options = DocumentOptions(
        format="wikiextractor", input=str(text), vocab_file=_VOCAB.value
    )
    build_documents(options, output / "documents")
    build_windows(
        WindowOptions(window_length=_LENGTH.value), output / "documents", output
    )


def _write_sentences(text: pathlib.Path, output: pathlib.Path) -> None:
    """Splits text with NLTK: a sentence per line, a blank line after each document."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    from data_pipelines.readers import Document, get_reader
    from seg_tf.text.splitters import load_parameters

    ours = load_parameters("english")
    parameters = PunktParameters()
    parameters.abbrev_types = set(ours.abbreviation_types)
    parameters.sent_starters = set(ours.sentence_starters)
    parameters.collocations = set(ours.collocations)
    parameters.ortho_context.update(ours.orthographic_context)
    tokenizer = PunktSentenceTokenizer(parameters)
    reader = get_reader("wikiextractor")
    with open(output, "w", encoding="utf-8") as file:
        for path in reader.files(str(text)):
            for item in reader.read(path):
                if isinstance(item, Document):
                    for paragraph in item.paragraphs:
                        for sentence in tokenizer.tokenize(paragraph):
                            file.write(sentence + "\n")
                    file.write("\n")


def _theirs(sentences: pathlib.Path, output: pathlib.Path) -> None:
    from official.nlp.data import create_pretraining_data as script
    from official.nlp.tools import tokenization

    tokenizer = tokenization.FullTokenizer(_VOCAB.value, do_lower_case=True)
    instances = script.create_training_instances(
        [str(sentences)],
        tokenizer,
        tokenization.convert_to_unicode,
        _LENGTH.value,
        1,
        0.1,
        0.15,
        _MAX_PREDICTIONS,
        random.Random(0),
    )
    script.write_instance_to_example_files(
        instances,
        tokenizer,
        _LENGTH.value,
        _MAX_PREDICTIONS,
        [str(output)],
        False,
        True,
    )


def main(_: Sequence[str]) -> None:
    logging.set_verbosity(logging.WARNING)  # The other side prints its examples.
    paired.pin_to_one_core()
    from official.nlp.data import create_pretraining_data  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        text, sentences = work / "text", work / "sentences.txt"
        text.mkdir()
        size = _copy_sample(text)
        paired.print_machine()
        print(f"raw text to TFRecords, {size / 1e6:.1f} MB, one core")
        begin = time.perf_counter()
        _write_sentences(text, sentences)
        splitting = time.perf_counter() - begin

        def ours() -> float:
            _ours(text, work / "ours")
            return size

        def theirs() -> float:
            _theirs(sentences, work / "theirs.tfrecord")
            return size

        rates = paired.interleave(
            {"ours": ours, "create_pretraining_data": theirs}, _ROUNDS.value
        )
        paired.report(
            rates,
            of="ours",
            against="create_pretraining_data",
            unit="MB/s",
            scale=1e-6,
            target=15,
        )
        theirs_alone = rates["create_pretraining_data"]
        rates["with NLTK's splitting before"] = paired.Rates(
            *(
                [size / (size / rate + splitting) for rate in values]
                for values in (theirs_alone.wall, theirs_alone.cpu)
            )
        )
        paired.report(
            rates,
            of="ours",
            against="with NLTK's splitting before",
            unit="MB/s",
            scale=1e-6,
        )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
