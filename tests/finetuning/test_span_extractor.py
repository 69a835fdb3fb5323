"""Pointers to answers: rows by hand, logits in NumPy, and a rule that is learnt."""

import re

import keras
import numpy as np
import pytest

from seg_tf.finetuning import span_extractor
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.spans import SpanExamples
from seg_tf.tasks.squad import Answer, Passage, Question, SquadFile
from tests.finetuning.tiny_models import tiny
from tests.inference.tiny_slm import VOCABULARY

pytestmark = pytest.mark.slow

each_kind = pytest.mark.parametrize("kind", ["segabert", "segabert_slm"])

# Question, sentences of the context, and first and last piece of the answer in it.
EXAMPLES = [
    ([7, 8], [[9], [10, 11, 12]], (1, 3)),
    ([7], [[13, 14], [15]], None),
    ([7, 8, 9], [[16, 17], [18]], (2, 2)),
]


def examples_of(kind, examples=EXAMPLES):
    """A passage for each question, whose words are the pieces."""
    passages = []
    for question, sentences, span in examples:
        words = [[VOCABULARY.tokens[piece] for piece in one] for one in sentences]
        # The splitter would not end a sentence without a full stop: a line each does.
        context = "\n".join(" ".join(sentence) for sentence in words)
        answers = ()
        if span is not None:
            flat = [word for sentence in words for word in sentence]
            starts = [match.start() for match in re.finditer(r"\S+", context)]
            first, last = span
            stop = starts[last] + len(flat[last])
            answers = (Answer(context[starts[first] : stop], starts[first]),)
        text = " ".join(VOCABULARY.tokens[piece] for piece in question)
        asked = Question(str(len(passages)), text, answers, not answers)
        passages.append(Passage(context, (asked,)))
    return SpanExamples(tiny(kind), SquadFile("made", True, tuple(passages)))


def batch(kind, examples=EXAMPLES):
    ((features, labels),) = examples_of(kind, examples).batches(len(examples))
    labels = {name: values.numpy().tolist() for name, values in labels.items()}
    return {name: values.numpy() for name, values in features.items()}, labels


def true_places(mask):
    return [np.flatnonzero(row).tolist() for row in mask]


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
    train = examples_of("slm", examples).batches(20, seed=1)
    before = extractor.evaluate(train, verbose=0, return_dict=True)
    parts = sum(before[f"{name}_loss"] for name in ("start", "end", "sentence"))
    np.testing.assert_allclose(before["loss"], parts, rtol=1e-4)
    extractor.fit(train, epochs=50, verbose=0)
    features, labels = batch("slm", examples)
    for name, logits in extractor(features).items():
        accuracy = (logits.numpy().argmax(axis=1) == labels[name]).mean()
        assert accuracy > 0.9, name


def test_answers_are_of_the_newest_weights_and_traced_once(monkeypatch):
    extractor = SpanExtractor.from_preset(tiny("bert"), seed=1)
    before = extractor.answer(["w1"], ["w2 w3"])["score"]
    monkeypatch.setattr(span_extractor, "ServedExtractor", None)
    extractor.set_weights([weight * 2 for weight in extractor.get_weights()])
    assert extractor.answer(["w1"], ["w2 w3"])["score"] != before


@pytest.mark.parametrize(
    "questions, contexts, message",
    [
        ([], [], r"`questions` must hold at least one text\. Received: none"),
        (["w1"], ["w2", "w3"], r"`contexts` must hold one .* 2 contexts, 1 questions"),
        (["w1", None], ["w2", "w3"], r"`questions` must .* questions\[1\]=None"),
    ],
)
def test_questions_and_contexts_that_are_none(questions, contexts, message):
    extractor = SpanExtractor.from_preset(tiny("bert"))
    with pytest.raises(ValueError, match=message):
        extractor.answer(questions, contexts)
