"""Windows: nothing lost, nothing twice, true indices, whole sentences."""

import numpy as np
import pytest

from data_pipelines import windows
from seg_tf.text.tree import DocumentTree
from tests.data_pipelines.builders import random_tree


def cut(tree, capacity, short_window_rate=0.0, document_id=0, seed=0):
    return list(
        windows.cut_windows(
            tree,
            document_id,
            capacity=capacity,
            short_window_rate=short_window_rate,
            seed=seed,
        )
    )


@pytest.mark.parametrize("capacity", [1, 5, 30, 10_000])
@pytest.mark.parametrize("short_window_rate", [0.0, 0.5])
def test_windows_put_together_are_the_document(capacity, short_window_rate):
    generator = np.random.default_rng(capacity)
    for document_id in range(40):
        tree = random_tree(generator, max_pieces=200, vocab_size=1000)
        found = cut(tree, capacity, short_window_rate, document_id)
        pieces = np.concatenate([window.tree.token_ids for window in found])
        np.testing.assert_array_equal(pieces, tree.token_ids)
        assert max(len(window.tree.token_ids) for window in found) <= capacity
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


def test_short_windows_come_at_their_rate_and_are_seeded():
    tree = DocumentTree(np.zeros(60_000, int), np.ones(60_000, int), np.array([60_000]))
    lengths = [len(w.tree.token_ids) for w in cut(tree, 20, short_window_rate=0.3)]
    short = np.mean(np.array(lengths[:-1]) < 20)
    # A drawn length equals the capacity once in 19 times.
    assert short == pytest.approx(0.3 * 18 / 19, abs=0.03)
    assert min(lengths[:-1]) == 2
    again = [len(w.tree.token_ids) for w in cut(tree, 20, short_window_rate=0.3)]
    other = [len(w.tree.token_ids) for w in cut(tree, 20, 0.3, seed=1)]
    assert lengths == again
    assert lengths != other


def test_permutations_are_permutations_and_differ():
    tree = DocumentTree(np.zeros(400, int), np.ones(400, int), np.array([400]))
    permutations = [w.shuffled_sentence_indices for w in cut(tree, 20)]
    for permutation in permutations:
        assert sorted(permutation) == list(range(20))
    assert len({tuple(permutation) for permutation in permutations}) > 15
