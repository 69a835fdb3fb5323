"""Rows of sentences: laid out as a loop over the presented order would."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.layouts.sentences import sentence_rows
from seg_tf.text.graph.trees import Trees

SPECIAL_IDS = {"cls": 101, "sep": 102, "pad": 0}
SENT = 1
MAX_SENTENCES = 5
ROW_LENGTH = 24

CAPS = {
    "position_index": ROW_LENGTH,
    "sentence_id": MAX_SENTENCES + 2,
    "token_index": 4,
    "paragraph_index": 3,
    "sentence_index": 2,
}


def slow_row(
    sentences,
    places,
    paragraphs,
    sentence_indices,
    first_is_context=False,
    first_tokens=None,
    *,
    row_length=ROW_LENGTH,
    max_sentences=MAX_SENTENCES,
    caps=CAPS,
    special_ids=SPECIAL_IDS,
    sent_id=SENT,
):
    """Features of one row, as lists, walking the order in which it is presented.

    Without a `sent_id` there are no such tokens, and no candidates. The context is no
    candidate either.
    """
    count = len(sentences)
    first_tokens = first_tokens or [0] * count
    before = [] if sent_id is None else [sent_id]
    order = sorted(range(count), key=lambda gold: places[gold])
    starts, end = {}, 1
    for gold, pieces in enumerate(sentences):
        starts[gold] = end
        end += len(before) + len(pieces)
    row = {name: [0] * row_length for name in ("token_ids", "sentence_number", *caps)}
    numbers = paragraphs
    excess = max(max(paragraphs) - caps.get("paragraph_index", 1 << 30) + 1, 0)
    paragraphs = [one - min(excess, paragraphs[0]) for one in paragraphs]

    def write(at, token, **indices):
        row["token_ids"][at] = token
        for name, cap in caps.items():
            row[name][at] = min(indices[name], cap - 1)

    write(
        0,
        special_ids["cls"],
        position_index=0,
        sentence_id=0,
        token_index=0,
        paragraph_index=paragraphs[0],
        sentence_index=sentence_indices[0],
    )
    presented = 1
    for place, gold in enumerate(order):
        for offset, token in enumerate([*before, *sentences[gold]]):
            at = starts[gold] + offset
            write(
                at,
                token,
                position_index=presented,
                sentence_id=place + 1,
                token_index=first_tokens[gold] + offset,
                paragraph_index=paragraphs[place],
                sentence_index=sentence_indices[place],
            )
            if offset >= len(before):
                row["sentence_number"][at] = gold + 1
            presented += 1
    write(
        end,
        special_ids["sep"],
        position_index=end,
        sentence_id=count + 1,
        token_index=first_tokens[order[-1]] + len(before) + len(sentences[order[-1]]),
        paragraph_index=paragraphs[-1],
        sentence_index=sentence_indices[-1],
    )
    row["padding_mask"] = [at <= end for at in range(row_length)]
    if not before:
        return row
    ordered = range(int(first_is_context), count)
    order = [gold for gold in order if gold in ordered]
    free = [0] * (max_sentences - len(order))
    candidates = [0, *(starts[gold] for gold in order), end]
    row["candidate_positions"] = candidates + free
    row["candidate_mask"] = [True] * len(candidates) + [False] * len(free)
    steps = [*(order.index(gold) + 1 for gold in ordered), len(order) + 1]
    row["gold_candidates"] = steps + free
    row["gold_lengths"] = [*(len(sentences[gold]) for gold in ordered), 0, *free]
    row["gold_paragraphs"] = [*(numbers[gold] for gold in ordered), 0, *free]
    return row


def lay_out(examples, caps=CAPS, sent_id=SENT):
    """The same by the function under test, a batch at once."""

    def padded(rows, width):
        values = np.full([len(rows), width], 7, np.int32)  # padding must not matter
        for number, row in enumerate(rows):
            values[number, : len(row)] = row
        return tf.constant(values)

    pieces = [list(itertools.chain(*sentences)) for sentences, *_ in examples]
    lengths = [[len(sentence) for sentence in one] for one, *_ in examples]

    @tf.function
    def lay_out(places, first_is_context, **tensors):
        return sentence_rows(
            Trees(**tensors, texts=tf.zeros_like(places)),
            places=places,
            first_is_context=first_is_context,
            row_length=ROW_LENGTH,
            special_ids=SPECIAL_IDS,
            sent_id=sent_id,
            caps=caps,
        )

    places, paragraphs, sentences, first_tokens = (
        padded([one[part] for one in examples], MAX_SENTENCES) for part in (1, 2, 3, 5)
    )
    found = lay_out(
        places,
        tf.constant([one[4] for one in examples]),
        pieces=padded(pieces, max(1, *map(len, pieces))),
        sentence_lengths=padded(lengths, MAX_SENTENCES),
        num_sentences=tf.constant([len(one) for one in lengths], tf.int32),
        paragraphs=paragraphs,
        sentences=sentences,
        first_tokens=first_tokens,
    )
    return {name: values.numpy() for name, values in found.items()}


def random_example(generator):
    count = int(generator.integers(1, MAX_SENTENCES + 1))
    room = ROW_LENGTH - 2 - count
    sentences = []
    for _ in range(count):
        length = int(generator.integers(0, min(room, 7) + 1))
        room -= length
        sentences.append([int(n) for n in generator.integers(200, 300, length)])
    paragraphs = np.sort(generator.integers(0, 6, count)).tolist()
    indices = generator.integers(0, 4, count).tolist()
    places = generator.permutation(count).tolist()
    is_context = bool(generator.integers(0, 2))
    first_tokens = generator.integers(0, 3, count).tolist()
    return sentences, places, paragraphs, indices, is_context, first_tokens


@pytest.mark.parametrize("sent_id", [SENT, None])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_the_loop(seed, sent_id):
    generator = np.random.default_rng(seed)
    examples = [random_example(generator) for _ in range(60)]
    found = lay_out(examples, sent_id=sent_id)
    for number, example in enumerate(examples):
        expected = slow_row(*example, sent_id=sent_id)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            assert found[name][number].tolist() == values, (name, example)


@pytest.mark.parametrize("sent_id", [SENT, None])
@pytest.mark.parametrize(
    "sentences",
    [[[]], [[], [], []], [[9] * (ROW_LENGTH - 3)], [[5]] * MAX_SENTENCES],
    ids=["nothing", "empty sentences", "one full sentence", "as many as there can be"],
)
@pytest.mark.parametrize("first_is_context", [False, True])
def test_extremes(sentences, sent_id, first_is_context):
    places = list(reversed(range(len(sentences))))
    zeros = [0] * len(sentences)
    example = (sentences, places, zeros, zeros, first_is_context, zeros)
    found = lay_out([example], sent_id=sent_id)
    for name, values in slow_row(*example, sent_id=sent_id).items():
        assert found[name][0].tolist() == values, name
