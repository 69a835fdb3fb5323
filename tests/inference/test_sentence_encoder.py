"""Vectors of texts, sentences and passages, against the encoder on one row alone."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.config import build_from
from seg_tf.inference import attention, row_encoder
from seg_tf.inference.sentence_encoder import (
    SentenceEncoder,
    cosine_warning,
    mean_cosine,
)
from seg_tf.inference.texts import Sentence
from seg_tf.text.tree import DocumentTree
from tests.finetuning.tiny_models import example_of, some_texts, tiny
from tests.inference import tiny_slm
from tests.inference.tiny_reat import CONFIG, MODEL, padded_vectors, pieces_of
from tests.inference.tiny_slm import ROW_LENGTH, SPLITTER, VOCABULARY, sentence

pytestmark = pytest.mark.slow

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
# Not in the order of their lengths, with and without paragraphs, long, and empty.
TEXTS = [
    "W1 w2 w3. W4 w5.\nW6.",
    "W7 w8.",
    "W9 w10 w11 w12. " * 30,
    "",
    "W2. W13 w1\n\nW2 w3.",
]
each_kind = pytest.mark.parametrize("kind", ["segabert", "segabert_slm", "reat"])


@functools.cache
def encoder_of(kind):
    return SentenceEncoder(tiny(kind))


def sentences_of(text):
    return [one for line in text.split("\n") for one in SPLITTER.split(line)]


def document(sentences, paragraphs=None):
    numbers = [0] * len(sentences) if paragraphs is None else paragraphs
    return [
        Sentence(text, "", paragraph=number)
        for text, number in zip(sentences, numbers, strict=True)
    ]


# === Texts ===


def window_alone(pretrained, text):
    tree = attention.read_tree(text.split("\n"), pretrained, SPLITTER)
    capacity = attention.window_capacity(pretrained)
    window = attention.lay_out(attention.first_window(tree, capacity), pretrained)
    return window, pretrained.encoder(window.features, training=False)[0].numpy()


def sentence_means(window, sequence, *, of_sent):
    is_read = np.array(window.tokens) == "[SENT]" if of_sent else window.is_piece
    return np.array(
        [
            sequence[(window.sentences == number) & is_read].mean(axis=0)
            for number in range(window.num_sentences)
        ]
    )


@pytest.mark.parametrize("kind", ["segabert", "slm"])
def test_vectors_of_texts_are_those_of_each_text_alone(kind):
    encoder = encoder_of(kind)
    means = encoder.encode(TEXTS)
    firsts = encoder.encode(TEXTS, "cls")
    sents = encoder.encode(TEXTS, "sent") if kind == "slm" else None
    for number, text in enumerate(TEXTS):
        if not text:
            assert not means[number].any()
            continue
        window, sequence = window_alone(tiny(kind), text)
        expected = sequence[window.is_piece].mean(axis=0)
        np.testing.assert_allclose(means[number], expected, **CLOSE)
        np.testing.assert_allclose(firsts[number], sequence[0], **CLOSE)
        if sents is not None:
            expected = sentence_means(window, sequence, of_sent=True).mean(axis=0)
            np.testing.assert_allclose(sents[number], expected, **CLOSE)


@pytest.mark.parametrize("kind", ["segabert", "slm", "modern"])
def test_vectors_of_sentences_are_those_of_their_text_alone(kind):
    encoded = encoder_of(kind).encode_sentences(TEXTS)
    for text, one in zip(TEXTS, encoded, strict=True):
        assert list(one.sentences) == sentences_of(text)
        assert len(one.vectors) == len(one.sentences)
        if one.num_passes == 1:
            expected = sentence_means(
                *window_alone(tiny(kind), text), of_sent=kind == "slm"
            )
            np.testing.assert_allclose(one.vectors, expected, **CLOSE)
    assert [one.num_passes > 1 for one in encoded] == [False, False, True, False, False]


def test_lines_without_word_pieces_are_no_paragraphs():
    text, blank = TEXTS[0], "\u200b\n"
    texts = [text, blank + text.replace("\n", f"\n{blank}")]
    expected, found = encoder_of("segabert").encode_sentences(texts)
    is_read = [one + "\n" != blank for one in found.sentences]
    np.testing.assert_allclose(found.vectors[is_read], expected.vectors, **CLOSE)


def test_what_is_encoded_is_what_is_served():
    encoder = SentenceEncoder(tiny("reat"), randomly_initialized=True, seed=5)
    # More parts of sentences than there are places for sentences.
    texts = [*TEXTS[:2], " ".join(f"W{n}" + " w1" * 20 + "." for n in range(15))]
    expected = encoder.predict(texts)["pooled_output"]
    np.testing.assert_allclose(encoder.encode(texts), expected, **CLOSE)
    first, none = encoder.encode_sentences([texts[0], ""])
    assert none.vectors.shape == (0, first.vectors.shape[1])


@pytest.mark.parametrize("kind", ["segabert", "slm"])
def test_rows_are_no_longer_than_the_maximum(kind):
    encoder = SentenceEncoder(tiny(kind), max_length=12)
    room = encoder.layout.text_capacity.num_pieces
    found = encoder.encode(["w1 " * room, "w1 " * 30], "mean")
    np.testing.assert_allclose(found[0], found[1], **CLOSE)
    assert room < 12
    outputs = encoder.predict(["w1 " * 30])
    assert outputs["token_ids"].shape[1] <= 12
    pairs = encoder._served.functions["encode_pairs"]
    outputs = pairs(tf.constant(["w1 " * 30]), tf.constant(["w2"]))
    assert outputs["token_ids"].shape[1] <= 12
    # The places of [SENT] leave room in short rows, too.
    first, second = SentenceEncoder(tiny(kind), max_length=6).encode(["w1 w2", "w1 w3"])
    assert np.abs(first - second).max() > 0.01


def test_rows_may_be_longer_than_windows_of_pretraining():
    layout = SentenceEncoder(tiny("segabert"), max_length=500).layout
    assert layout.text_capacity.num_pieces == 498


def test_a_text_of_reat_has_the_mean_of_its_sentences():
    encoder = encoder_of("reat")
    (expected,) = encoder.encode_sentences(TEXTS[:1])
    for vectors in ("mean", "sent"):
        np.testing.assert_allclose(
            encoder.encode(TEXTS[:1], vectors)[0],
            expected.vectors.mean(axis=0),
            **CLOSE,
        )


def test_rows_are_batched_by_length(monkeypatch):
    """Every row once; each batch within its size, or a single row."""
    shapes = []
    trees_of = row_encoder.trees_of

    def recorded(batch, num_columns):
        trees = trees_of(batch, num_columns)
        shapes.append((len(batch), 2 + trees.pieces.shape[1]))
        return trees

    monkeypatch.setattr(row_encoder, "trees_of", recorded)
    generator = np.random.default_rng(0)
    some = [sentence(generator, int(size)) for size in generator.integers(1, 40, 50)]
    expected = encoder_of("segabert").encode(some)
    for most in (1, 100):
        shapes.clear()
        monkeypatch.setattr(row_encoder, "_TOKENS_PER_BATCH", most)
        found = encoder_of("segabert").encode(some)
        np.testing.assert_allclose(found, expected, **CLOSE)
        assert sum(size for size, _ in shapes) == len(some)
        # A row longer than a batch is a batch.
        assert all(size == 1 or size * length <= most for size, length in shapes)
    assert max(size for size, _ in shapes) >= 10  # rows of 10 positions and fewer


@pytest.mark.parametrize(
    ("kind", "vectors", "names"),
    [("bert", "sent", "mean, cls"), ("reat", "cls", "sent"), ("slm", "max", "sent")],
)
def test_vectors_that_a_model_lacks_are_refused(kind, vectors, names):
    with pytest.raises(ValueError, match=f"one of {names}.*Received: '{vectors}'"):
        encoder_of(kind).encode(["W1."], vectors)


# === Long texts ===


@pytest.fixture(name="reat", scope="module")
def _reat():
    encoder = build_from(MODEL, vocab_size=VOCABULARY.size)
    return SentenceEncoder(
        dataclasses.replace(tiny("reat"), encoder=encoder, config=CONFIG)
    )


def reat_vectors(reat, pieces):
    return padded_vectors(reat._pretrained.encoder, pieces)


def texts_of(*numbers_of_words):
    generator = np.random.default_rng(1)
    return [sentence(generator, count) for count in numbers_of_words]


def encoded(encoder, sentences, paragraphs=None):
    return encoder.encode_documents([document(sentences, paragraphs)])[0]


@pytest.mark.parametrize("counts", [(3, 1, 7, 0, 12, 2, 2, 5, 9), (4,)])
def test_vectors_of_reat_are_those_of_the_padded_array(reat, counts):
    # One of them without a word.
    sentences = [text if text != "." else "" for text in texts_of(*counts)]
    pieces = pieces_of(sentences)
    found = encoded(reat, sentences)
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(found.vectors, reat_vectors(reat, pieces), atol=1e-5)
    assert found.num_passes == 1


def test_long_sentences_are_the_mean_of_their_parts(reat):
    sentences = texts_of(3, 30, 5)
    first, long, last = pieces_of(sentences)
    assert len(long) == 31
    parts = [first, long[:11], long[11:21], long[21:], last]
    vectors = reat_vectors(reat, parts)
    expected = [vectors[0], vectors[1:4].mean(axis=0), vectors[4]]
    found = encoded(reat, sentences)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)


def test_texts_longer_than_a_row_are_encoded_in_stretches(reat):
    sentences = texts_of(*([2, 5, 3] * 15))
    found = encoded(reat, sentences)
    assert found.num_passes == 3
    expected = [
        reat_vectors(reat, pieces_of(sentences[begin : begin + 15]))
        for begin in (0, 15, 30)
    ]
    np.testing.assert_allclose(found.vectors, np.concatenate(expected), atol=1e-5)


def test_stretches_end_with_sentences(reat):
    # Seven of three parts each, for a model of 20 places.
    sentences = texts_of(*[30] * 7)
    found = encoded(reat, sentences)
    assert found.num_passes == 2
    apart = [encoded(reat, some).vectors for some in (sentences[:3], sentences[3:])]
    np.testing.assert_allclose(found.vectors, np.concatenate(apart), atol=1e-5)


def test_a_sentence_longer_than_a_stretch_is_divided(reat):
    found = encoded(reat, texts_of(1, 13 * 45, 1))
    assert np.isfinite(found.vectors).all()


def window_vectors(pretrained, pieces, first_index, paragraph_lengths):
    """Vectors of the sentences of a window of a document, read alone."""
    tree = DocumentTree(
        np.concatenate(pieces),
        np.array([len(one) for one in pieces]),
        np.array(paragraph_lengths),
        first_index,
    )
    window = attention.lay_out(tree, pretrained)
    sequence = pretrained.encoder(window.features, training=False)[0].numpy()
    return sentence_means(window, sequence, of_sent="[SENT]" in window.tokens)


@pytest.mark.parametrize("kind", ["segabert", "slm"])
def test_other_encoders_read_windows_of_the_text(kind):
    # Four of ten pieces fit into a row of 48: three and three and three.
    sentences = texts_of(*[9] * 9)
    found = encoded(encoder_of(kind), sentences, [0, 0, 1, 1, 1, 1, 2, 2, 2])
    pieces = pieces_of(sentences)
    expected = [
        *window_vectors(tiny(kind), pieces[:3], (0, 0, 0), [2, 1]),
        *window_vectors(tiny(kind), pieces[3:6], (1, 1, 0), [3]),
        *window_vectors(tiny(kind), pieces[6:], (2, 0, 0), [3]),
    ]
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)
    assert found.num_passes == 3


def test_a_sentence_longer_than_a_window_is_read_in_parts():
    sentences = texts_of(60)
    (pieces,) = pieces_of(sentences)
    found = encoded(encoder_of("segabert"), sentences)
    parts = [
        window_vectors(tiny("segabert"), [pieces[:31]], (0, 0, 0), [1]),
        window_vectors(tiny("segabert"), [pieces[31:]], (0, 0, 31), [1]),
    ]
    np.testing.assert_allclose(found.vectors, np.mean(parts, axis=0), atol=1e-5)
    assert found.num_passes == 2


# === Passages ===


def test_passages_are_means_over_their_pieces_in_context():
    text = "W1 w2 w3. W4 w5.\n\nW6 w7 w8."
    encoder = encoder_of("segabert")
    paragraphs = encoder.encode_passages(text)
    assert [text[begin:end] for begin, end in paragraphs.spans] == [
        "W1 w2 w3. W4 w5.",
        "W6 w7 w8.",
    ]
    window, sequence = window_alone(tiny("segabert"), text)
    outputs = sequence[window.is_piece]  # w1 w2 w3 . w4 w5 . w6 w7 w8 .
    np.testing.assert_allclose(
        paragraphs.vectors,
        [outputs[:7].mean(axis=0), outputs[7:].mean(axis=0)],
        **CLOSE,
    )
    begin, end = text.index("w3"), text.index("w5")
    spans = [(begin, end), (0, 2), (1, len(text)), (9, 10)]
    found = encoder.encode_passages(text, spans).vectors
    expected = [outputs[2:5].mean(axis=0), outputs[0], outputs.mean(axis=0)]
    np.testing.assert_allclose(found[:3], expected, **CLOSE)
    assert not found[3].any()  # white space
    alone = encoder.encode_passages(text[begin:end]).vectors
    assert np.abs(alone - found[:1]).max() > 1e-3


@pytest.mark.parametrize("kind", ["segabert", "slm", "reat"])
def test_passages_of_long_documents(kind):
    text = "\n".join(" ".join(texts_of(9, 9, 4)) for _ in range(8))
    found = encoder_of(kind).encode_passages(text)
    (sentences,) = encoder_of(kind).encode_sentences(
        [text], None if kind == "reat" else "mean"
    )
    assert sentences.num_passes > 1
    counts = np.array([len(one) for one in pieces_of(sentences.sentences)])
    weights = np.ones(24) if kind == "reat" else counts
    expected = [
        np.average(sentences.vectors[at : at + 3], axis=0, weights=weights[at : at + 3])
        for at in range(0, 24, 3)
    ]
    np.testing.assert_allclose(found.vectors, expected, **CLOSE)


@pytest.mark.parametrize("span", [(0, 0), (3, 99), (-1, 2), (5, 2)])
def test_spans_must_lie_in_the_document(span):
    with pytest.raises(ValueError, match=r"`spans` .*12 characters.*spans\[1\]"):
        encoder_of("segabert").encode_passages("W1 w2 w3 w4.", [(0, 2), span])
    with pytest.raises(ValueError, match="`document` and `spans` must not be empty"):
        encoder_of("segabert").encode_passages(" \n")


# === Sentences after others ===


@pytest.fixture(name="slm", scope="module")
def _slm(pretrained):
    return SentenceEncoder(pretrained)


def vector_alone(pretrained, group):
    """The normalised vector of the last sentence of a row without padding."""
    paragraphs = [one.paragraph - group[0].paragraph for one in group]
    numbers = [
        paragraphs[:at].count(paragraph) for at, paragraph in enumerate(paragraphs)
    ]
    candidates = tiny_slm.candidates_alone(
        pretrained, [one.text for one in group], paragraphs, numbers
    )
    return candidates[-2] / np.linalg.norm(candidates[-2])  # before [SEP]


def test_context_gives_way_to_a_long_sentence(slm, pretrained):
    generator = np.random.default_rng(0)
    # A sentence takes its words, the period and a [SENT].
    near, far, last = (
        Sentence(sentence(generator, length), "", paragraph=number)
        for number, length in enumerate((5, 6, ROW_LENGTH - 2 - 8 - 2))
    )
    vectors, num_cut = slm.encode_in_context([[near, far, last]])
    assert num_cut == 0
    expected = vector_alone(pretrained, [far, last])
    np.testing.assert_allclose(vectors[0], expected, atol=2e-5)
    longer = Sentence(sentence(generator, 300), "")
    vectors, num_cut = slm.encode_in_context([[near, far, longer], [far]])
    assert num_cut == 1
    words = " ".join(longer.text.split()[: ROW_LENGTH - 3])
    expected = vector_alone(pretrained, [Sentence(words, "")])
    np.testing.assert_allclose(vectors[0], expected, atol=2e-5)


@pytest.mark.parametrize("kind", ["segabert", "reat"])
def test_other_encoders_encode_in_context_too(kind):
    before, last, empty = (
        Sentence(text, "", paragraph=number)
        for number, text in enumerate(("W1 w2 w3.", "W4 w5.", "\u200b"))
    )
    long = Sentence("w6 " * 60, "", paragraph=1)
    groups = [[before, last], [last], [before, empty], [before, long]]
    encoder = encoder_of(kind)
    vectors, num_cut = encoder.encode_in_context(groups)
    for number, group in enumerate(groups[:2]):
        expected = encoder.encode_documents([group])[0].vectors[-1]
        expected /= np.linalg.norm(expected)
        np.testing.assert_allclose(vectors[number], expected, atol=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
    assert vectors[2].any() == (kind == "reat")
    # Blocks take a long sentence in parts; a window takes its beginning, alone.
    assert num_cut == (kind == "segabert")
    if kind == "segabert":
        alone, _ = encoder.encode_in_context([[Sentence("w6 " * 46, "")]])
        np.testing.assert_allclose(vectors[3], alone[0], atol=1e-5)


# === Rows of texts, as in fine-tuning ===


def some_rows(num_rows=5, num_texts=1, longest=12, seed=1):
    return some_texts(np.random.default_rng(seed), num_rows, num_texts, longest)


def row_alone(kind, row):
    pretrained = tiny(kind)
    layout = pretrained.layout()
    example, _ = example_of(pretrained, row, layout.capacity(len(row)))
    features = layout.lay_out([example], layout.row_shape(example))
    (sequence,) = np.asarray(pretrained.encoder(features), "float64")
    return example, features, sequence


def slow_vectors(kind, row):
    """Vectors of the texts of a row, from the checkpoint's encoder on it alone."""
    _, features, sequence = row_alone(kind, row)
    if kind == "reat":
        kernel, bias = map(np.asarray, tiny(kind).encoder.pooler.weights)
        starts = np.asarray(features["sentence_starts"])[0]
        given = np.asarray(features["given_text"])[0]
        pooled = np.tanh(sequence[starts] @ kernel + bias)
        return [pooled[given == text].mean(axis=0) for text in range(1, 1 + len(row))]
    if not kind.endswith("slm"):
        return [sequence[0]]
    is_sent = np.asarray(features["token_ids"])[0] == tiny(kind).vocabulary.sent_id
    return sequence[np.flatnonzero(is_sent)]


def slow_means(kind, row):
    """Means over the word pieces of each text of a row; a ReAT's own vectors."""
    if kind == "reat":
        return slow_vectors(kind, row)
    example, features, sequence = row_alone(kind, row)
    vocabulary = tiny(kind).vocabulary
    special = {*vocabulary.special_ids.values(), vocabulary.sent_id}
    special -= {vocabulary.special_ids["unk"]}
    token_ids = np.asarray(features["token_ids"])[0].tolist()
    outputs = iter(
        vector
        for vector, token in zip(sequence, token_ids, strict=True)
        if token not in special
    )
    return [
        np.mean([next(outputs) for _ in segment.pieces], axis=0) for segment in example
    ]


@each_kind
def test_each_text_of_a_row_has_its_vector(kind):
    encoder = encoder_of(kind)
    rows = [*some_rows(2, longest=3), *some_rows(3, longest=40), ("w1 never-seen ☃",)]
    vectors, _ = encoder.encode_rows(rows)
    assert np.ptp(vectors, axis=0).max() > 0.1
    np.testing.assert_allclose(
        vectors, [slow_vectors(kind, row) for row in rows], **CLOSE
    )
    vectors, _ = encoder.encode_rows(rows, None if kind == "reat" else "mean")
    np.testing.assert_allclose(
        vectors, [slow_means(kind, row) for row in rows], **CLOSE
    )


@pytest.mark.parametrize("kind", ["slm", "reat"])
def test_texts_of_a_row_see_each_other(kind):
    rows = some_rows(3, num_texts=3)
    vectors, _ = encoder_of(kind).encode_rows(rows)
    expected = [slow_vectors(kind, row) for row in rows]
    np.testing.assert_allclose(vectors, expected, **CLOSE)
    if kind == "slm":
        vectors, _ = encoder_of(kind).encode_rows(rows, "mean")
        expected = [slow_means(kind, row) for row in rows]
        np.testing.assert_allclose(vectors, expected, **CLOSE)


def test_long_texts_are_cut_and_counted():
    encoder = SentenceEncoder(tiny("slm"), max_length=8)
    rows = [("w1 " * 30,), ("w1 " * 5,), ("w1 " * 6,)]
    vectors, num_cut = encoder.encode_rows(rows)
    assert num_cut == 2
    with pytest.raises(ValueError, match="cls"):
        encoder.encode_rows([("w1", "w2")], "cls")
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


def test_new_weights_depend_only_on_their_seed():
    rows = some_rows()
    # Not 1, the seed of the tiny model itself.
    twins = [
        SentenceEncoder(tiny("reat"), randomly_initialized=True, seed=seed)
        for seed in (2, 2, 3)
    ]
    first, same, other = (twin.encode_rows(rows)[0] for twin in twins)
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-2


def test_half_precision_follows_the_policy():
    rows = some_rows()
    expected, _ = encoder_of("slm").encode_rows(rows)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        encoder = SentenceEncoder(tiny("slm"))
    finally:
        keras.config.set_dtype_policy("float32")
    vectors, _ = encoder.encode_rows(rows)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - expected).max() > 1e-4
    np.testing.assert_allclose(vectors, expected, atol=0.1)


# === Cosines ===


def test_the_mean_cosine_is_that_of_all_pairs():
    generator = np.random.default_rng(0)
    for offset, warns in ((0, False), (0.5, False), (5, True), (1e4, True)):
        vectors = generator.normal(size=(60, 16)) + offset
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = (vectors @ vectors.T)[~np.eye(60, dtype=bool)]
        found = mean_cosine(vectors.astype("f4"))
        assert found == pytest.approx(cosines.mean(), abs=1e-6)
        assert bool(cosine_warning(found)) == warns == (found > 0.95)
    assert mean_cosine(vectors[:9]) is cosine_warning(None) is None
