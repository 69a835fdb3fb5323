"""Pointers to answers: rows by hand, logits in NumPy, and a rule that is learnt."""

import keras
import numpy as np
import pytest

from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.spans import SpanExamples
from seg_tf.preprocessing.span_preprocessor import window_sizes
from tests.finetuning.tiny_models import tiny
from tests.layouts.made_contexts import contexts_of, questions_of

pytestmark = pytest.mark.slow

KINDS = ("bert", "segabert", "slm", "segabert_slm")
each_kind = pytest.mark.parametrize("kind", KINDS)

# Question, sentences of the context, and first and last piece of the answer in it.
EXAMPLES = [
    ([7, 8], [[9], [10, 11, 12]], (1, 3)),
    ([7], [[13, 14], [15]], None),
    ([7, 8, 9], [[16, 17], [18]], (2, 2)),
]


def examples_of(kind, examples=EXAMPLES):
    questions, sentences, answers = zip(*examples, strict=True)
    contexts = contexts_of(*([one] for one in sentences))
    begins = contexts.bounds.numpy()[:-1]
    spans = np.array([(0, -1) if one is None else one for one in answers])
    spans += begins[:, np.newaxis]
    return SpanExamples(
        tiny(kind),
        contexts,
        questions_of(*questions),
        window_sizes(tiny(kind)),
        (spans[:, 0], spans[:, 1]),
    )


def batch(kind, examples=EXAMPLES):
    ((features, labels),) = examples_of(kind, examples).batches(
        len(examples), with_labels=True
    )
    labels = {name: values.numpy().tolist() for name, values in labels.items()}
    return {name: values.numpy() for name, values in features.items()}, labels


def true_places(mask):
    return [np.flatnonzero(row).tolist() for row in mask]


def test_rows_and_answers_of_windows():
    features, labels = batch("segabert")
    # [CLS] 7 8 [SEP] 9 10 11 12 [SEP]
    # [CLS] 7 [SEP] 13 14 15 [SEP]
    # [CLS] 7 8 9 [SEP] 16 17 18 [SEP]
    assert features["token_ids"][0, :9].tolist() == [2, 7, 8, 3, 9, 10, 11, 12, 3]
    assert true_places(features["can_answer"]) == [
        [0, 4, 5, 6, 7],
        [0, 3, 4, 5],
        [0, 5, 6, 7],
    ]
    assert labels == {"start": [5, 0, 7], "end": [7, 0, 7]}
    assert "can_hold_answer" not in features


def test_rows_and_answers_of_sentences():
    features, labels = batch("slm")
    # [CLS] [SENT] 7 8 [SENT] 9 [SENT] 10 11 12 [SEP]
    # [CLS] [SENT] 7 [SENT] 13 14 [SENT] 15 [SEP]
    # [CLS] [SENT] 7 8 9 [SENT] 16 17 [SENT] 18 [SEP]
    assert true_places(features["can_answer"]) == [
        [0, 5, 7, 8, 9],
        [0, 4, 5, 7],
        [0, 6, 7, 9],
    ]
    assert true_places(features["can_hold_answer"]) == [
        [0, 2, 3],
        [0, 2, 3],
        [0, 2, 3],
    ]
    assert labels == {"start": [7, 0, 9], "end": [9, 0, 9], "sentence": [3, 0, 3]}


@each_kind
def test_pieces_of_the_context_are_where_an_answer_may_be(kind):
    features, _ = batch(kind)
    for row, (_, sentences, _) in enumerate(EXAMPLES):
        can_answer = features["can_answer"][row]
        assert can_answer[0]
        pieces = features["token_ids"][row, 1:][can_answer[1:]]
        assert pieces.tolist() == [piece for one in sentences for piece in one]


@each_kind
def test_logits_equal_plain_numpy(kind):
    extractor = SpanExtractor.from_preset(tiny(kind), seed=1)
    for weight in extractor.span_pointer.weights:
        weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    features, _ = batch(kind)
    outputs = extractor(features)
    sequence = np.asarray(extractor.encoder(features), "float64")
    kernel, bias = (weight.numpy() for weight in extractor.span_pointer.weights)
    expected = sequence @ kernel + bias
    for number, name in enumerate(("start", "end")):
        allowed = features["can_answer"]
        found = outputs[name].numpy()
        np.testing.assert_allclose(
            found[allowed], expected[..., number][allowed], atol=1e-5
        )
        assert (found[~allowed] == -1e9).all()
    assert ("sentence" in outputs) == kind.endswith("slm")
    if "sentence" in outputs:
        kernel, bias = (weight.numpy() for weight in extractor.sentence_pointer.weights)
        for row, places in enumerate(true_places(features["can_hold_answer"])):
            at = features["candidate_positions"][row, places]
            np.testing.assert_allclose(
                outputs["sentence"][row].numpy()[places],
                (sequence[row, at] @ kernel + bias)[:, 0],
                atol=1e-5,
            )


@each_kind
def test_padding_and_company_do_not_change_logits(kind):
    examples = [*EXAMPLES, ([7], [[9] * 30], None)]
    extractor = SpanExtractor.from_preset(tiny(kind), seed=1)
    together = extractor(batch(kind, examples)[0])
    for row, one in enumerate(examples):
        for name, logits in extractor(batch(kind, [one])[0]).items():
            length = min(logits.shape[1], together[name].shape[1])
            np.testing.assert_allclose(
                logits[0, :length], together[name][row, :length], rtol=1e-5, atol=1e-5
            )


@each_kind
def test_saved_file_gives_the_same_model(kind, tmp_path):
    extractor = SpanExtractor.from_preset(tiny(kind), name="given", seed=1)
    features, _ = batch(kind)
    extractor.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded, SpanExtractor)
    assert loaded.name == "given"
    for name, logits in extractor(features).items():
        np.testing.assert_array_equal(loaded(features)[name], logits)


def test_three_losses_are_summed_and_learnt():
    generator = np.random.default_rng(1)
    examples = []
    for _ in range(40):
        sentences = generator.integers(7, 30, (3, 4))
        place = int(generator.integers(0, 12))
        # The answer is the only piece 40 of the context.
        sentences.flat[place] = 40
        examples.append(([7, 8], sentences.tolist(), (place, place)))
    extractor = SpanExtractor.from_preset(tiny("slm"), seed=1)
    extractor.compile(
        keras.optimizers.Adam(1e-2), extractor.losses_of_pointers(), jit_compile=False
    )
    train = examples_of("slm", examples).batches(20, with_labels=True, seed=1)
    before = extractor.evaluate(train, verbose=0, return_dict=True)
    parts = sum(before[f"{name}_loss"] for name in ("start", "end", "sentence"))
    np.testing.assert_allclose(before["loss"], parts, rtol=1e-4)
    extractor.fit(train, epochs=80, verbose=0)
    features, labels = batch("slm", examples)
    for name, logits in extractor(features).items():
        accuracy = (logits.numpy().argmax(axis=1) == labels[name]).mean()
        assert accuracy > 0.9, name


def test_a_reat_is_refused():
    with pytest.raises(ValueError, match=r"in one window.*'tiny_reat'"):
        SpanExtractor.from_preset(tiny("reat"))


@pytest.mark.parametrize(
    "questions, contexts, message",
    [
        ([], [], r"`questions` must hold at least one text\. Received: none"),
        (["w1"], [], r"`contexts` must hold at least one text\. Received: none"),
        (["w1"], ["w2", "w3"], r"`contexts` must hold one .* 2 contexts, 1 questions"),
        ("w1", ["w2"], r"`questions` must be a sequence.* the string 'w1'"),
        (["w1", None], ["w2", "w3"], r"`questions` must .* questions\[1\]=None"),
    ],
)
def test_questions_and_contexts_that_are_none(questions, contexts, message):
    extractor = SpanExtractor.from_preset(tiny("bert"))
    with pytest.raises(ValueError, match=message):
        extractor.answer(questions, contexts)
