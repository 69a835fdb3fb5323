r"""Shows how a reader parses a text: documents, paragraphs, counts, rejections.

Use this to look at a corpus before you build records from it. The following prints the
first three documents and what was rejected before them:

  seg-tf readers --format=wikiextractor --input=enwiki/text

To print ten random documents and the counts of the whole corpus:

  seg-tf readers --format=markdown --input=books --num_documents=10 --sample_seed=1

`--input` may be a file, a folder or a glob, compressed or not, local or a URL. Each
format has `--reader_options` (docs/sources.md):

  seg-tf readers --format=json_lines --input='gs://bucket/c4/*.json.gz' \
      --reader_options=text_field=content.text

`--output=corpus/books.jsonl` writes the whole text as JSON lines, with one document per
line. A folder of such files can combine corpora of different formats.
"""

import collections
import itertools
import random
from collections.abc import Iterator, Sequence

from absl import flags

from data_pipelines import command_flags, readers
from data_pipelines.readers.base import (
    PassedOver,
    describe_passed_over,
    passed_over_summary,
)
from seg_tf import command_line, files

_MAX_PARAGRAPHS = 12
_MAX_CHARACTERS = 300
_MAX_REJECTED = 20


def define_flags() -> None:
    command_flags.define_text_flags()
    flags.DEFINE_integer(
        "num_documents", 3, "Number of documents to print.", lower_bound=0
    )
    flags.DEFINE_integer(
        "sample_seed",
        None,
        "Read the whole corpus and print random documents, drawn with this seed. "
        "Default: print the first documents and stop reading.",
    )
    flags.DEFINE_string(
        "output",
        None,
        "Write the whole text to this file (.jsonl) instead of printing a sample.",
    )


def _print_sample(documents: Iterator[readers.Document]) -> None:
    """Prints the first documents or, with a seed, random ones (reservoir sampling)."""
    sample: dict[int, tuple[int, readers.Document]] = {}
    count, seed = flags.FLAGS.num_documents, flags.FLAGS.sample_seed
    generator = random.Random(seed)
    if seed is None:
        documents = itertools.islice(documents, count)
    for number, document in enumerate(documents):
        slot = number if number < count else generator.randrange(number + 1)
        if slot < count:
            sample[slot] = (number, document)
    for _, document in sorted(sample.values(), key=lambda pair: pair[0]):
        print(
            f"=== {document.source}, {document.location}\n    title: "
            f"{document.title!r}, {len(document.paragraphs)} paragraphs, "
            f"{document.num_characters} characters"
        )
        for number, text in enumerate(document.paragraphs[:_MAX_PARAGRAPHS]):
            rest = "…" * (len(text) > _MAX_CHARACTERS)
            print(f"{number:5d}  {text[:_MAX_CHARACTERS]}{rest}")
        if (more := len(document.paragraphs) - _MAX_PARAGRAPHS) > 0:
            print(f"       … and {more} more")
        print()


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = None
    if values.output is not None:
        output = command_line.file_path(values.output, "output")
    reader = readers.get_reader(values.format, **command_flags.reader_options())
    passed_over: PassedOver = {}
    sources = reader.sources(values.input, passed_over)
    counts = collections.Counter(documents=0, paragraphs=0, words=0, characters=0)
    rejected: list[readers.RejectedDocument] = []
    reasons: collections.Counter[str] = collections.Counter()

    def documents() -> Iterator[readers.Document]:
        for source, path in sources.items():
            for item in reader.read(path, source):
                if isinstance(item, readers.RejectedDocument):
                    reasons[item.reason] += 1
                    if len(rejected) < _MAX_REJECTED:
                        rejected.append(item)
                    continue
                counts["documents"] += 1
                counts["paragraphs"] += len(item.paragraphs)
                counts["words"] += sum(len(text.split()) for text in item.paragraphs)
                counts["characters"] += item.num_characters
                yield item
            bar.update()

    is_whole = output is not None or values.sample_seed is not None
    with command_line.progress_bar(len(sources), "text", "file") as bar:
        if output is None:
            _print_sample(documents())
        else:
            records = (
                {"title": document.title, "text": "\n".join(document.paragraphs)}
                for document in documents()
            )
            files.write_json_lines(output, records)
    read = ", ".join(f"{value:,} {name}" for name, value in counts.items())
    part = "" if is_whole else " up to here (--sample_seed: all)"
    print(f"{len(sources):,} files. Read{part}: {read}.")
    if passed_over:
        print(f"Files {passed_over_summary(describe_passed_over(passed_over) or {})}")
    print(f"Rejected: {reasons.total():,}", *filter(None, [dict(reasons)]))
    for item in rejected:
        print(f"  {item}")
    if more := reasons.total() - len(rejected):
        print(f"  … and {more:,} more")
