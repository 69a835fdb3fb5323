"""Prints records as trees, with the paragraph, sentence and token indices.

  seg-tf inspect-records --records_dir=records --record=17
  seg-tf inspect-records --records_dir=records --random=10
  seg-tf inspect-records --records_dir=records/documents --record=0

Each sentence is printed as one line of word pieces, or words, below its paragraph. For
word pieces, `--tokens` adds a table with the paragraph, sentence and token index of
every token as the model sees them. `*` marks a value that was capped.
"""

import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from absl import flags

from data_pipelines import command_flags
from seg_tf.config import EncoderConfig
from seg_tf.data import examples, mirrors, shards
from seg_tf.data.manifest import SPLITS, Manifest, shard_paths, vocabulary_path
from seg_tf.layouts.rows import NUM_SPECIAL_TOKENS
from seg_tf.layouts.windows import window_rows
from seg_tf.text import encoding
from seg_tf.text.graph.trees import Trees
from seg_tf.text.tree import DocumentTree

# Index name -> width of its column.
_INDICES = {"paragraph_index": 9, "sentence_index": 8, "token_index": 6}


def tree_lines(
    tree: DocumentTree, tokens: Sequence[str], caps: Mapping[str, int]
) -> Iterator[str]:
    """Yields a tree as indented lines: paragraphs, sentences and pieces.

    `tokens` maps ids to strings, and `caps` maps index names to table sizes. The last
    lines count the pieces whose indices are too large for the tables.
    """
    paragraph, sentence, token = tree.first_index
    begin = first = 0
    for num_sentences in tree.paragraph_lengths:
        yield f"paragraph {paragraph}"
        for length in tree.sentence_lengths[first : first + num_sentences]:
            pieces = " ".join(tokens[i] for i in tree.token_ids[begin : begin + length])
            offset = f" (from token {token})" if token else ""
            yield f"  sentence {sentence}{offset}: {pieces}"
            begin, sentence, token = begin + length, sentence + 1, 0
        paragraph, first, sentence = paragraph + 1, first + num_sentences, 0
    true_indices = tree.indices()
    for name, cap in caps.items():
        if over := int(np.sum(true_indices[name] >= cap)):
            yield (
                f"cap: {over} of {len(tree.token_ids)} pieces have {name} "
                f"{cap} or more (up to {true_indices[name].max()})"
            )


def token_table(
    tree: DocumentTree, tokens: Sequence[str], caps: Mapping[str, int]
) -> Iterator[str]:
    """Yields the lines of a table of tokens and indices. `*` marks a capped index."""
    capped, unbounded = (
        window_rows(
            Trees.of_document(tree),
            special_ids=dict.fromkeys(("cls", "sep", "pad"), 0),
            row_length=len(tree.token_ids) + NUM_SPECIAL_TOKENS,
            caps=some_caps,
        )
        for some_caps in (caps, dict.fromkeys(caps, np.iinfo(np.int32).max))
    )
    yield f"{'position':>8}  {'paragraph':>9}  {'sentence':>8}  {'token':>6}  piece"
    names = ["[CLS]", *(tokens[i] for i in tree.token_ids), "[SEP]"]
    for position, name in enumerate(names):
        cells = [f"{position:>8}"]
        for index_name, width in _INDICES.items():
            value = int(capped[index_name][0, position])
            mark = "*" if value != int(unbounded[index_name][0, position]) else ""
            cells.append(f"{value}{mark}".rjust(width))
        yield "  ".join([*cells, name])


def define_flags() -> None:
    command_flags.define_records_flag()
    flags.DEFINE_enum("split", "train", SPLITS, "Name of the split.")
    flags.DEFINE_integer("record", 0, "Number of the record.", lower_bound=0)
    flags.DEFINE_integer(
        "random", 0, "Print this many records, drawn at random.", lower_bound=0
    )
    flags.DEFINE_integer("seed", 0, "Seed of --random.")
    flags.DEFINE_bool("tokens", False, "Print a table with the indices of each token.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    folder = mirrors.local_records(values.records_dir)
    manifest = Manifest.load(folder)
    reader = shards.RecordReader(shard_paths(manifest, folder, values.split))
    path = vocabulary_path(manifest, folder)
    tokens = encoding.read_vocabulary(manifest.tokenizer, path).tokens
    caps = {}
    if manifest.tokenizer == encoding.WORD_PIECES:
        caps = EncoderConfig().index_tables
    elif values.tokens:
        raise ValueError(
            "`--tokens` needs records of word pieces, because words have no index "
            f"tables. Received: {folder}, with tokenizer={manifest.tokenizer}"
        )
    if not 0 <= values.record < len(reader):
        raise ValueError(
            f"`--record` must be below {len(reader)}, the records of the "
            f"{values.split} split. Received: {values.record}"
        )
    numbers = [values.record]
    if values.random:
        count = min(values.random, len(reader))
        numbers = random.Random(values.seed).sample(range(len(reader)), count)
    for number in sorted(numbers):
        tree, document_id, permutation = examples.decode(
            reader[number], manifest.number_widths
        )
        print(
            f"=== {values.split} record {number} of {len(reader)}: document "
            f"{document_id}, {len(tree.token_ids)} {manifest.tokens_name}, "
            f"{len(tree.sentence_lengths)} sentences, "
            f"{len(tree.paragraph_lengths)} paragraphs",
            *tree_lines(tree, tokens, caps),
            sep="\n",
        )
        if permutation is not None:
            print(f"sentences shuffled for evaluation: {permutation.tolist()}")
        if values.tokens:
            print(*token_table(tree, tokens, caps), sep="\n")
