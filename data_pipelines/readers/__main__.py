r"""Shows what a reader makes of a text: documents, paragraphs, counts, rejections.

Look at a corpus before you build records from it. This prints the first three
documents, and what was rejected up to there:

  seg-tf readers --format=wikiextractor --input=enwiki/text

Ten documents drawn at random from the whole corpus, with the counts of all of it:

  seg-tf readers --format=markdown --input=books --num_documents=10 --sample_seed=1

`--input` may be a file, a folder or a glob, compressed or not, here or at a URL;
`--reader_options` are those of a format (docs/sources.md):

  seg-tf readers --format=json_lines --input='gs://bucket/c4/*.json.gz' \
      --reader_options=text_field=content.text

`--output` writes all of the text as UTF-8, a paragraph a line, with a blank line after
each document: the format `plain_text` with the option `documents=blank_lines`. In an
existing folder, each file becomes a file `<name>.txt`. A file named `.jsonl` becomes
JSON lines, a document a line; a folder of such files joins corpora of different
formats:

  seg-tf readers --format=wikiextractor --input=enwiki/text --output=enwiki.txt
  seg-tf readers --format=markdown --input=books --output=corpus/books.jsonl
  seg-tf build-records --format=json_lines --input=corpus …
"""

import collections
import json
import pathlib
import random
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from absl import flags

from data_pipelines import readers
from data_pipelines.builds import text_flags
from data_pipelines.readers.base import PassedOver, passed_over_summary
from seg_tf import command_line, files, output_paths

text_flags.define_text_flags()
_NUM_DOCUMENTS = flags.DEFINE_integer(
    "num_documents", 3, "Documents to print.", lower_bound=0
)
_SAMPLE_SEED = flags.DEFINE_integer(
    "sample_seed",
    None,
    "Reads the whole corpus and draws the documents at random with this seed. "
    "Without it, the first documents are printed and reading stops there.",
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "File, or existing folder, to write all of the text to instead of printing some.",
)
_MAX_PARAGRAPHS = 12
_MAX_CHARACTERS = 300
_MAX_REJECTED = 20


class _Counts:
    """Counts documents and rejections, and keeps the first rejections."""

    def __init__(self):
        self.counts = collections.Counter(
            documents=0, paragraphs=0, words=0, characters=0
        )
        self.reasons = collections.Counter()
        self.rejected = []

    def documents(self, items: Iterator) -> Iterator[readers.Document]:
        for item in items:
            if isinstance(item, readers.RejectedDocument):
                self.reasons[item.reason] += 1
                if len(self.rejected) < _MAX_REJECTED:
                    self.rejected.append(item)
                continue
            self.counts["documents"] += 1
            self.counts["paragraphs"] += len(item.paragraphs)
            self.counts["words"] += sum(len(text.split()) for text in item.paragraphs)
            self.counts["characters"] += item.num_characters
            yield item

    def print(self, num_files: int, passed_over: PassedOver, is_all: bool) -> None:
        read = ", ".join(f"{value:,} {name}" for name, value in self.counts.items())
        part = "" if is_all else " up to here (--sample_seed: all)"
        print(f"{num_files:,} files. Read{part}: {read}.")
        if passed_over.names:
            print(f"Files {passed_over_summary(passed_over.described())}")
        print(f"Rejected: {self.reasons.total():,} {dict(self.reasons) or ''}")
        for item in self.rejected:
            print(f"  {item}")
        if more := self.reasons.total() - len(self.rejected):
            print(f"  … and {more:,} more")


def _sample(documents: Iterator[readers.Document]) -> list[readers.Document]:
    """The documents to print, in the order of the corpus (reservoir sampling)."""
    sample: dict[int, tuple[int, readers.Document]] = {}
    generator = random.Random(_SAMPLE_SEED.value)
    for number, document in enumerate(documents):
        slot = number
        if number >= _NUM_DOCUMENTS.value:
            if _SAMPLE_SEED.value is None:
                break
            slot = generator.randrange(number + 1)
        if slot < _NUM_DOCUMENTS.value:
            sample[slot] = (number, document)
    ordered = sorted(sample.values(), key=lambda pair: pair[0])
    return [document for _, document in ordered]


def _print_document(document: readers.Document) -> None:
    print(f"=== {document.source}, {document.location}")
    print(
        f"    title: {document.title!r}, {len(document.paragraphs)} paragraphs, "
        f"{document.num_characters} characters"
    )
    for number, text in enumerate(document.paragraphs[:_MAX_PARAGRAPHS]):
        shown = text[:_MAX_CHARACTERS] + "…" * (len(text) > _MAX_CHARACTERS)
        print(
            textwrap.fill(
                shown,
                width=100,
                initial_indent=f"{number:5d}  ",
                subsequent_indent=" " * 7,
                drop_whitespace=False,
            )
        )
    if (more := len(document.paragraphs) - _MAX_PARAGRAPHS) > 0:
        print(f"       … and {more} more")
    print()


def _write_documents(path: pathlib.Path, documents: Iterable[readers.Document]) -> None:
    """Writes JSON lines; or a paragraph a line, and a blank line after a document."""
    with (
        files.written_aside(path) as aside,
        open(aside, "w", encoding="utf-8", newline="\n") as file,
    ):
        for document in documents:
            text = "\n".join(document.paragraphs)
            if path.suffix == ".jsonl":
                record = {"title": document.title, "text": text}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                file.write(f"{text}\n\n")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = None
    if _OUTPUT.value:
        output = output_paths.local_path(_OUTPUT.value, "output", "file or folder")
        if not output.is_dir():
            output = output_paths.file_path(_OUTPUT.value, "output")
    reader = readers.get_reader(values.format, **text_flags.reader_options())
    passed_over = PassedOver()
    sources = reader.sources(values.input, passed_over)
    counts = _Counts()
    if output is None:
        for document in _sample(counts.documents(reader.read_input(values.input))):
            _print_document(document)
    else:
        with command_line.progress_bar(len(sources), "text", "file") as bar:

            def read(source: str) -> Iterator[readers.Document]:
                yield from counts.documents(reader.read(sources[source], source))
                bar.update()

            if not output.is_dir():
                _write_documents(
                    output, (item for name in sources for item in read(name))
                )
            else:
                for source in sources:
                    path = output / f"{source}.txt"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    _write_documents(path, read(source))
    is_all = output is not None or _SAMPLE_SEED.value is not None
    counts.print(len(sources), passed_over, is_all)


if __name__ == "__main__":
    sys.exit(command_line.run(main))
