"""Windows: nothing lost or repeated, true indices, whole sentences or full."""

import itertools
import types

import numpy as np
import pytest

from data_pipelines.builds.windows import WindowOptions, cut_windows
from seg_tf.text.tree import DocumentTree
from tests.data_pipelines.builders import random_tree


def cut(
    tree, capacity, short_window_rate=0.0, cut_sentences=False, document_id=0, seed=0
):
    options = types.SimpleNamespace(
        capacity=capacity,
        short_window_rate=short_window_rate,
        cut_sentences=cut_sentences,
        seed=seed,
    )
    return [window for window, _ in cut_windows(tree, document_id, options)]


def lengths_of(windows):
    return [len(window.token_ids) for window in windows]


def described(tree):
    """Ids, sentence lengths, paragraph lengths and first index."""
    return (
        tree.token_ids.tolist(),
        tree.sentence_lengths.tolist(),
        tree.paragraph_lengths.tolist(),
        tree.first_index,
    )


@pytest.mark.parametrize("capacity", [1, 5, 30, 10_000])
@pytest.mark.parametrize("short_window_rate", [0.0, 0.5])
@pytest.mark.parametrize("cut_sentences", [False, True])
def test_windows_joined_are_the_document(capacity, short_window_rate, cut_sentences):
    generator = np.random.default_rng(capacity)
    for document_id in range(20):
        tree = random_tree(generator, max_pieces=200, vocab_size=1000)
        windows = cut(tree, capacity, short_window_rate, cut_sentences, document_id)
        pieces = np.concatenate([window.token_ids for window in windows])
        np.testing.assert_array_equal(pieces, tree.token_ids)
        assert max(lengths_of(windows)) <= capacity
        # Each window's indices are those of the document at its place.
        for name, values in tree.indices().items():
            parts = [window.indices()[name] for window in windows]
            np.testing.assert_array_equal(np.concatenate(parts), values, err_msg=name)


def test_windows_take_whole_sentences_and_cut_only_one_too_long():
    tree = DocumentTree(np.arange(17), np.array([3, 2, 8, 4]), np.array([2, 2]))
    assert [described(window)[1:] for window in cut(tree, capacity=6)] == [
        ([3, 2], [2], (0, 0, 0)),
        ([6], [1], (1, 0, 0)),
        ([2, 4], [2], (1, 0, 6)),
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
def test_full_windows_equal_plain_loops(capacity):
    generator = np.random.default_rng(capacity)
    starts_inside = 0
    for _ in range(20):
        tree = random_tree(generator, max_pieces=200, vocab_size=1000)
        windows = cut(tree, capacity, cut_sentences=True)
        expected = list(slow_full_windows(tree, capacity))
        assert [described(window) for window in windows] == expected
        assert set(lengths_of(windows)[:-1]) <= {capacity}
        starts_inside += sum(window.first_index[2] > 0 for window in windows)
    assert starts_inside > 10 or capacity == 10_000


def test_short_windows_occur_at_their_rate_and_are_seeded():
    tree = DocumentTree(np.zeros(60_000, int), np.ones(60_000, int), np.array([60_000]))
    lengths = lengths_of(cut(tree, 20, short_window_rate=0.3))
    short = np.mean(np.array(lengths[:-1]) < 20)
    # A drawn length equals the capacity once in 19 times.
    assert short == pytest.approx(0.3 * 18 / 19, abs=0.03)
    all_short = lengths_of(cut(tree, 20, short_window_rate=1.0))
    assert set(all_short[:-1]) == set(range(2, 21))
    assert lengths_of(cut(tree, 20, short_window_rate=0.3)) == lengths
    assert lengths_of(cut(tree, 20, 0.3, seed=1)) != lengths


def test_permutations_are_permutations_and_differ():
    tree = DocumentTree(np.zeros(400, int), np.ones(400, int), np.array([400]))
    options = WindowOptions(window_length=22, short_window_rate=0.0)
    permutations = [permutation for _, permutation in cut_windows(tree, 0, options)]
    for permutation in permutations:
        assert sorted(permutation) == list(range(20))
    assert len({tuple(permutation) for permutation in permutations}) > 15
