"""Windows: nothing lost, nothing twice, true indices, whole sentences or full."""

import itertools

import numpy as np
import pytest

from data_pipelines.builds import window_cutting
from seg_tf.text.tree import DocumentTree
from tests.data_pipelines.builders import random_tree

pytestmark = pytest.mark.slow


def cut(
    tree, capacity, short_window_rate=0.0, cut_sentences=False, document_id=0, seed=0
):
    return list(
        window_cutting.cut_windows(
            tree,
            document_id,
            capacity=capacity,
            short_window_rate=short_window_rate,
            cut_sentences=cut_sentences,
            seed=seed,
        )
    )


def lengths_of(found):
    return [len(window.tree.token_ids) for window in found]


@pytest.mark.parametrize("capacity", [1, 5, 30, 10_000])
@pytest.mark.parametrize("short_window_rate", [0.0, 0.5])
@pytest.mark.parametrize("cut_sentences", [False, True])
def test_windows_put_together_are_the_document(
    capacity, short_window_rate, cut_sentences
):
    generator = np.random.default_rng(capacity)
    for document_id in range(40):
        tree = random_tree(generator, max_pieces=200, vocab_size=1000)
        found = cut(tree, capacity, short_window_rate, cut_sentences, document_id)
        pieces = np.concatenate([window.tree.token_ids for window in found])
        np.testing.assert_array_equal(pieces, tree.token_ids)
        assert max(lengths_of(found)) <= capacity
        # Each window's indices are those of the document at its place.
        expected = tree.indices()
        for name, values in expected.items():
            in_windows = np.concatenate(
                [window.tree.indices()[name] for window in found]
            )
            np.testing.assert_array_equal(in_windows, values, err_msg=name)


def test_windows_take_whole_sentences_and_cut_only_one_too_long():
    tree = DocumentTree(np.arange(17), np.array([3, 2, 8, 4]), np.array([2, 2]))
    found = [window.tree for window in cut(tree, capacity=6)]
    assert [len(window.token_ids) for window in found] == [5, 6, 6]
    assert [window.sentence_lengths.tolist() for window in found] == [
        [3, 2],
        [6],
        [2, 4],
    ]
    assert [window.paragraph_lengths.tolist() for window in found] == [[2], [1], [2]]
    assert [window.first_index for window in found] == [
        (0, 0, 0),
        (1, 0, 0),
        (1, 0, 6),
    ]


def slow_full_windows(tree, capacity):
    """Piece by piece: ids, sentence and paragraph lengths, first index of each."""
    ids, lengths = iter(tree.token_ids.tolist()), iter(tree.sentence_lengths.tolist())
    pieces = [
        (next(ids), (paragraph, sentence, token))
        for paragraph, num_sentences in enumerate(tree.paragraph_lengths)
        for sentence in range(num_sentences)
        for token in range(next(lengths))
    ]
    for begin in range(0, len(pieces), capacity):
        window = pieces[begin : begin + capacity]
        sentence_lengths, paragraph_lengths = [], []
        for _, paragraph in itertools.groupby(window, lambda piece: piece[1][0]):
            sentences = itertools.groupby(paragraph, lambda piece: piece[1][1])
            inside = [len(list(sentence)) for _, sentence in sentences]
            sentence_lengths += inside
            paragraph_lengths.append(len(inside))
        token_ids = [token_id for token_id, _ in window]
        yield token_ids, sentence_lengths, paragraph_lengths, window[0][1]


@pytest.mark.parametrize("capacity", [1, 2, 5, 30, 10_000])
def test_full_windows_are_those_of_plain_loops(capacity):
    generator = np.random.default_rng(capacity)
    starts_inside = 0
    for _ in range(40):
        tree = random_tree(generator, max_pieces=200, vocab_size=1000)
        found = cut(tree, capacity, cut_sentences=True)
        expected = list(slow_full_windows(tree, capacity))
        assert [
            (
                window.tree.token_ids.tolist(),
                window.tree.sentence_lengths.tolist(),
                window.tree.paragraph_lengths.tolist(),
                window.tree.first_index,
            )
            for window in found
        ] == expected
        assert set(lengths_of(found)[:-1]) <= {capacity}
        for window in found:
            sentences = range(len(window.tree.sentence_lengths))
            assert sorted(window.shuffled_sentence_indices) == list(sentences)
        starts_inside += sum(window.tree.first_index[2] > 0 for window in found)
    assert starts_inside > 20 or capacity == 10_000


def test_full_windows_begin_and_end_inside_sentences():
    tree = DocumentTree(np.arange(17), np.array([3, 2, 8, 4]), np.array([2, 2]))
    found = [window.tree for window in cut(tree, capacity=4, cut_sentences=True)]
    assert [window.token_ids.tolist() for window in found] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [12, 13, 14, 15],
        [16],
    ]
    assert [window.sentence_lengths.tolist() for window in found] == [
        [3, 1],
        [1, 3],
        [4],
        [1, 3],
        [1],
    ]
    assert [window.paragraph_lengths.tolist() for window in found] == [
        [2],
        [1, 1],
        [1],
        [2],
        [1],
    ]
    assert [window.first_index for window in found] == [
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, 3),
        (1, 0, 7),
        (1, 1, 3),
    ]


def test_cutting_sentences_changes_no_length_that_a_window_aims_at():
    # Where each piece is a sentence, windows have those lengths either way.
    pieces = np.zeros(5_000, int)
    single = DocumentTree(pieces, np.ones(5_000, int), np.array([5_000]))
    long = DocumentTree(pieces, np.full(125, 40), np.array([25, 100]))
    aims = lengths_of(cut(single, 20, short_window_rate=0.3))
    assert min(aims) < max(aims)
    assert lengths_of(cut(single, 20, 0.3, cut_sentences=True)) == aims
    assert lengths_of(cut(long, 20, 0.3, cut_sentences=True)) == aims
    assert lengths_of(cut(long, 20, 0.3)) != aims


def test_short_windows_come_at_their_rate_and_are_seeded():
    tree = DocumentTree(np.zeros(60_000, int), np.ones(60_000, int), np.array([60_000]))
    lengths = lengths_of(cut(tree, 20, short_window_rate=0.3))
    short = np.mean(np.array(lengths[:-1]) < 20)
    # A drawn length equals the capacity once in 19 times.
    assert short == pytest.approx(0.3 * 18 / 19, abs=0.03)
    all_short = lengths_of(cut(tree, 20, short_window_rate=1.0))
    assert set(all_short[:-1]) == set(range(2, 21))
    again = lengths_of(cut(tree, 20, short_window_rate=0.3))
    other = lengths_of(cut(tree, 20, 0.3, seed=1))
    assert lengths == again
    assert lengths != other


def test_permutations_are_permutations_and_differ():
    tree = DocumentTree(np.zeros(400, int), np.ones(400, int), np.array([400]))
    permutations = [w.shuffled_sentence_indices for w in cut(tree, 20)]
    for permutation in permutations:
        assert sorted(permutation) == list(range(20))
    assert len({tuple(permutation) for permutation in permutations}) > 15
