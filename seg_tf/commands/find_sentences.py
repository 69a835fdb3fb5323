r"""Finds the sentences of a corpus whose meaning in context is nearest to a query's.

  seg-tf find-sentences --checkpoint=runs/slm_base --corpus=books/ \
    --index_dir=books_index \
    --query="The waterwheel hammered on. Otherwise there was silence."

As in section 5.3 and table 6 of the SLM paper, the vector of a sentence is the output
at its [SENT] token, encoded together with the sentence before it
(--context_sentences); similarity is the cosine. With other encoders, the vector is a
ReAT's pooled <SS>, or the mean over the sentence's word pieces (BERT, SegaBERT, and an
SLM with --vectors=mean). The last sentence of a query is searched for; those before it
are its context. Each result is printed as rank, cosine, location, and the sentence with
those before it.

Cosines only mean something in comparison: the mean cosine of two sentences of the
corpus is printed first. Near 1, the vectors hardly distinguish one sentence from
another, and a warning says so.

--corpus names text files or folders. In plain text, a line is a paragraph and a blank
line ends a document; a file whose lines look hard-wrapped is one document. Markdown,
JSON lines, CSV and Parquet are recognised by their names. Others need their format:

  … --corpus=enwiki/text --format=wikiextractor

The vectors go to --index_dir. Once they are there, only queries are encoded, and
--corpus may be left out:

  seg-tf find-sentences --checkpoint=runs/slm_base --index_dir=books_index \
    --queries=queries.txt --num_neighbours=10 --output=neighbours.jsonl

where queries.txt has one query per line, optionally after a label and a tab. Lines that
begin with # are comments. examples/discourse_queries.txt has a query for each discourse
relation of the paper's table.

The search is exact: each query is compared with every vector, some thousands at a time,
so that memory stays small.
"""

import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags, text_flags
from seg_tf.inference import texts
from seg_tf.inference.corpus import CorpusVectors, describe, encode_corpus
from seg_tf.inference.sentence_encoder import (
    SentenceEncoder,
    cosine_warning,
    mean_cosine,
)
from seg_tf.inference.texts import Sentence


def define_flags() -> None:
    model_flags.define_model_flags()
    text_flags.define_text_flags()
    flags.DEFINE_list("corpus", [], "Text files or folders, comma-separated.")
    flags.DEFINE_multi_string("query", [], "A text; its last sentence is searched for.")
    flags.DEFINE_string(
        "queries", None, "File with one query per line, or a label, a tab and a query."
    )
    flags.DEFINE_string("index_dir", None, "Folder of the vectors.", required=True)
    flags.DEFINE_integer(
        "context_sentences",
        1,
        "Sentences before a sentence that are encoded with it.",
        lower_bound=0,
    )
    flags.DEFINE_enum(
        "vectors",
        None,
        ["sent", "mean"],
        "A sentence's vector: the output at its [SENT] or <SS>, or the mean over its "
        "word pieces. Default: sent for SLM and ReAT, mean for other models.",
    )
    flags.DEFINE_integer(
        "num_neighbours", 5, "Sentences to print for a query.", lower_bound=1
    )
    flags.DEFINE_string(
        "output", None, "JSON lines to write the neighbours to instead of printing."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    if not (values.corpus or values.query or values.queries):
        raise ValueError(
            "`--corpus` must name a corpus, or `--query` something to search for. "
            "Received: neither"
        )
    # Refuse bad input before a corpus is encoded for hours.
    folder = output_paths.folder_path(values.index_dir, "index_dir")
    if values.output:
        output_paths.file_path(values.output, "output")
    sources = texts.list_files(values.corpus) if values.corpus else {}
    # The vectors may be in a folder of the corpus.
    sources = {
        name: path
        for name, path in sources.items()
        if not path.resolve().is_relative_to(folder.resolve())
    }
    queries = [(None, query) for query in values.query] + _labelled_queries()
    pretrained = model_flags.load_model()
    splitter = pretrained.splitter()
    encoder = SentenceEncoder(pretrained)
    kind = encoder.choose_vectors(values.vectors)
    groups = []
    for _, query in queries:
        sentences = texts.split_text(query, splitter)
        if not sentences:
            raise ValueError(f"`--query` must hold a sentence. Received: {query!r}")
        *_, group = texts.in_context(sentences, values.context_sentences)
        groups.append(group)
    corpus = _corpus(folder, sources, pretrained, encoder, kind)
    mean = mean_cosine(corpus.parts())
    print(
        f"{corpus.manifest['num_sentences']:,} sentences in {folder}"
        + ("" if mean is None else f"; mean cosine of two: {mean:.4f}"),
        flush=True,
    )
    if warning := cosine_warning(mean):
        print(f"Warning: {warning} (--vectors, --checkpoint)", file=sys.stderr)
    if queries:
        vectors, _ = encoder.encode_in_context(groups, kind)
        answers = _answers(corpus, [label for label, _ in queries], groups, vectors)
        if not values.output:
            print("\n".join(map(_describe, answers)))
            return
        lines = (json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
        files.write_text(pathlib.Path(values.output), "".join(lines))
        print(f"Neighbours of {len(answers):,} queries: {values.output}")


def _labelled_queries() -> list[tuple[str | None, str]]:
    """Labels, or None, and queries of `--queries`.

    Raises:
        ValueError: if some lines have a label and others not.
    """
    path = flags.FLAGS.queries
    lines = model_flags.read_lines(path) if path else []
    lines = [line for line in lines if not line.startswith("#")]
    if not any("\t" in line for line in lines):
        return [(None, line) for line in lines]
    queries: list[tuple[str | None, str]] = []
    for line in lines:
        label, tab, query = line.partition("\t")
        if not tab:
            raise ValueError(
                f"{path}: expected a label, a tab and a query in every line, as in "
                f"others; found no tab in {line!r}"
            )
        queries.append((label.strip(), query.strip()))
    return queries


def _corpus(
    folder: pathlib.Path,
    sources: dict[str, pathlib.Path],
    pretrained: Pretrained,
    encoder: SentenceEncoder,
    kind: str,
) -> CorpusVectors:
    """Returns complete vectors: of the sources, or those in the folder."""
    values = flags.FLAGS
    splitter = pretrained.splitter()
    settings = {
        "context_sentences": values.context_sentences,
        "vectors": kind,
        **pretrained.normalization.described(),
        "sentence_parameters_sha256": splitter.parameters_checksum,
    }
    checksums = (pretrained.weights_checksum, pretrained.vocabulary.checksum)
    if sources:
        names = ("format", "reader_options")
        settings |= {name: values[name].value for name in names}

        def read() -> Iterator[Sentence]:
            for name, path in sources.items():
                documents = text_flags.read_documents(path)
                yield from texts.split_documents(documents, name, splitter)

        return encode_corpus(
            folder,
            read,
            encoder,
            describe(sources, *checksums, settings),
            lambda total: command_line.progress_bar(total, "vectors", "sentence"),
        )
    corpus = CorpusVectors(folder)
    # Any corpus will do, but queries must be encoded in the same way.
    expected = describe({}, *checksums, {**corpus.manifest["settings"], **settings})
    corpus.check_same({**expected, "corpus": corpus.manifest["corpus"]})
    return corpus


def _answers(
    corpus: CorpusVectors,
    labels: Sequence[str | None],
    queries: Sequence[Sequence[Sentence]],
    vectors: Any,
) -> list[dict[str, Any]]:
    """The neighbours of each query, as values of JSON."""
    neighbours = corpus.nearest(vectors, flags.FLAGS.num_neighbours)
    sentences = corpus.sentences(number for some in neighbours for number, _ in some)
    answers = []
    for label, query, some in zip(labels, queries, neighbours, strict=True):
        answer: dict[str, Any] = {} if label is None else {"label": label}
        answer["query"] = [sentence.text for sentence in query]
        answer["neighbours"] = []
        for rank, (number, cosine) in enumerate(some, start=1):
            *before, sentence = sentences[number]
            answer["neighbours"].append(
                {
                    "rank": rank,
                    "cosine": round(cosine, 6),
                    "file": sentence.file,
                    "document": sentence.document,
                    "paragraph": sentence.paragraph + 1,
                    "before": [sentence.text for sentence in before],
                    "sentence": sentence.text,
                }
            )
        answers.append(answer)
    return answers


def _describe(answer: dict[str, Any]) -> str:
    """A query and its neighbours, for people."""
    *before, sentence = answer["query"]
    label = f" ({answer['label']})" if "label" in answer else ""
    lines = ["", f"Query{label}: {' '.join([*before, f'**{sentence}**'])}"]
    for neighbour in answer["neighbours"]:
        sentences = [*neighbour["before"], f"**{neighbour['sentence']}**"]
        lines += [
            f"{neighbour['rank']:4d}  {neighbour['cosine']:.4f}  {neighbour['file']}, "
            f"document {neighbour['document']}, paragraph {neighbour['paragraph']}",
            f"      {' '.join(sentences)}",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
