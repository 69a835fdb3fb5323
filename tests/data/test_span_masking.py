"""Spans: placed as slow loops place them, inside sentences, apart, at their rates."""

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import build_from
from seg_tf.data import randomness
from seg_tf.data.inputs import (
    PackedWindowInputsConfig,
    SentenceInputsConfig,
    SpanMaskingConfig,
    WindowInputsConfig,
)
from seg_tf.data.masking import SpanMasking
from tests.data import test_packed_window_inputs as packed
from tests.data.test_window_inputs import take, unmasked
from tests.data_pipelines.builders import SPECIAL_IDS

pytestmark = pytest.mark.slow

MASK = 4
LENGTHS = (0.4098, 0.3279, 0.2623)  # Geo(0.2) cut off at 3


def masking(**overrides):
    settings = {
        "mask_rate": 0.15,
        "max_predictions": 80,
        "mask_token_rate": 1.0,
        "random_token_rate": 0.0,
        "mask_id": MASK,
        "vocab_size": 1000,
        "max_span_length": 3,
        "span_end_rate": 0.2,
    }
    return SpanMasking(**{**settings, **overrides})


def streams(count, seed=0):
    return tf.constant(randomness.uniform_integers(seed, count), tf.uint64)


def apply(layer, sentence_numbers, seed=0):
    """The masked positions: bool array `(B, L)`."""
    numbers = np.asarray(sentence_numbers, np.int32)
    token_ids = np.full(numbers.shape, 9, np.int32)
    found = tf.function(layer.__call__)(token_ids, numbers, streams(len(numbers), seed))
    is_masked = found["token_ids"].numpy() == MASK
    np.testing.assert_array_equal(
        is_masked.sum(axis=1), found["masked_weights"].numpy().sum(axis=1)
    )
    return is_masked


def random_rows(count, row_length, mean_length, seed, *, sent_tokens):
    """Rows of sentences, with a `[SENT]` before each of them or without."""
    generator = np.random.default_rng(seed)
    rows = np.zeros([count, row_length], np.int32)
    for row in rows:
        end = generator.integers(3, row_length)  # [SEP] and padding from there
        position, number = 1, 1  # after [CLS]
        while position < end:
            position += sent_tokens
            length = generator.geometric(1 / mean_length)
            row[position : min(position + length, end)] = number
            position, number = position + length, number + 1
    return rows


def equal_sentences(count, num_sentences, length):
    row = np.repeat(np.arange(1, num_sentences + 1), length)
    return np.repeat([[0, *row, 0]], count, axis=0)


def spans_of(is_masked, numbers):
    """Lengths of the masked runs of a row; a run ends with its sentence."""
    lengths = []
    for position in np.flatnonzero(is_masked):
        goes_on = position and is_masked[position - 1]
        if goes_on and numbers[position - 1] == numbers[position]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def slow_spans(numbers, count, stream, *, max_predictions, max_span_length, end_rate):
    """Places spans one by one, looking at every place for each of them."""
    draws = randomness.uniform_integers(stream, 2 * max_predictions).tolist()
    weights = [(1 - end_rate) ** length for length in range(max_span_length)]
    masked = set()

    def is_apart(position, number):
        inside = 0 <= position < len(numbers)
        return not (inside and position in masked and numbers[position] == number)

    def fits(start, length):
        span = range(start, start + length)
        return (
            span.stop <= len(numbers)
            and numbers[start] > 0
            and all(numbers[place] == numbers[start] for place in span)
            and not masked.intersection(span)
            and is_apart(span.start - 1, numbers[start])
            and is_apart(span.stop, numbers[start])
        )

    for length_draw, place_draw in zip(
        draws[:max_predictions], draws[max_predictions:], strict=True
    ):
        if len(masked) == count:
            break
        chance, length = (length_draw >> 40) / 2**24 * sum(weights), 1
        while chance >= sum(weights[:length]):
            length += 1
        length = min(length, count - len(masked))
        while length and not any(fits(start, length) for start in range(len(numbers))):
            length -= 1
        if length:
            places = [start for start in range(len(numbers)) if fits(start, length)]
        else:
            places = [
                place
                for place in range(len(numbers))
                if numbers[place] > 0 and place not in masked
            ]
        start = places[(place_draw >> 33) % len(places)]
        masked.update(range(start, start + max(length, 1)))
    return masked


@pytest.mark.parametrize("sent_tokens", [True, False])
@pytest.mark.parametrize(
    ("mask_rate", "max_span_length", "end_rate", "mean_length"),
    [
        pytest.param(0.15, 3, 0.2, 12, id="as in the paper"),
        pytest.param(0.15, 3, 0.2, 1.5, id="sentences shorter than spans"),
        pytest.param(0.4, 5, 0.05, 6, id="places become short"),
        pytest.param(0.7, 3, 0.2, 6, id="spans have to touch"),
        pytest.param(0.3, 1, 0.2, 6, id="single pieces"),
        pytest.param(0.3, 60, 0.01, 6, id="spans longer than the row"),
    ],
)
def test_spans_are_those_of_slow_loops(
    mask_rate, max_span_length, end_rate, mean_length, sent_tokens
):
    rows = random_rows(24, 48, mean_length, seed=5, sent_tokens=sent_tokens)
    layer = masking(
        mask_rate=mask_rate,
        max_predictions=30,
        max_span_length=max_span_length,
        span_end_rate=end_rate,
    )
    is_masked = apply(layer, rows)
    names = tf.constant(randomness.MASKED_POSITIONS, tf.int64)
    for row, found, stream in zip(rows, is_masked, streams(len(rows)), strict=True):
        num_pieces = np.count_nonzero(row)
        expected = slow_spans(
            row.tolist(),
            min(max(round(num_pieces * mask_rate), 1), num_pieces, 30),
            int(randomness.extend_key(stream, names).numpy()),
            max_predictions=30,
            max_span_length=max_span_length,
            end_rate=end_rate,
        )
        assert np.flatnonzero(found).tolist() == sorted(expected)


def test_spans_stay_in_their_sentence_and_apart():
    for sent_tokens in (True, False):
        rows = random_rows(300, 128, 9, seed=1, sent_tokens=sent_tokens)
        is_masked = apply(masking(), rows)
        assert not is_masked[rows == 0].any()
        spans = [spans_of(*row) for row in zip(is_masked, rows, strict=True)]
        assert {length for row in spans for length in row} == {1, 2, 3}
        pieces = np.count_nonzero(rows, axis=1)
        wanted = np.maximum(np.round(0.15 * pieces), 1)
        assert [sum(row) for row in spans] == wanted.tolist()


def test_spans_begin_and_end_inside_words():
    """Their unit is the word piece, as the lists of `seg_tf.papers` say."""
    rows = equal_sentences(200, num_sentences=1, length=60)
    is_masked = apply(masking(), rows)
    # Words are of two pieces each, at 1 and 2, 3 and 4, …
    first_of_word = np.arange(rows.shape[1]) % 2 == 1
    starts = is_masked & ~np.roll(is_masked, 1, axis=1)
    ends = is_masked & ~np.roll(is_masked, -1, axis=1)
    assert (starts & ~first_of_word).sum() > 0.4 * starts.sum()
    assert (ends & first_of_word).sum() > 0.4 * ends.sum()


def chi_square(counts, rates):
    expected = np.array(rates) * np.sum(counts)
    return np.sum((counts - expected) ** 2 / expected)


def test_lengths_are_geometric_and_cut_off():
    """Three predictions of 20: only the last span can be shorter than it was drawn."""
    rows = equal_sentences(6000, num_sentences=1, length=20)
    spans = [spans_of(*row) for row in zip(apply(masking(), rows), rows, strict=True)]
    kinds = [tuple(sorted(lengths)) for lengths in spans]
    one, two, three = LENGTHS
    rates = {(3,): three, (1, 2): two + one * (two + three), (1, 1, 1): one * one}
    assert set(kinds) == set(rates)
    counts = [kinds.count(kind) for kind in rates]
    assert chi_square(counts, list(rates.values())) < 13.8  # p = 0.001, 2 d.o.f.


def test_lengths_of_many_spans_are_as_drawn():
    """The rest of a row does not favour short spans."""
    rows = equal_sentences(400, num_sentences=16, length=20)
    is_masked = apply(masking(), rows)
    num_predictions = round(0.15 * 320)
    spans = [spans_of(*row) for row in zip(is_masked, rows, strict=True)]
    counts = np.bincount(np.concatenate(spans), minlength=4)[1:]
    expected = len(rows) * expected_spans(num_predictions)
    # Lengths that have to add up vary less than independent ones: 2 d.o.f.
    assert np.sum((counts - expected) ** 2 / expected) < 13.8


def expected_spans(num_predictions):
    """Mean numbers of spans of 1, 2 and 3, the last span being cut."""
    expected = [np.zeros(3)]
    for left in range(1, num_predictions + 1):
        mean = np.zeros(3)
        for drawn, rate in zip((1, 2, 3), LENGTHS, strict=True):
            length = min(drawn, left)
            mean += rate * (np.eye(3)[length - 1] + expected[left - length])
        expected.append(mean)
    return expected[-1]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_span_starts_anywhere_it_fits_equally_often(length):
    # Sentences of 2, 6, 1 and 5 pieces, and as many predictions as the span has pieces.
    row = [0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 0, 4, 4, 4, 4, 4, 0, 0]
    layer = masking(mask_rate=length / 14, max_span_length=3, span_end_rate=1e-6)
    is_masked = apply(layer, np.repeat([row], 4000, axis=0))
    spans = [spans_of(found, row) for found in is_masked]
    whole = [spans == [length] for spans in spans]
    starts = np.argmax(is_masked[whole], axis=1)
    fitting = [
        start
        for start in range(len(row) - length)
        if row[start] and set(row[start : start + length]) == {row[start]}
    ]
    counts = np.bincount(starts, minlength=len(row))[fitting]
    assert counts.sum() == len(starts)
    # p = 0.001 for 13 degrees of freedom; for shorter ones it is rarer.
    assert chi_square(counts, np.full(len(fitting), 1 / len(fitting))) < 34.6


def test_a_row_does_not_depend_on_how_long_the_others_take():
    rows = random_rows(5, 64, 8, seed=2, sent_tokens=True)
    rows[0] = 0
    rows[0, 1] = 1  # one span, the others take more
    together = apply(masking(), rows)
    numbers = tf.constant(rows)
    for row in range(len(rows)):
        alone = masking()(
            tf.fill([1, 64], 9), numbers[row : row + 1], streams(5)[row : row + 1]
        )
        np.testing.assert_array_equal(alone["token_ids"][0] == MASK, together[row])


def test_rows_without_pieces_and_batches_without_rows():
    assert not apply(masking(), np.zeros([3, 16])).any()
    layer = masking(max_predictions=7)
    signature = [
        tf.TensorSpec([None, 16], tf.int32),
        tf.TensorSpec([None, 16], tf.int32),
        tf.TensorSpec([None], tf.uint64),
    ]
    masked = tf.function(layer.__call__, input_signature=signature)
    nothing = tf.zeros([0, 16], tf.int32)
    found = masked(nothing, nothing, tf.zeros([0], tf.uint64))
    assert found["masked_positions"].shape == (0, 7)
    assert found["token_ids"].shape == (0, 16)


def test_shapes_are_static_in_a_dataset():
    rows = random_rows(4, 32, 5, seed=3, sent_tokens=True)
    dataset = tf.data.Dataset.from_tensors((tf.fill([4, 32], 9), rows, streams(4)))
    dataset = dataset.map(masking(max_predictions=6))
    assert dataset.element_spec["masked_positions"].shape == (4, 6)
    (found,) = dataset
    expected = masking(max_predictions=6)(tf.fill([4, 32], 9), rows, streams(4))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    lengths = np.random.default_rng(4).integers(1, 70, 40)
    return packed.write(tmp_path_factory.mktemp("records"), lengths)


def build(config_class, records_dir, tables, **settings):
    config = config_class(
        window_length=packed.WINDOW_LENGTH,
        masking=SpanMaskingConfig(max_predictions=6),
        **settings,
    )
    return build_from(config, records_dir=records_dir, index_tables=tables, seed=0)


def assert_spans(numbers, positions):
    """Of the pieces, which have the `numbers` of their sentences, 0 where none is."""
    is_masked = np.zeros(len(numbers), bool)
    is_masked[positions] = True
    assert not is_masked[numbers == 0].any()
    assert is_masked.sum() == max(1, round(0.15 * np.count_nonzero(numbers)))
    assert max(spans_of(is_masked, numbers)) <= 3


def test_windows_and_packed_windows_have_spans(records_dir):
    tables = {"paragraph_index": 100, "sentence_index": 100}
    plain = build(WindowInputsConfig, records_dir, tables)
    several = build(
        PackedWindowInputsConfig,
        records_dir,
        tables,
        max_windows_per_row=4,
    )
    rows = take(plain.train_dataset(8), plain.num_train_samples)
    rows["window_number"] = rows["padding_mask"].astype(np.int32)
    for found in (rows, packed.epoch(several)):
        windows = packed.split_rows(found)
        assert len(windows) == plain.num_train_samples
        for window in windows:
            numbers = 1 + 1000 * window["paragraph_index"] + window["sentence_index"]
            numbers[[0, -1]] = 0
            assert_spans(numbers, window["masked_positions"])


def test_shuffled_sentences_have_spans(records_dir):
    inputs = build(
        SentenceInputsConfig,
        records_dir,
        {"sentence_id": 8},
        max_sentences=6,
        shuffle_rate=1.0,
    )
    rows = take(inputs.train_dataset(8), inputs.num_train_samples)
    sent_id = 5  # the first unused row of the vocabulary that the builder writes
    for number, token_ids in enumerate(unmasked(rows)):
        is_special = np.isin(token_ids, [*SPECIAL_IDS.values(), sent_id])
        sentences = np.where(is_special, 0, rows["sentence_id"][number])
        is_prediction = rows["masked_weights"][number] == 1
        assert_spans(sentences, rows["masked_positions"][number][is_prediction])
