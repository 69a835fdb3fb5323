"""Answers that are found in the graph are those of the Keras model and its ranking."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import export
from seg_tf.export.served import ServedExtractor
from seg_tf.finetuning import SpanExamples, SpanExtractor
from seg_tf.finetuning.spans import AnswerRanker
from seg_tf.layouts.spans import NO_SCORE
from seg_tf.preprocessing import SpanPreprocessor, window_sizes
from seg_tf.tasks.squad import Passage, Question, SquadFile
from seg_tf.text.punkt_parameters import PunktParameters
from tests import command_calls
from tests.finetuning import tiny_models

pytestmark = pytest.mark.slow
REWRITE_GRAPHS = True  # as where models are served

# Small, so that most contexts are read in several windows.
SIZES = {"max_length": 30, "stride": 7, "max_question_pieces": 6}
MAX_ANSWER_PIECES = 5
NUM_BEST = 12


def random_context(generator):
    """Paragraphs of sentences, some words of which are there twice."""
    text = ""
    for _ in range(int(generator.integers(1, 12))):
        words = generator.choice(tiny_models.WORDS, int(generator.integers(1, 9)))
        text += " ".join(words).capitalize() + generator.choice([". ", ".\n", "? \r\n"])
    return text


def asked():
    """Pairs of question and context, long ones and odd ones."""
    generator = np.random.default_rng(3)
    pairs = [
        (" ".join(generator.choice(tiny_models.WORDS, 4)), random_context(generator))
        for _ in range(12)
    ]
    return [
        *pairs,
        ("", "w1"),
        ("w1\nw2. W3 w4 w5 w6 w7 w8", "W1 w2. " * 9 + "w3 " * 40 + "w1 w1 w1"),
        ("[SEP] w9?", "\ufeffW1 w\u0301\u0323 w3\u0301. W4\u0301\n\nW5 é中文 w6\u0301"),
        ("ẃ7", "\n\u200b\n 🙂 w7\u200b w8 — ‘W9’\U0001f642. " + "W3 w4. " * 12),
    ]


@functools.cache
def pretrained_of(kind):
    return tiny_models.tiny(kind, num_token_types=2)


def examples_of(pretrained, has_null=True):
    """The windows for Keras."""
    passages = [
        Passage(context, (Question(str(number), question),))
        for number, (question, context) in enumerate(asked())
    ]
    data = SquadFile("made", has_null, tuple(passages))
    return SpanExamples(pretrained, data, **SIZES)


def answers_of_keras(extractor, examples, **choice):
    """What the model answers outside of the graph."""
    return AnswerRanker(examples, **choice)(extractor)[0]


def test_rows_are_those_of_finetuning_inside_a_pipeline_too():
    pretrained = pretrained_of("segabert_slm")
    preprocessor = SpanPreprocessor(pretrained, window_sizes(pretrained, **SIZES))
    examples = examples_of(pretrained)
    assert len(examples) > 2 * len(asked())
    ((expected, _),) = examples.batches(len(examples))
    texts = tuple(map(list, zip(*asked(), strict=True)))
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(len(asked()))
    (rows,) = dataset.map(preprocessor)
    assert rows.keys() == expected.keys()
    for name, values in expected.items():
        length = rows[name].shape[1]
        np.testing.assert_array_equal(rows[name], values[:, :length], name)
        assert not values[:, length:].numpy().any()


def check_answers(found, expected, null_threshold, num_best):
    """Compares what a signature gave for `asked` with ranked answers."""
    found = {name: values.numpy() for name, values in found.items()}
    close = {"rtol": 1e-5, "atol": 1e-5}
    has_null = null_threshold is not None
    for number, ((_, context), one) in enumerate(zip(asked(), expected, strict=True)):
        best = one.candidates[0]
        answer = one.answer(null_threshold) if has_null else best.text
        assert found["answer"][number].decode() == answer
        start, end = found["start"][number], found["end"][number]
        assert context[start:end] == best.text
        np.testing.assert_allclose(found["score"][number], best.score, **close)
        if has_null:
            assert found["span"][number].decode() == best.text
            np.testing.assert_allclose(
                found["null_odds"][number], one.null_odds, **close
            )
        if num_best > 1:
            texts = [text.decode() for text in found["n_best_answers"][number]]
            count = len(one.candidates)
            assert texts[:count] == [each.text for each in one.candidates]
            assert texts[count:] == [""] * (num_best - count)
            scores = found["n_best_scores"][number]
            np.testing.assert_allclose(
                scores[:count], [each.score for each in one.candidates], **close
            )
            assert (scores[count:] == NO_SCORE).all()
            places = zip(
                found["n_best_starts"][number],
                found["n_best_ends"][number],
                strict=True,
            )
            assert [context[begin:stop] for begin, stop in places] == texts
    assert ("null_odds" in found) == has_null
    assert ("n_best_answers" in found) == (num_best > 1)


def test_answers_are_those_of_keras():
    pretrained = pretrained_of("bert_ps")
    examples = examples_of(pretrained)
    sizes = window_sizes(pretrained, **SIZES)
    extractor = SpanExtractor.from_preset(pretrained, seed=1, **SIZES)
    choice = {"num_best": NUM_BEST, "max_answer_pieces": MAX_ANSWER_PIECES}
    expected = answers_of_keras(extractor, examples, **choice)
    # Between the odds of two questions.
    null_threshold = np.median([one.null_odds for one in expected])
    served = ServedExtractor(
        extractor,
        SpanPreprocessor(pretrained, sizes),
        null_threshold=null_threshold,
        **choice,
    ).functions["serving_default"]
    questions, contexts = zip(*asked(), strict=True)
    # There is nothing to be found in the last context.
    found = served(tf.constant([*questions, "w1"]), tf.constant([*contexts, " \n"]))
    of_last = {name: values[-1].numpy() for name, values in found.items()}
    found = {name: values[:-1] for name, values in found.items()}
    check_answers(found, expected, null_threshold, NUM_BEST)
    is_cut = examples.questions.is_cut.numpy()
    np.testing.assert_array_equal(found["is_cut"], is_cut)
    assert is_cut.any()
    assert of_last["answer"] == b""
    assert of_last["start"] == of_last["end"] == 0
    assert of_last["score"] == NO_SCORE
    assert of_last["null_odds"] > 1e9
    assert sum(found["answer"].numpy() == b"") == len(contexts) // 2
    empty = served(tf.constant(["w1"]), tf.constant([""]))
    assert empty["answer"].numpy().tolist() == [b""]


def test_an_extractor_is_exported(run_dir, tmp_path):
    pretrained = load_pretrained(run_dir)
    model, output = tmp_path / "model", tmp_path / "served"
    extractor = SpanExtractor.from_preset(pretrained, seed=1, **SIZES)
    extractor.save_to_preset(model)
    choice = {"max_answer_pieces": MAX_ANSWER_PIECES}
    command_calls.run(
        export,
        f"--checkpoint={model}",
        f"--output_dir={output}",
        f"--max_answer_pieces={MAX_ANSWER_PIECES}",
    )
    expected = answers_of_keras(
        extractor,
        examples_of(pretrained),
        max_answer_pieces=MAX_ANSWER_PIECES,
    )
    loaded = tf.saved_model.load(str(output))
    questions, contexts = map(tf.constant, zip(*asked(), strict=True))
    found = loaded.signatures["serving_default"](question=questions, context=contexts)
    check_answers(found, expected, None, 1)
    saved = SpanExtractor.from_preset(model)
    again = saved.answer(*zip(*asked(), strict=True), **choice)
    for name, values in found.items():
        np.testing.assert_array_equal(again[name], values)


def test_a_saved_task_has_the_sentence_parameters_of_its_checkpoint(tmp_path):
    parameters = PunktParameters(abbreviation_types=frozenset({"w1"}), name="own")
    pretrained = dataclasses.replace(
        pretrained_of("bert_ps"), sentence_parameters=parameters
    )
    SpanExtractor.from_preset(pretrained, **SIZES).save_to_preset(tmp_path / "task")
    saved = load_pretrained(tmp_path / "task")
    assert saved.sentence_parameters == parameters != PunktParameters.english()
    assert saved.sentence_splitter["parameters_sha256"] == parameters.checksum


def test_what_is_no_model_of_questions_is_refused():
    pretrained = tiny_models.tiny("reat")
    with pytest.raises(ValueError, match="reads question and context"):
        window_sizes(pretrained)
    with pytest.raises(ValueError, match=r"`num_best` and .* Received: num_best=0"):
        ServedExtractor(None, None, num_best=0)
