"""Answers that are found in the graph are those of the Keras model and its ranking."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import run_export
from seg_tf.export.served_extractor import ServedExtractor
from seg_tf.finetuning import SpanExtractor, TextClassifier
from seg_tf.finetuning.graph_answers import NO_SCORE
from seg_tf.finetuning.graph_contexts import GraphContextEncoder, encode_questions
from seg_tf.finetuning.graph_span_rows import span_rows
from seg_tf.finetuning.graph_windows import make_windows as make_graph_windows
from seg_tf.finetuning.span_batches import (
    context_positions,
    span_batches,
    span_layout,
)
from seg_tf.finetuning.squad_examples import span_example, window_sizes
from seg_tf.finetuning.window_layout import index_caps
from seg_tf.tasks.squad_answers import WindowLogits, rank_answers
from seg_tf.tasks.squad_files import Passage, Question
from seg_tf.tasks.squad_spans import SpanEncoder
from seg_tf.tasks.squad_windows import make_windows
from seg_tf.text.graph_pieces import GraphWordPieces
from seg_tf.text.graph_sentences import GraphSentenceSplitter
from seg_tf.text.punkt import SentenceSplitter
from seg_tf.training.pretrained import load_pretrained
from tests.finetuning import tiny_models
from tests.inference import commands, tiny_windows

KINDS = [kind for kind in tiny_models.KINDS if kind != "reat"]
SPLITTER = SentenceSplitter()
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


@functools.cache
def splitter():
    return GraphSentenceSplitter(SPLITTER.parameters)


@functools.cache
def windows_of(kind):
    """The windows for Keras; the place of a question is its name."""
    pretrained = pretrained_of(kind)
    passages = [
        Passage("", context, (Question(str(number), question, ()),))
        for number, (question, context) in enumerate(asked())
    ]
    return make_windows(
        passages,
        SpanEncoder(pretrained.vocabulary, pretrained.lower_case, SPLITTER),
        window_sizes(pretrained, **SIZES),
    )


def answers_of_keras(extractor, pretrained, windows, max_length, has_null, **choice):
    """What the model answers outside of the graph."""
    layout = span_layout(pretrained, max_length)
    examples = [span_example(window) for window in windows]
    batches = span_batches(
        pretrained, examples, batch_size=9, with_labels=False, max_length=max_length
    )
    logits = []
    for batch in batches:
        found = extractor.predict_on_batch(batch)
        for start, end in zip(found["start"], found["end"], strict=True):
            at = context_positions(layout, examples[len(logits)].segments)
            null = (float(start[0]), float(end[0])) if has_null else None
            logits.append(WindowLogits(start[at], end[at], null))
    return list(rank_answers(windows, logits, **choice))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_finetuning(kind):
    pretrained = pretrained_of(kind)
    windows = windows_of(kind).windows
    sizes = window_sizes(pretrained, **SIZES)
    word_pieces = GraphWordPieces(pretrained.vocabulary, pretrained.lower_case)
    questions, contexts = map(tf.constant, zip(*asked(), strict=True))
    spelled, is_cut = encode_questions(
        questions, word_pieces, sizes.max_question_pieces
    )
    assert int(tf.reduce_sum(tf.cast(is_cut, tf.int32))) == (
        windows_of(kind).num_cut_questions
    )
    encoded = GraphContextEncoder(splitter(), word_pieces)(contexts)
    found = make_graph_windows(encoded, tf.cast(spelled.row_lengths(), tf.int32), sizes)
    features, positions = span_rows(
        spelled,
        encoded,
        found,
        pretrained.vocabulary,
        index_caps(pretrained),
        "sentence_id" in tiny_models.TABLES[kind],
    )
    assert len(windows) == len(found.lengths) > 2 * len(questions)
    expected = {"windows": [], "positions": [], "is_max_context": [], "starts": []}
    expected["stops"] = []
    layout = span_layout(pretrained, sizes.max_length)
    for number, window in enumerate(windows):
        assert int(window.identifier) == found.contexts[number]
        example = span_example(window)
        expected["windows"] += [number] * len(window)
        expected["positions"].append(context_positions(layout, example.segments))
        expected["is_max_context"].append(window.is_max_context)
        expected["starts"].append(window.context.starts[window.start : window.stop])
        expected["stops"].append(window.context.stops[window.start : window.stop])
        (row,) = span_batches(
            pretrained,
            [example],
            batch_size=1,
            with_labels=False,
            max_length=sizes.max_length,
        )
        row = {name: values.numpy()[0] for name, values in row.items()}
        names = {*row} - {"candidate_positions", "candidate_mask", "can_hold_answer"}
        assert names == {*features}
        length = row["padding_mask"].sum()
        for name in names:
            in_graph = features[name][number].numpy()
            np.testing.assert_array_equal(in_graph[:length], row[name][:length], name)
            assert not in_graph[length:].any()
    first = tf.gather(encoded.texts.starts, tf.gather(found.contexts, found.windows))
    in_graph = {
        "windows": found.windows,
        "positions": positions,
        "is_max_context": found.is_max_context,
        "starts": tf.gather(encoded.starts, found.pieces) - first,
        "stops": tf.gather(encoded.stops, found.pieces) - first,
    }
    for name, values in in_graph.items():
        wanted = expected[name]
        wanted = wanted if name == "windows" else np.concatenate(wanted)
        np.testing.assert_array_equal(values, wanted, name)


@pytest.mark.parametrize(
    ("kind", "null_threshold", "num_best"),
    [
        ("bert", None, 1),
        ("bert_ps", 1.0, NUM_BEST),
        ("segabert", None, NUM_BEST),
        ("segabert_slm", -2.0, 1),
        ("slm", None, 3),
    ],
)
def test_answers_are_those_of_keras(kind, null_threshold, num_best):
    pretrained = pretrained_of(kind)
    sizes = window_sizes(pretrained, **SIZES)
    extractor = SpanExtractor.from_pretrained(pretrained, seed=1)
    # Sharp, and with a bias, so that some questions have no answer.
    extractor.span_pointer.set_weights(
        [
            9 * extractor.span_pointer.get_weights()[0],
            np.array([0.5, -0.25], np.float32),
        ]
    )
    choice = {"num_best": num_best, "max_answer_pieces": MAX_ANSWER_PIECES}
    expected = answers_of_keras(
        extractor,
        pretrained,
        windows_of(kind).windows,
        sizes.max_length,
        null_threshold is not None,
        **choice,
    )
    served = ServedExtractor(
        extractor,
        pretrained,
        splitter(),
        sizes,
        null_threshold=null_threshold,
        **choice,
    )
    questions, contexts = zip(*asked(), strict=True)
    found = served.functions["serving_default"](
        tf.constant(questions), tf.constant(contexts)
    )
    found = {name: values.numpy() for name, values in found.items()}
    close = {"rtol": 1e-5, "atol": 1e-5}
    has_null = null_threshold is not None
    for number, (context, one) in enumerate(zip(contexts, expected, strict=True)):
        best = one.candidates[0]
        answer = one.answer(null_threshold) if has_null else one.answer()
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
    if has_null:
        assert 0 < (found["answer"] == b"").sum() < len(contexts)
    assert ("n_best_answers" in found) == (num_best > 1)
    assert found["is_cut"].sum() == windows_of(kind).num_cut_questions


def test_contexts_without_a_piece_have_no_answer():
    pretrained = pretrained_of("bert_ps")
    extractor = SpanExtractor.from_pretrained(pretrained, seed=1)
    served = ServedExtractor(
        extractor,
        pretrained,
        splitter(),
        window_sizes(pretrained, **SIZES),
        num_best=2,
        null_threshold=0.0,
    )
    serve = served.functions["serving_default"]
    question = tf.constant(["w1", "w2"])
    alone = serve(question[1:], tf.constant(["W1 w2."]))
    found = serve(question, tf.constant([" \n", "W1 w2."]))
    assert found["answer"][0] == b"" and found["span"][0] == b""
    assert found["start"][0] == found["end"][0] == 0
    assert found["score"][0] == NO_SCORE
    assert found["null_odds"][0] > 1e9
    for name, values in alone.items():
        if values.dtype == tf.string:
            assert values[0].numpy().tolist() == found[name][1].numpy().tolist()
        else:
            np.testing.assert_allclose(values[0], found[name][1], atol=1e-5)
    none = serve(question, tf.constant(["", ""]))
    assert none["answer"].numpy().tolist() == [b"", b""]


def test_an_extractor_is_exported(tmp_path):
    checkpoint = tiny_windows.write_checkpoint(
        tmp_path / "segabert", tiny_windows.SEGABERT
    )
    pretrained = load_pretrained(checkpoint)
    model, output = tmp_path / "model.keras", tmp_path / "served"
    keras.utils.set_random_seed(1)
    extractor = SpanExtractor.from_pretrained(pretrained, seed=1)
    extractor.save(model)
    arguments = (
        f"--checkpoint={checkpoint}",
        f"--output_dir={output}",
        f"--finetuned_model={model}",
        "--max_question_pieces=6",
    )
    with pytest.raises(ValueError, match="`--labels` does nothing for a model that"):
        commands.run(run_export, *arguments, "--labels=a,b")
    with pytest.raises(ValueError, match="`--stride` does nothing without a"):
        commands.run(run_export, *arguments[:2], "--stride=4")
    with pytest.raises(ValueError, match="`max_length` must have room"):
        commands.run(run_export, *arguments, "--max_length=9")
    classifier = tmp_path / "classifier.keras"
    TextClassifier.from_pretrained(pretrained, 2).save(classifier)
    with pytest.raises(ValueError, match="`--num_best` does nothing for a classifier"):
        commands.run(
            run_export,
            *arguments[:2],
            f"--finetuned_model={classifier}",
            "--num_best=2",
        )
    assert not output.exists()

    commands.run(run_export, *arguments, "--null_threshold=0")
    loaded = tf.saved_model.load(str(output))
    questions, contexts = map(tf.constant, zip(*asked(), strict=True))
    found = loaded.signatures["serving_default"](question=questions, context=contexts)
    expected = ServedExtractor(
        extractor,
        pretrained,
        splitter(),
        window_sizes(pretrained, max_question_pieces=6),
        null_threshold=0.0,
    ).functions["serving_default"](questions, contexts)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if values.dtype == tf.float32:
            np.testing.assert_allclose(found[name], values, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[name], values)


def test_other_models_are_refused(tmp_path):
    pretrained = tiny_models.tiny("reat")
    with pytest.raises(ValueError, match="`pretrained` must read question and context"):
        window_sizes(pretrained)
    with pytest.raises(ValueError, match="`num_best` and .* Received: num_best=0"):
        ServedExtractor(None, pretrained, splitter(), None, num_best=0)
