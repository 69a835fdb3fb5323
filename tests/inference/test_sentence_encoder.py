"""Vectors of every kind, against the checkpoint's encoder on one row at a time."""

import functools
import itertools
import pathlib

import keras
import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import build_from
from seg_tf.inference import attention, sentence_encoder
from seg_tf.inference.examples import text_examples
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from seg_tf.layouts.rows import Segment
from seg_tf.text.normalization import UNCASED
from seg_tf.text.tree import DocumentTree
from tests.finetuning.tiny_models import some_texts, tiny
from tests.inference.tiny_reat import CONFIG, MODEL, padded_vectors, pieces_of
from tests.inference.tiny_slm import SPLITTER, VOCABULARY, sentence

pytestmark = pytest.mark.slow

CLOSE = {"atol": 1e-5}


@functools.cache
def encoder_of(kind, **arguments):
    return SentenceEncoder(tiny(kind), **arguments)


def slow_vectors(kind, row, vectors):
    """Vectors of the texts of a row, by calling the checkpoint's encoder on it."""
    pretrained = tiny(kind)
    layout, vocabulary = pretrained.layout(), pretrained.vocabulary
    ((example,), _) = text_examples(
        pretrained.text_encoder(), [row], layout.capacity(len(row))
    )
    features = layout.lay_out([example], layout.row_shape(example))
    (sequence,) = np.asarray(pretrained.encoder(features), "float64")
    token_ids = np.asarray(features["token_ids"])[0]
    if kind == "reat":
        kernel, bias = map(np.asarray, pretrained.encoder.pooler.weights)
        starts = np.asarray(features["sentence_starts"])[0]
        given = np.asarray(features["given_text"])[0]
        pooled = np.tanh(sequence[starts] @ kernel + bias)
        return [pooled[given == text].mean(axis=0) for text in range(1, 1 + len(row))]
    if vectors == "cls":
        return sequence[:1]
    if vectors == "sent":
        return sequence[token_ids == vocabulary.sent_id]
    special = {*vocabulary.special_ids.values(), vocabulary.sent_id}
    is_piece = ~np.isin(token_ids, list(special - {vocabulary.special_ids["unk"]}))
    outputs = iter(sequence[is_piece])
    return [
        np.mean([next(outputs) for _ in segment.pieces], axis=0) for segment in example
    ]


def some_rows(num_rows=5, num_texts=1, longest=12, seed=1):
    return some_texts(np.random.default_rng(seed), num_rows, num_texts, longest)


def sentences_with(*numbers_of_words):
    generator = np.random.default_rng(1)
    return [sentence(generator, count) for count in numbers_of_words]


# === Rows ===


@pytest.mark.parametrize(
    ("kind", "vectors", "num_texts"),
    [
        ("bert", "cls", 1),
        ("segabert", "cls", 1),
        ("segabert", "mean", 1),
        ("modern", "mean", 1),
        ("segabert_slm", "sent", 1),
        ("slm", "sent", 3),
        ("slm", "mean", 3),
        ("reat", "mean", 1),
        ("reat", "sent", 3),
    ],
)
def test_vectors_are_those_of_each_row_alone(kind, vectors, num_texts):
    rows = [*some_rows(4, num_texts, longest=3), *some_rows(4, num_texts, longest=12)]
    rows.append(("w1 never-seen ☃",) * num_texts)
    found, num_cut = encoder_of(kind).encode_rows(rows, vectors)
    assert (found.dtype, num_cut) == (np.float32, 0)
    expected = [slow_vectors(kind, row, vectors) for row in rows]
    np.testing.assert_allclose(found, expected, **CLOSE)
    assert np.ptp(found, axis=0).max() > 0.1
    if num_texts > 1:
        other = [(*row[:-1], "w1 w2") for row in rows]
        changed, _ = encoder_of(kind).encode_rows(other, vectors)
        assert np.abs(changed[:, 0] - found[:, 0]).max() > 1e-4  # in context


@pytest.mark.parametrize("kind", ["segabert", "slm", "reat"])
def test_rows_of_similar_length_share_batches(kind, monkeypatch):
    lengths = np.random.default_rng(0).permutation([2] * 9 + [3] * 9 + [40] * 3)
    rows = [(" ".join(["w1"] * length),) for length in lengths]
    shapes = []

    def remember(examples, num_columns):
        shapes.append(sorted(len(one.pieces) for (one,) in examples))
        return trees_of(examples, num_columns)

    trees_of = sentence_encoder.trees_of
    monkeypatch.setattr(sentence_encoder, "trees_of", remember)
    sizes = []
    encoder = SentenceEncoder(tiny(kind), tokens_per_batch=60)
    batched, _ = encoder.encode_rows(rows, on_progress=sizes.append)
    # Greedily, shortest first; a row longer than a batch is a batch.
    expected, batch = [], []
    for length in sorted(lengths.tolist()):
        example = (Segment(np.zeros(length, np.int32)),)
        if batch and (len(batch) + 1) * encoder.layout.num_tokens(example) > 60:
            expected.append(batch)
            batch = []
        batch = [*batch, length]
    expected.append(batch)
    assert shapes == expected
    assert sizes == list(map(len, expected))
    assert max(sizes) > 5
    # Nothing is shared but the batch.
    alone, _ = SentenceEncoder(tiny(kind), tokens_per_batch=1).encode_rows(rows)
    np.testing.assert_allclose(batched, alone, **CLOSE)


def test_long_rows_are_cut_and_counted():
    encoder = SentenceEncoder(tiny("slm"), max_length=8)
    rows = [("w1 " * 30,), ("w1 " * 5,), ("w1 " * 6,)]
    vectors, num_cut = encoder.encode_rows(rows)
    assert num_cut == 2
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@pytest.mark.parametrize("kind", ["segabert", "reat"])
def test_new_weights_depend_on_their_seed_only(kind):
    # Not 1, the seed of the tiny models.
    one, same, other = (
        SentenceEncoder(tiny(kind), randomly_initialized=True, seed=seed)
        for seed in (2, 2, 3)
    )
    vectors = [twin.encode_rows(some_rows())[0] for twin in (one, same, other)]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-2
    assert one.describe() == same.describe()
    checksums = {
        encoder.describe()["encoder_sha256"]
        for encoder in (one, other, encoder_of(kind))
    }
    assert len(checksums) == 3


def test_half_precision_follows_the_policy():
    expected, _ = encoder_of("slm").encode_rows(some_rows())
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        encoder = SentenceEncoder(tiny("slm"))
    finally:
        keras.config.set_dtype_policy("float32")
    vectors, _ = encoder.encode_rows(some_rows())
    assert vectors.dtype == np.float32
    assert 1e-4 < np.abs(vectors - expected).max() < 0.1
    assert encoder.describe()["dtype_policy"] == "mixed_bfloat16"


# === Texts ===

# Of various lengths, with and without paragraphs, too long, and empty.
TEXTS = [
    "W1 w2 w3. W4 w5.\nW6.",
    "W7 w8.",
    "W9 w10 w11 w12. " * 30,
    "",
    "W2. W13 w1\n\nW2 w3.",
    "W5. \u200b\n\u0007\nW6 w7.",
]


def window_alone(pretrained, text):
    tree = attention.read_tree(text.split("\n"), pretrained, SPLITTER)
    capacity = attention.window_capacity(pretrained)
    window = attention.lay_out(attention.first_window(tree, capacity), pretrained)
    return window, pretrained.encoder(window.features, training=False)[0].numpy()


@pytest.mark.parametrize("kind", ["segabert", "slm", "modern"])
def test_texts_are_read_as_windows_of_pretraining(kind):
    pretrained, encoder = tiny(kind), encoder_of(kind)
    means, firsts = encoder.encode(TEXTS), encoder.encode(TEXTS, "cls")
    in_context = encoder.encode_sentences(TEXTS)
    sents = encoder.encode(TEXTS, "sent") if kind == "slm" else None
    for number, text in enumerate(TEXTS):
        if not text:
            assert not means[number].any()
            assert in_context[number].sentences == ()
            assert in_context[number].vectors.shape == (0, means.shape[1])
            continue
        window, sequence = window_alone(pretrained, text)
        expected = sequence[window.is_piece].mean(axis=0)
        np.testing.assert_allclose(means[number], expected, **CLOSE)
        np.testing.assert_allclose(firsts[number], sequence[0], **CLOSE)
        is_sent = np.array(window.tokens) == "[SENT]"
        is_read = is_sent if kind == "slm" else window.is_piece
        expected = np.array(
            [
                sequence[(window.sentences == one) & is_read].mean(axis=0)
                for one in range(window.num_sentences)
            ]
        )
        np.testing.assert_allclose(in_context[number].vectors, expected, **CLOSE)
        if sents is not None:
            np.testing.assert_allclose(sents[number], expected.mean(axis=0), **CLOSE)


@pytest.mark.parametrize("kind", ["segabert", "slm", "reat"])
def test_texts_are_read_as_by_the_exported_model(kind):
    texts = [*TEXTS, "w1 " * 200, "W1 w2. " * 3 + "w3 " * 90, "W1.\n" * 30]
    encoder = encoder_of(kind)
    served = encoder.predict(texts)
    for number, found in enumerate(encoder.encode_sentences(texts)):
        mask = served["sentence_mask"][number]
        strings = served["sentences"][number][mask]
        assert found.sentences == tuple(one.decode() for one in strings)
        assert found.is_cut == served["is_cut"][number]
        np.testing.assert_allclose(
            found.vectors, served["sentence_vectors"][number][mask], **CLOSE
        )


@pytest.mark.parametrize(
    ("kind", "vectors", "names"),
    [("bert", "sent", "mean, cls"), ("reat", "cls", "mean, sent"), ("slm", "max", "")],
)
def test_vectors_that_a_model_does_not_have_are_refused(kind, vectors, names):
    with pytest.raises(ValueError, match=f"one of {names}.*Received: '{vectors}'"):
        encoder_of(kind).encode(["W1."], vectors)


# === Documents of any length ===


@pytest.fixture(name="reat", scope="module")
def _reat():
    pretrained = Pretrained(
        encoder=build_from(MODEL, vocab_size=VOCABULARY.size),
        objectives={},
        config=CONFIG,
        vocabulary=VOCABULARY,
        tokenizer="word_pieces",
        normalization=UNCASED,
        sentence_splitter={},
        folder=pathlib.Path("runs/tiny"),
        weights_checksum="",
    )
    return pretrained.encoder, SentenceEncoder(pretrained)


@pytest.mark.parametrize("counts", [(3, 1, 7, 12, 2, 2, 5, 9), (4,), (12,) * 9])
def test_reat_reads_a_document_in_one_pass(reat, counts):
    keras_encoder, encoder = reat
    sentences = [*sentences_with(*counts), ""]
    pieces = pieces_of(sentences)
    encoded = encoder.encode_document(sentences)
    assert encoded.vectors.dtype == np.float32
    expected = padded_vectors(keras_encoder, pieces)
    np.testing.assert_allclose(encoded.vectors, expected, **CLOSE)
    assert (encoded.num_parts, encoded.num_passes) == (len(sentences), 1)
    assert encoded.num_positions == sum(3 + len(one) for one in pieces)


def test_long_sentences_are_the_mean_of_their_parts(reat):
    keras_encoder, encoder = reat
    sentences = sentences_with(3, 30, 5)
    first, long, last = pieces_of(sentences)
    assert len(long) == 31
    parts = [first, long[:11], long[11:21], long[21:], last]
    vectors = padded_vectors(keras_encoder, parts)
    expected = [vectors[0], vectors[1:4].mean(axis=0), vectors[4]]
    encoded = encoder.encode_document(sentences)
    np.testing.assert_allclose(encoded.vectors, expected, **CLOSE)
    assert (encoded.num_parts, encoded.num_positions) == (5, 5 * 3 + 4 + 31 + 6)


@pytest.mark.parametrize(
    ("counts", "num_parts", "ends"),
    [
        ([2, 5, 3] * 15, 45, (15, 30, 45)),
        # Seven of three parts each, for a model of 20 places.
        ([30] * 7, 21, (4, 7)),
    ],
)
def test_longer_documents_are_read_in_even_rows_of_sentences(
    reat, counts, num_parts, ends
):
    _, encoder = reat
    sentences = sentences_with(*counts)
    encoded = encoder.encode_document(sentences)
    assert (encoded.num_parts, encoded.num_passes) == (num_parts, len(ends))
    begins = (0, *ends)
    expected = [
        encoder.encode_document(sentences[begin:end]).vectors
        for begin, end in zip(begins, ends, strict=False)
    ]
    np.testing.assert_allclose(encoded.vectors, np.concatenate(expected), **CLOSE)


def test_a_sentence_longer_than_a_row_is_torn(reat):
    encoded = reat[1].encode_document(sentences_with(1, 13 * 45, 1))
    assert (encoded.num_parts, encoded.num_passes) == (48, 3)
    assert np.isfinite(encoded.vectors).all()


def window_outputs(pretrained, sentences, first_index, paragraph_lengths):
    """Window and outputs of a part of a document, read alone."""
    tree = DocumentTree(
        np.concatenate(sentences),
        np.array([len(one) for one in sentences]),
        np.array(paragraph_lengths),
        first_index,
    )
    window = attention.lay_out(tree, pretrained)
    return window, pretrained.encoder(window.features, training=False)[0].numpy()


def window_vectors(pretrained, sentences, *place):
    window, sequence = window_outputs(pretrained, sentences, *place)
    is_sent = np.array(window.tokens) == "[SENT]"
    is_read = is_sent if is_sent.any() else window.is_piece
    return [
        sequence[(window.sentences == number) & is_read].mean(axis=0)
        for number in range(len(sentences))
    ]


@pytest.mark.parametrize("kind", ["segabert", "slm"])
def test_other_encoders_read_windows_of_a_document(kind):
    pretrained = tiny(kind)
    # Four of ten pieces fit in a row of 48: three and three and three.
    sentences = sentences_with(*[9] * 9)
    encoded = encoder_of(kind).encode_document(sentences, [0, 0, 1, 1, 1, 1, 2, 2, 2])
    pieces = pieces_of(sentences)
    expected = [
        *window_vectors(pretrained, pieces[:3], (0, 0, 0), [2, 1]),
        *window_vectors(pretrained, pieces[3:6], (1, 1, 0), [3]),
        *window_vectors(pretrained, pieces[6:], (2, 0, 0), [3]),
    ]
    np.testing.assert_allclose(encoded.vectors, expected, **CLOSE)
    assert (encoded.num_parts, encoded.num_passes) == (9, 3)
    assert encoded.num_positions == 3 * 2 + 9 * (10 + (kind == "slm"))


def test_a_sentence_longer_than_a_window_is_read_in_parts():
    pretrained, sentences = tiny("segabert"), sentences_with(60)
    (pieces,) = pieces_of(sentences)
    encoded = encoder_of("segabert").encode_document(sentences)
    parts = [
        window_vectors(pretrained, [pieces[:31]], (0, 0, 0), [1]),
        window_vectors(pretrained, [pieces[31:]], (0, 0, 31), [1]),
    ]
    np.testing.assert_allclose(encoded.vectors, np.mean(parts, axis=0), **CLOSE)
    assert (encoded.num_parts, encoded.num_passes) == (2, 2)


# === Passages ===

DOCUMENT = "W1 w2 w3. W4  w5.\n \nW6 w7.\n"


@pytest.mark.parametrize("kind", ["segabert", "slm"])
def test_passages_are_means_in_the_context_of_the_document(kind):
    pretrained, encoder = tiny(kind), encoder_of(kind)
    window, sequence = window_alone(pretrained, DOCUMENT)
    # w1 w2 w3 . w4 w5 . | w6 w7 .
    outputs = sequence[window.is_piece]
    np.testing.assert_allclose(
        encoder.encode_passages(DOCUMENT),
        [outputs[:7].mean(axis=0), outputs[7:].mean(axis=0)],
        **CLOSE,
    )
    whole, second, inside = (0, len(DOCUMENT)), (10, 17), (4, 12)
    blanks = (17, 20)
    found = encoder.encode_passages(DOCUMENT, [whole, second, inside, blanks])
    # A word belongs to a span with its marks, even if the span ends inside it.
    expected = [outputs, outputs[4:7], outputs[1:5]]
    for vector, pieces in zip(found, expected, strict=False):
        np.testing.assert_allclose(vector, pieces.mean(axis=0), **CLOSE)
    assert not found[3].any()
    alone = encoder.encode_passages("W6 w7.")
    assert np.abs(alone - encoder.encode_passages(DOCUMENT)[1:]).max() > 1e-3


def test_long_documents_are_read_in_overlapping_windows():
    pretrained, encoder = tiny("segabert"), encoder_of("segabert")
    sentences = sentences_with(*[9] * 9)
    pieces = pieces_of(sentences)
    # Four of ten pieces fit; each window starts in the middle of the one before.
    windows = {0: (0, 4, 0, 3), 2: (2, 6, 3, 5), 4: (4, 8, 5, 8), 6: (6, 9, 8, 9)}
    expected = []
    for begin, end, first, last in windows.values():
        window, sequence = window_outputs(
            pretrained, pieces[begin:end], (0, begin, 0), [end - begin]
        )
        outputs = sequence[window.is_piece].reshape(end - begin, 10, -1)
        expected += [*outputs[first - begin : last - begin].mean(axis=1)]
    document = " ".join(sentences)
    starts = np.cumsum([0] + [1 + len(one) for one in sentences])
    spans = [(int(a), int(b) - 1) for a, b in itertools.pairwise(starts)]
    found = encoder.encode_passages(document, spans)
    np.testing.assert_allclose(found, expected, **CLOSE)
    whole = encoder.encode_passages(document)
    np.testing.assert_allclose(whole, [np.mean(expected, axis=0)], **CLOSE)


def test_passages_of_reat_are_means_of_sentences(reat):
    keras_encoder, encoder = reat
    vectors = padded_vectors(
        keras_encoder, pieces_of(["W1 w2 w3.", "W4 w5.", "W6 w7."])
    )
    found = encoder.encode_passages(DOCUMENT, [(0, 17), (6, 12), (20, 22)])
    expected = [vectors[:2].mean(axis=0), vectors[:2].mean(axis=0), vectors[2]]
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize(
    ("document", "spans", "message"),
    [
        (" \n", None, "`document` must hold a word"),
        ("\u200b", [(0, 1)], "`document` must hold a word"),
        ("W1.", [(0, 3), (1, 4)], r"`spans`.*spans\[1\]=\(1, 4\), for 3 characters"),
        ("W1.", [(2, 2)], r"spans\[0\]=\(2, 2\)"),
    ],
)
def test_what_is_no_passage_is_refused(document, spans, message):
    with pytest.raises(ValueError, match=message):
        encoder_of("segabert").encode_passages(document, spans)


# === Sentences in context ===


@pytest.mark.parametrize("kind", ["segabert", "reat"])
def test_sentences_are_encoded_after_their_context(kind):
    before, last, empty = (
        Sentence(text, paragraph=number)
        for number, text in enumerate(("W1 w2 w3.", "W4 w5.", "\u200b"))
    )
    long = Sentence("w6 " * 60, paragraph=1)
    encoder = encoder_of(kind)
    groups = [[before, last], [last], [before, empty], [before, long]]
    vectors, num_cut = encoder.encode_in_context(groups)
    for number, group in enumerate(groups[:2]):
        document = encoder.encode_document(
            [one.text for one in group], list(range(len(group)))
        )
        expected = document.vectors[-1] / np.linalg.norm(document.vectors[-1])
        np.testing.assert_allclose(vectors[number], expected, **CLOSE)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
    assert vectors[2].any() == (kind == "reat")
    # Blocks take a long sentence in parts; a window takes its beginning, alone.
    assert num_cut == (kind == "segabert")
    if kind == "segabert":
        alone, _ = encoder.encode_in_context([[Sentence("w6 " * 46)]])
        np.testing.assert_allclose(vectors[3], alone[0], **CLOSE)


def test_context_gives_way_to_a_long_sentence():
    encoder = encoder_of("segabert")
    # 46 pieces fit; a sentence has its words and the period.
    near, far, last = (
        Sentence(text, paragraph=number)
        for number, text in enumerate(sentences_with(5, 6, 38))
    )
    (found, other), num_cut = encoder.encode_in_context(
        [[near, far, last], [far, last]]
    )
    np.testing.assert_allclose(found, other, **CLOSE)
    assert num_cut == 0
