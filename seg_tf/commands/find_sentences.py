r"""Finds the sentences of a corpus whose meaning in context is nearest to a query's.

  python -m seg_tf.commands.find_sentences --checkpoint=runs/slm_base --corpus=books/ \
    --index_dir=books_index \
    --query="The waterwheel hammered on. Otherwise there was silence."

Like section 5.3 and table 6 of the SLM paper: the vector of a sentence is the output
at its [SENT] token, encoded together with the sentence before it
(--context_sentences); similarity is the cosine. Other encoders do as well: the vector
is a ReAT's pooled <SS>, or the mean over the sentence's word pieces (BERT, SegaBERT,
and an SLM with --vectors=mean). The last sentence of a query is searched for; those
before it are its context. Each result is printed as rank, cosine, location, and the
sentence with those before it.

Cosines only mean something in comparison: the mean cosine of two sentences of the
corpus is printed first. Near 1, the vectors hardly distinguish one sentence from
another, and a warning says so.

--corpus names text files or folders: UTF-8, a paragraph a line, a blank line ends a
document. Other formats are converted by

  python -m data_pipelines.readers --format=wikiextractor --input=enwiki/text \
    --output=enwiki.txt

The vectors go to --index_dir, in shards. A killed job resumes where it stopped when the
same command is given again. Once they are complete, only queries are encoded, and
--corpus may be left out. Damaged shards are refused by their checksums:

  python -m seg_tf.commands.find_sentences --checkpoint=runs/slm_base \
    --index_dir=books_index \
    --queries=queries.txt --num_neighbours=10 --output=neighbours.jsonl

where queries.txt has a query a line. A label may come before each, and a tab between
them; lines that begin with # are comments. examples/discourse_queries.txt has a query
for each discourse relation of the paper's table. To try it on the first sentences of a
corpus: --limit=10000.

The search is exact: a query is compared with every vector of the corpus, a shard at
a time, so that memory stays small.
"""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.inference import texts
from seg_tf.inference.corpus_vectors import (
    CorpusVectors,
    describe_corpus,
    make_corpus,
)
from seg_tf.inference.sentence_encoder import (
    SentenceEncoder,
    cosine_warning,
    mean_cosine,
)
from seg_tf.inference.texts import Sentence
from seg_tf.text.punkt import Splitter


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_list("corpus", [], "Text files or folders, comma-separated.")
    flags.DEFINE_multi_string("query", [], "A text; its last sentence is searched for.")
    flags.DEFINE_string(
        "queries", None, "File with a query a line, or a label, a tab and a query."
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
        "limit", None, "Take so many sentences of the corpus.", lower_bound=1
    )
    flags.DEFINE_integer(
        "num_neighbours", 5, "Sentences to print for a query.", lower_bound=1
    )
    flags.DEFINE_string(
        "output", None, "JSON lines to write the neighbours to instead of printing."
    )
    flags.DEFINE_integer(
        "shard_sentences",
        16_384,
        "Sentences of a shard: what a killed job does again, and keeps in memory.",
        lower_bound=1,
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    if not (values.corpus or values.query or values.queries):
        raise ValueError(
            "`--corpus` must name a corpus, or `--query` something to search for. "
            "Received: neither"
        )
    # Whatever can be refused, before a corpus is encoded for hours.
    folder = output_paths.folder_path(values.index_dir, "index_dir")
    if values.output:
        output_paths.file_path(values.output, "output")
    sources = texts.list_files(values.corpus) if values.corpus else {}
    # The vectors may lie in a folder of the corpus.
    sources = {
        name: path
        for name, path in sources.items()
        if not path.resolve().is_relative_to(folder.resolve())
    }
    queries = [(None, query) for query in values.query] + _queries_of_file()
    pretrained = model_flags.load_model()
    splitter = pretrained.splitter()
    model = SentenceEncoder(pretrained)
    model.check_context(values.context_sentences)
    kind = model.choose_vectors(values.vectors)
    spoken = [_sentences_of(query, splitter) for _, query in queries]
    corpus = _corpus(folder, sources, pretrained, splitter, model, kind)
    mean = mean_cosine(corpus.vectors())
    print(
        f"{corpus.manifest['num_sentences']:,} sentences in {folder}"
        + ("" if mean is None else f"; mean cosine of two: {mean:.4f}"),
        flush=True,
    )
    if warning := cosine_warning(mean):
        print(f"Warning: {warning} (--vectors, --checkpoint)", file=sys.stderr)
    if queries:
        vectors, _ = model.encode_in_context(spoken, kind)
        labels = [label for label, _ in queries]
        _show(corpus, labels, spoken, corpus.nearest(vectors, values.num_neighbours))


def _queries_of_file() -> list[tuple[str | None, str]]:
    """The queries of `--queries`, each after its label, which is None if none has one.

    Raises:
        ValueError: if some have a label and others not.
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


def _sentences_of(query: str, splitter: Splitter) -> list[Sentence]:
    """The last sentence of a query, after its context."""
    sentences = list(texts.split_lines(query.split("\n"), "query", splitter))
    if not sentences:
        raise ValueError(f"`--query` must hold a sentence. Received: {query!r}")
    *_, last = texts.in_context(sentences, flags.FLAGS.context_sentences)
    return list(last)


def _corpus(
    folder: pathlib.Path,
    sources: dict[str, pathlib.Path],
    pretrained: Pretrained,
    splitter: Splitter,
    model: SentenceEncoder,
    kind: str,
) -> CorpusVectors:
    """The complete vectors: made from the sources, or found in the folder."""
    values = flags.FLAGS
    settings = {
        "context_sentences": values.context_sentences,
        "vectors": kind,
        **pretrained.normalization.described(),
        "sentence_parameters_sha256": splitter.parameters_checksum,
    }
    checksums = (pretrained.weights_checksum, pretrained.vocabulary.checksum)
    if sources:
        of_corpus = {name: values[name].value for name in ("limit", "shard_sentences")}
        return make_corpus(
            folder,
            sources,
            splitter,
            model,
            describe_corpus(sources, *checksums, {**settings, **of_corpus}),
            lambda total: command_line.progress_bar(total, "vectors", "sentence"),
        )
    corpus = CorpusVectors(folder)
    # What the corpus is made of may be anything; what queries are made with may not.
    settings = {**corpus.manifest["settings"], **settings}
    expected = describe_corpus({}, *checksums, settings)
    corpus.check_same({**expected, "corpus": corpus.manifest["corpus"]})
    corpus.check_complete()
    return corpus


def _show(
    corpus: CorpusVectors,
    labels: Sequence[str | None],
    queries: Sequence[Sequence[Sentence]],
    neighbours: Sequence[Sequence[tuple[int, float]]],
) -> None:
    """Prints the neighbours of each query, or writes them to `--output`."""
    numbers = [number for of_query in neighbours for number, _ in of_query]
    sentences = corpus.sentences(numbers)
    answers = [
        {
            **({} if label is None else {"label": label}),
            "query": [one.text for one in query],
            "neighbours": [
                _to_json(rank, cosine, sentences[number])
                for rank, (number, cosine) in enumerate(of_query, start=1)
            ],
        }
        for label, query, of_query in zip(labels, queries, neighbours, strict=True)
    ]
    if not flags.FLAGS.output:
        print("\n".join(map(_describe, answers)))
        return
    output = pathlib.Path(flags.FLAGS.output)
    lines = (json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
    files.write_text(output, "".join(lines))
    print(f"Neighbours of {len(answers):,} queries: {output}")


def _to_json(
    rank: int, cosine: float, in_context: Sequence[Sentence]
) -> dict[str, Any]:
    *before, sentence = in_context
    return {
        "rank": rank,
        "cosine": round(cosine, 6),
        "file": sentence.file,
        "document": sentence.document,
        "line": sentence.line,
        "before": [one.text for one in before],
        "sentence": sentence.text,
    }


def _describe(answer: dict[str, Any]) -> str:
    """A query and its neighbours, for people."""
    *before, sentence = answer["query"]
    label = f" ({answer['label']})" if "label" in answer else ""
    lines = ["", f"Query{label}: {_mark(before, sentence)}"]
    for one in answer["neighbours"]:
        lines.append(
            f"{one['rank']:4d}  {one['cosine']:.4f}  {one['file']}, document "
            f"{one['document']}, line {one['line']}"
        )
        lines.append(f"      {_mark(one['before'], one['sentence'])}")
    return "\n".join(lines)


def _mark(before: Sequence[str], sentence: str) -> str:
    return " ".join([*before, f"**{sentence}**"])


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError, goes_on=True)
