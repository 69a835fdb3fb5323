r"""Finds the sentences of a corpus that are closest in meaning to a query.

  seg-tf find-sentences --checkpoint=runs/slm_base --corpus=books/ \
    --index_dir=books_index \
    --query="The waterwheel hammered on. Otherwise there was silence."

The last sentence of a query is searched for. The sentence before it is its context. A
sentence's vector is the output at its [SENT] (section 5.3 of the SLM paper), its pooled
<SS> (ReAT), or the mean over its word pieces. Similarity is the cosine. For comparison,
the command first prints the mean cosine of all pairs of sentences in the corpus. The
vectors are saved in --index_dir. Once they exist, --corpus can be omitted:

  seg-tf find-sentences --checkpoint=runs/slm_base --index_dir=books_index \
    --queries=examples/discourse_queries.txt --num_neighbours=10 --output=near.jsonl
"""

import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
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
    model_flags.define_text_flags()
    model_flags.define_output_flag("the neighbors as JSON lines. Default: print them")
    flags.DEFINE_list("corpus", [], "Comma-separated text files or folders.")
    flags.DEFINE_multi_string("query", [], "Text whose last sentence is searched for.")
    flags.DEFINE_string("queries", None, "File with one query per line.")
    flags.DEFINE_string("index_dir", None, "Folder of the vectors.", required=True)
    flags.DEFINE_enum(
        "vectors",
        None,
        ["sent", "mean"],
        "sent: the output at [SENT] or <SS>, the default for SLM and ReAT; mean: the "
        "mean over the word pieces.",
    )
    flags.DEFINE_integer("num_neighbours", 5, "Neighbors to print per query.", 1)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    queries = list(values.query)
    if values.queries:
        lines = model_flags.read_lines(values.queries)
        queries += [line for line in lines if not line.startswith("#")]
    if not (values.corpus or queries):
        raise ValueError("`--corpus` or `--query` must be given. Received: neither")
    # Reject invalid input before encoding a corpus, which may take hours.
    folder = command_line.folder_path(values.index_dir, "index_dir")
    output = model_flags.output_file()
    sources = texts.list_files(values.corpus) if values.corpus else {}
    # Skip the vectors if their folder is part of the corpus.
    sources = {
        name: path
        for name, path in sources.items()
        if not path.resolve().is_relative_to(folder.resolve())
    }
    pretrained = model_flags.load_model()
    splitter = pretrained.splitter()
    encoder = SentenceEncoder(pretrained)
    kind = encoder.choose_vectors(values.vectors)
    groups = []
    for query in queries:
        sentences = texts.split_text(query, splitter)
        if not sentences:
            raise ValueError(f"`--query` must hold a sentence. Received: {query!r}")
        groups.append(sentences[-2:])
    corpus = _corpus(folder, sources, pretrained, encoder, kind)
    mean = mean_cosine(corpus.vectors)
    print(
        f"{corpus.manifest['num_sentences']:,} sentences in {folder}"
        + ("" if mean is None else f"; mean cosine of two: {mean:.4f}"),
        flush=True,
    )
    if warning := cosine_warning(mean):
        print(f"Warning: {warning} (--vectors, --checkpoint)", file=sys.stderr)
    if not queries:
        return
    vectors, _ = encoder.encode_in_context(groups, kind)
    neighbours = corpus.nearest(vectors, values.num_neighbours)
    near = corpus.sentences(number for some in neighbours for number, _ in some)
    answers = [
        {
            "query": [sentence.text for sentence in group],
            "neighbours": [
                {
                    "rank": rank,
                    "cosine": round(cosine, 6),
                    "file": near[number][-1].file,
                    "document": near[number][-1].document,
                    "paragraph": near[number][-1].paragraph + 1,
                    "sentences": [sentence.text for sentence in near[number]],
                }
                for rank, (number, cosine) in enumerate(some, start=1)
            ],
        }
        for group, some in zip(groups, neighbours, strict=True)
    ]
    if output is None:
        print("\n".join(map(_describe, answers)))
        return
    files.write_json_lines(output, answers)
    print(f"Neighbors of {len(answers):,} queries: {output}")


def _corpus(
    folder: pathlib.Path,
    sources: dict[str, pathlib.Path],
    pretrained: Pretrained,
    encoder: SentenceEncoder,
    kind: str,
) -> CorpusVectors:
    """Encodes the sources or, if there are none, opens the vectors in `folder`."""
    values, splitter = flags.FLAGS, pretrained.splitter()
    settings = {
        "vectors": kind,
        **pretrained.normalization.described(),
        "sentence_parameters_sha256": splitter.parameters.checksum,
    }
    checksums = (pretrained.weights_checksum, pretrained.vocabulary.checksum)
    if sources:
        settings |= {name: values[name].value for name in ("format", "reader_options")}

        def read() -> Iterator[Sentence]:
            for name, path in sources.items():
                documents = model_flags.read_documents(path)
                yield from texts.split_documents(documents, name, splitter)

        description = describe(sources, *checksums, settings)
        return encode_corpus(folder, read, encoder, description)
    corpus = CorpusVectors(folder)
    # Any corpus is valid, but queries must be encoded in the same way.
    expected = describe({}, *checksums, {**corpus.manifest["settings"], **settings})
    corpus.check_same({**expected, "corpus": corpus.manifest["corpus"]})
    return corpus


def _describe(answer: dict[str, Any]) -> str:
    lines = ["", f"Query: {_marked(answer['query'])}"]
    for near in answer["neighbours"]:
        lines += [
            f"{near['rank']:4d}  {near['cosine']:.4f}  {near['file']}, "
            f"document {near['document']}, paragraph {near['paragraph']}",
            f"      {_marked(near['sentences'])}",
        ]
    return "\n".join(lines)


def _marked(sentences: Sequence[str]) -> str:
    *before, last = sentences
    return " ".join([*before, f"**{last}**"])
