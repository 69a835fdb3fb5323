"""The tree of a text."""

import numpy as np

from seg_tf.text.tree import DocumentTree, TreeBuilder


def builder():
    """Sentences end at full stops; every letter is a piece."""

    def encode(sentences):
        letters = [[ord(c) for c in s if c.isalpha()] for s in sentences]
        flat = np.array([i for row in letters for i in row], int)
        return flat, np.array([len(row) for row in letters], int)

    return TreeBuilder(lambda paragraph: paragraph.split("."), encode)


def test_documents_of_a_batch_stay_apart():
    documents = [["ab.c", "d"], [], ["xyz"], ["q.r.s"]]
    trees = builder().build(documents)
    assert [bytes(tree.token_ids.tolist()).decode() for tree in trees] == [
        "abcd",
        "",
        "xyz",
        "qrs",
    ]
    assert [tree.sentence_lengths.tolist() for tree in trees] == [
        [2, 1, 1],
        [],
        [3],
        [1, 1, 1],
    ]
    assert [tree.paragraph_lengths.tolist() for tree in trees] == [[2, 1], [], [1], [3]]


def test_parts_without_a_piece_are_no_part_of_the_tree():
    (tree,) = builder().build([["..", "a..b", " ", "1.2", ".c"]])
    assert bytes(tree.token_ids.tolist()) == b"abc"
    assert tree.sentence_lengths.tolist() == [1, 1, 1]
    assert tree.paragraph_lengths.tolist() == [2, 1]


def test_indices_restart_where_the_paper_says():
    tree = DocumentTree(
        np.array([7, 8, 9, 5]), np.array([2, 1, 1]), np.array([2, 1]), (4, 2, 6)
    )
    assert {name: values.tolist() for name, values in tree.indices().items()} == {
        "paragraph_index": [4, 4, 4, 5],
        "sentence_index": [2, 2, 3, 0],
        "token_index": [6, 7, 0, 0],
    }


def test_ends_of_paragraphs_belong_to_the_last_sentence():
    (tree, empty) = builder().build([["ab.c", "d", "e.f"], []])
    ended = tree.with_paragraph_ends(0)
    assert bytes(ended.token_ids.tolist()) == b"abc\0d\0ef\0"
    assert ended.sentence_lengths.tolist() == [2, 2, 2, 1, 2]
    assert ended.paragraph_lengths.tolist() == [2, 1, 2]
    assert tree.sentence_lengths.tolist() == [2, 1, 1, 1, 1]
    assert not len(empty.with_paragraph_ends(0).token_ids)
