"""Rows of sentences from records: complete, merged, shuffled and masked as they say."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import build_from
from seg_tf.data import examples, randomness
from seg_tf.data.inputs import (
    MaskingConfig,
    SentenceInputsConfig,
    ShuffledWindowInputsConfig,
)
from seg_tf.data.manifest import Manifest
from seg_tf.data.sentence_inputs import merge
from seg_tf.layouts.sentences import CANDIDATES
from seg_tf.text.tree import DocumentTree
from tests.data.test_window_inputs import assert_same_rows, take, unmasked
from tests.data_pipelines.builders import (
    FIRST_PIECE,
    SPECIAL_IDS,
    random_tree,
    read_split,
    write_windows,
)
from tests.layouts.test_sentences import slow_row

pytestmark = pytest.mark.slow
WINDOW_LENGTH = 40
MAX_SENTENCES = 6
ROW_LENGTH = WINDOW_LENGTH + MAX_SENTENCES
VOCAB_SIZE = 500
SENT = 5  # the first unused row of the vocabulary that the builder writes
TABLES = {
    "position_index": ROW_LENGTH,
    "sentence_id": MAX_SENTENCES + 2,
    "paragraph_index": 4,
    "sentence_index": 3,
    "token_index": 9,
}


def write(folder):
    generator = np.random.default_rng(0)

    def documents(count):
        return [random_tree(generator, 120, VOCAB_SIZE) for _ in range(count)]

    # A window of as many sentences as pieces, and one of a single sentence.
    many = DocumentTree(
        np.arange(FIRST_PIECE, FIRST_PIECE + 38), np.ones(38, int), np.array([30, 8])
    )
    one = DocumentTree(np.full(20, 77), np.array([20]), np.array([1]))
    write_windows(
        folder,
        {
            "train": [[*documents(12), many], [*documents(6), one]],
            "validation": [[*documents(8), many, one]],
        },
        window_length=WINDOW_LENGTH,
        vocab_size=VOCAB_SIZE,
    )
    return folder


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    return write(tmp_path_factory.mktemp("records"))


# Of rows without [SENT].
PLAIN_TABLES = {name: rows for name, rows in TABLES.items() if name != "sentence_id"}


def build(records_dir, seed=0, config_class=SentenceInputsConfig, **overrides):
    config = config_class(
        window_length=WINDOW_LENGTH,
        max_sentences=overrides.pop("max_sentences", MAX_SENTENCES),
        shuffle_rate=overrides.pop("shuffle_rate", 0.5),
        masking=MaskingConfig(max_predictions=6),
    )
    tables = overrides.pop("index_tables", TABLES)
    return build_from(
        config, records_dir=records_dir, index_tables=tables, seed=seed, **overrides
    )


def sentences_of(token_ids):
    """The sentences of a row, in gold order."""
    length = list(token_ids).index(SPECIAL_IDS["sep"])
    sentences = []
    for token in token_ids[1:length]:
        if token == SENT:
            sentences.append([])
        else:
            sentences[-1].append(int(token))
    return sentences


def places_of(rows, number):
    """At which place each sentence of a row, in gold order, is presented."""
    is_sent = unmasked(rows)[number] == SENT
    return (rows["sentence_id"][number][is_sent] - 1).tolist()


def merged_structure(tree, sentences):
    """Paragraph and sentence index of each sentence of a row; it has whole ones."""
    ends = np.cumsum(tree.sentence_lengths).tolist()
    begin, paragraphs, indices = 0, [], []
    starts = [0, *ends]
    inner = [
        (paragraph, sentence)
        for paragraph, length in enumerate(tree.paragraph_lengths)
        for sentence in range(length)
    ]
    for sentence in sentences:
        paragraph, index = inner[starts.index(begin)]
        first_paragraph, first_sentence, _ = tree.first_index
        paragraphs.append(paragraph + first_paragraph)
        indices.append(index + (first_sentence if paragraph == 0 else 0))
        begin += len(sentence)
    assert begin in ends
    return paragraphs, indices


@pytest.mark.parametrize(
    ("split", "shuffle_rate"), [("train", 0.5), ("validation", 1.0)]
)
def test_rows_hold_every_piece_of_a_window_and_follow_from_its_order(
    records_dir, split, shuffle_rate
):
    """Without sentence tokens, the same sentences take the same places."""
    windows = {tuple(tree.token_ids): tree for tree in read_split(records_dir, split)}
    # Of a document's windows only the first may be asked for its first sentence.
    assert 0 < sum(any(tree.first_index) for tree in windows.values()) < len(windows)
    inputs = build(records_dir, shuffle_rate=shuffle_rate)
    plain_inputs = build(
        records_dir,
        config_class=ShuffledWindowInputsConfig,
        shuffle_rate=shuffle_rate,
        index_tables=PLAIN_TABLES,
    )
    rows, plain = (
        take(getattr(form, f"{split}_dataset")(5), len(windows))
        for form in (inputs, plain_inputs)
    )
    assert plain.keys() == rows.keys() - {"sentence_id", *CANDIDATES}
    if split == "train":
        assert plain_inputs.fill == pytest.approx(plain["padding_mask"].mean())
    np.testing.assert_array_equal(plain["is_shuffled"], rows["is_shuffled"])
    seen, moved = set(), 0
    for number, token_ids in enumerate(unmasked(rows)):
        sentences = sentences_of(token_ids)
        pieces = tuple(itertools.chain(*sentences))
        tree = windows[pieces]
        seen.add(pieces)
        assert len(sentences) == min(len(tree.sentence_lengths), MAX_SENTENCES)
        places = places_of(rows, number)
        moved += places != sorted(places)
        if not rows["is_shuffled"][number]:
            assert places == sorted(places)
        for form, length, tables, sent_id in (
            (rows, ROW_LENGTH, TABLES, SENT),
            (plain, WINDOW_LENGTH, PLAIN_TABLES, None),
        ):
            expected = slow_row(
                sentences,
                places,
                *merged_structure(tree, sentences),
                first_is_context=any(tree.first_index),
                first_tokens=[tree.first_index[2], *[0] * (len(sentences) - 1)],
                row_length=length,
                max_sentences=MAX_SENTENCES,
                caps=tables,
                special_ids=SPECIAL_IDS,
                sent_id=sent_id,
            )
            assert unmasked(form)[number].tolist() == expected.pop("token_ids")
            sentence_numbers = expected.pop("sentence_number")
            for name, values in expected.items():
                assert form[name][number].tolist() == values, name
            # No special token is ever predicted.
            is_chosen = form["masked_weights"][number] == 1
            chosen = form["masked_positions"][number][is_chosen]
            assert all(sentence_numbers[position] for position in chosen)
    assert len(seen) == len(windows)
    assert moved


def test_validation_takes_the_stored_order(records_dir):
    inputs = build(records_dir, shuffle_rate=1.0)
    manifest = Manifest.load(records_dir)
    stored = {}
    for shard in manifest.splits["validation"]:
        for raw in tf.data.TFRecordDataset(str(records_dir / shard.file)):
            tree, _, order = examples.decode(raw.numpy(), manifest.number_widths)
            stored[tuple(tree.token_ids)] = (tree, order.tolist())
    rows = take(inputs.validation_dataset(4), len(stored))
    merged = 0
    for number, token_ids in enumerate(unmasked(rows)):
        sentences = sentences_of(token_ids)
        tree, order = stored[tuple(itertools.chain(*sentences))]
        starts = [0, *np.cumsum(tree.sentence_lengths).tolist()]
        begins = [0, *np.cumsum([len(one) for one in sentences]).tolist()][:-1]
        # A merged sentence comes where the first of its parts would.
        keys = [order.index(starts.index(begin)) for begin in begins]
        ranks = [sorted(keys).index(key) for key in keys]
        assert places_of(rows, number) == ranks
        merged += len(sentences) < len(tree.sentence_lengths)
    assert merged
    again = take(inputs.validation_dataset(3), len(stored))
    assert_same_rows(again, rows)


def test_merges_leave_every_set_of_boundaries_as_likely():
    count, sentences, wanted = 4000, 6, 4
    streams = tf.constant(randomness.uniform_integers(3, count), tf.uint64)
    firsts, counts = merge(
        tf.fill([count], sentences), sentences, streams, max_sentences=wanted
    )
    assert (counts.numpy() == wanted).all()
    drawn = collections.Counter(map(tuple, firsts.numpy().tolist()))
    others = itertools.combinations(range(1, sentences), wanted - 1)
    assert drawn.keys() == {(0, *boundaries) for boundaries in others}
    expected = count / len(drawn)
    # 9 degrees of freedom, at 0.001.
    assert sum((n - expected) ** 2 / expected for n in drawn.values()) < 27.9
