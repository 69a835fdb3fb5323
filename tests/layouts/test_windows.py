"""Index rules of the Segatron paper and its code, against slow loops."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layouts.windows import window_rows
from seg_tf.text.graph.trees import Trees
from seg_tf.text.tree import DocumentTree
from tests.data_pipelines.builders import random_tree

SPECIAL_IDS = {"cls": 1_001, "sep": 1_002, "pad": 1_003}

UNBOUNDED = {
    "position_index": 10**6,
    "paragraph_index": 10**6,
    "sentence_index": 10**6,
    "token_index": 10**6,
}


def slow_indices(tree, row_length, caps):
    """The rules as sentences of code, one token at a time."""
    paragraph, sentence, token = tree.first_index
    rows = []
    lengths = iter(tree.sentence_lengths)
    for num_sentences in tree.paragraph_lengths:
        for _ in range(num_sentences):
            for _ in range(next(lengths)):
                rows.append([paragraph, sentence, token])
                token += 1
            sentence, token = sentence + 1, 0
        paragraph, sentence = paragraph + 1, 0
    rows = [list(rows[0]), *rows, [rows[-1][0], rows[-1][1], rows[-1][2] + 1]]
    # The authors' loop: slide by one until it fits or the window starts at 0.
    cap = caps["paragraph_index"]
    while max(row[0] for row in rows) >= cap:
        if rows[0][0] == 0:
            for row in rows:
                row[0] = min(row[0], cap - 1)
            break
        for row in rows:
            row[0] -= 1
    names = ("paragraph_index", "sentence_index", "token_index")
    table = np.zeros([row_length, 4], int)
    for position, row in enumerate(rows):
        table[position, 0] = min(position, caps["position_index"] - 1)
        for column, name in enumerate(names):
            table[position, column + 1] = min(row[column], caps[name] - 1)
    return dict(zip(("position_index", *names), table.T, strict=True))


def graph_rows(trees, row_length, caps):
    """Rows of documents, as pretraining lays them out."""

    def padded(lists):
        return tf.ragged.constant(lists, tf.int32).to_tensor()

    @tf.function
    def lay_out(**tensors):
        return window_rows(
            Trees.of_documents(**tensors),
            special_ids=SPECIAL_IDS,
            row_length=row_length,
            caps=caps,
        )

    return lay_out(
        pieces=padded([tree.token_ids for tree in trees]),
        num_sentences=tf.constant([len(tree.sentence_lengths) for tree in trees]),
        sentence_lengths=padded([tree.sentence_lengths for tree in trees]),
        paragraph_lengths=padded([tree.paragraph_lengths for tree in trees]),
        first_index=tf.constant([tree.first_index for tree in trees], tf.int64),
    )


def assert_equal_to_slow(trees, row_length, caps):
    found = graph_rows(trees, row_length, caps)
    for number, tree in enumerate(trees):
        length = len(tree.token_ids)
        padding = [0] * (row_length - length - 2)
        numbers = np.repeat(
            np.arange(len(tree.sentence_lengths)) + 1, tree.sentence_lengths
        )
        tokens = [SPECIAL_IDS["cls"], *tree.token_ids, SPECIAL_IDS["sep"]]
        tokens += [SPECIAL_IDS["pad"]] * len(padding)
        assert found["token_ids"][number].numpy().tolist() == tokens
        mask = [True] * (length + 2) + [False] * len(padding)
        assert found["padding_mask"][number].numpy().tolist() == mask
        sentence_number = [0, *numbers, 0, *padding]
        assert found["sentence_number"][number].numpy().tolist() == sentence_number
        expected = slow_indices(tree, row_length, caps)
        for name in caps:
            np.testing.assert_array_equal(
                found[name][number], expected[name], err_msg=f"{name} of row {number}"
            )


@pytest.mark.parametrize(
    "caps",
    [
        pytest.param(UNBOUNDED, id="no cap reached"),
        pytest.param(
            {
                "position_index": 40,
                "paragraph_index": 3,
                "sentence_index": 2,
                "token_index": 4,
            },
            id="all caps reached",
        ),
    ],
)
@pytest.mark.parametrize(
    "first_index",
    [
        pytest.param((0, 0, 0), id="start of the document"),
        pytest.param((1, 2, 5), id="near the start, inside a sentence"),
        pytest.param((700, 60, 300), id="deep in the document"),
    ],
)
def test_graph_equals_the_rules_token_by_token(caps, first_index):
    generator = np.random.default_rng(sum(first_index))
    trees = [random_tree(generator, 38, 100) for _ in range(50)]
    trees = [
        DocumentTree(t.token_ids, t.sentence_lengths, t.paragraph_lengths, first_index)
        for t in trees
    ]
    assert_equal_to_slow(trees, 40, caps)


def test_one_piece_and_a_full_row():
    one = DocumentTree(np.array([7]), np.array([1]), np.array([1]), (4, 3, 2))
    full = DocumentTree(np.arange(38), np.array([38]), np.array([1]))
    assert_equal_to_slow([one, full], 40, UNBOUNDED)
