"""Windows hold what BERT's do, keep their place in the tree, and lose nothing."""

import collections
import random

import numpy as np
import pytest

from seg_tf.tasks.squad import squad_files
from seg_tf.tasks.squad import windows as squad_windows
from seg_tf.tasks.squad.spans import EncodedContext, SpanEncoder
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question
from seg_tf.tasks.squad.windows import WindowSizes, make_windows
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests import official_models
from tests.sample_data import sample_data

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENCODER = SpanEncoder(Vocabulary([*SPECIAL_TOKENS, *LETTERS, ".", "?"]))


def context_of(*paragraphs):
    """A context of sentences with so many pieces each."""
    lengths = [length for paragraph in paragraphs for length in paragraph]
    num_pieces = sum(lengths)
    return EncodedContext(
        text="x" * num_pieces,
        token_ids=np.arange(num_pieces, dtype=np.int32),
        starts=np.arange(num_pieces),
        stops=np.arange(num_pieces) + 1,
        sentence_bounds=np.append(0, np.cumsum(lengths)),
        paragraph_index=np.repeat(
            np.arange(len(paragraphs)) + 1, [len(one) for one in paragraphs]
        ),
        sentence_index=np.concatenate([np.arange(len(one)) for one in paragraphs]),
    )


def naive_bounds(sentence_of, sizes, num_question_pieces):
    """A piece after the other goes into a window until one does not fit."""
    bounds, start = [], 0
    while True:
        stop = start
        while stop < len(sentence_of):
            sentences = set(sentence_of[start : stop + 1])
            length = (
                sizes.num_special_tokens
                + num_question_pieces
                + (stop + 1 - start)
                + sizes.tokens_per_sentence * (1 + len(sentences))
            )
            if length > sizes.max_length:
                break
            if sizes.max_sentences and 1 + len(sentences) > sizes.max_sentences:
                break
            stop += 1
        bounds.append((start, stop))
        if stop == len(sentence_of):
            return bounds
        start = min(start + sizes.stride, stop)


SIZES = {
    "BERT": {"max_length": 12, "stride": 4, "max_question_pieces": 5},
    "no overlap": {"max_length": 12, "stride": 400, "max_question_pieces": 5},
    "[SENT]": {
        "max_length": 14,
        "stride": 3,
        "max_question_pieces": 5,
        "num_special_tokens": 2,
        "tokens_per_sentence": 1,
    },
    "few sentences": {
        "max_length": 30,
        "stride": 6,
        "max_question_pieces": 5,
        "num_special_tokens": 2,
        "tokens_per_sentence": 1,
        "max_sentences": 3,
    },
    "a sentence a window": {"max_length": 70, "stride": 9, "max_sentences": 2},
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_windows_equal_the_naive_ones(sizes):
    sizes = WindowSizes(**sizes)
    draw = random.Random(1)
    for _ in range(60):
        paragraphs = [
            [draw.choice([1, 1, 2, 5, 13]) for _ in range(draw.randint(1, 4))]
            for _ in range(draw.randint(1, 4))
        ]
        context = context_of(*paragraphs)
        of_sentence = np.diff(context.sentence_bounds)
        sentence_of = np.repeat(np.arange(len(of_sentence)), of_sentence).tolist()
        for num_question_pieces in (0, 3, 5):
            bounds = squad_windows.window_bounds(context, sizes, num_question_pieces)
            assert bounds == naive_bounds(sentence_of, sizes, num_question_pieces)
            covered = {piece for bound in bounds for piece in range(*bound)}
            assert covered == set(range(len(sentence_of)))


def test_bounds_and_best_windows_are_those_of_berts_code():
    official = official_models.squad_library()
    words = [letter * 2 for letter in LETTERS]
    vocabulary = {word: at for at, word in enumerate(["[CLS]", "[SEP]", *words])}

    class Tokenizer:
        """One piece a word."""

        def tokenize(self, text):
            return text.split()

        def convert_tokens_to_ids(self, tokens):
            return [vocabulary[token] for token in tokens]

    draw = random.Random(2)
    for _ in range(30):
        num_words, first = draw.randint(1, 90), draw.randint(0, 89)
        text = draw.choices(words, k=num_words)
        question = draw.choices(words, k=draw.randint(1, 12))
        first = min(first, num_words - 1)
        last = min(first + draw.randint(0, 5), num_words - 1)
        example = official.SquadExample(
            qas_id="q",
            question_text=" ".join(question),
            doc_tokens=text,
            orig_answer_text=" ".join(text[first : last + 1]),
            start_position=first,
            end_position=last,
        )
        length, stride = draw.randint(14, 40), draw.randint(1, 20)
        features = []
        official.convert_examples_to_features(
            [example], Tokenizer(), length, stride, 8, True, features.append
        )
        sizes = WindowSizes(max_length=length, stride=stride, max_question_pieces=8)
        num_question_pieces = min(len(question), 8)
        bounds = squad_windows.window_bounds(
            context_of([num_words]), sizes, num_question_pieces
        )
        best = squad_windows.max_context(bounds)
        before = num_question_pieces + 2
        assert len(features) == len(bounds)
        for (start, stop), is_best, feature in zip(bounds, best, features, strict=True):
            assert feature.tokens[before:-1] == text[start:stop]
            assert feature.token_is_max_context == {
                before + at: bool(flag) for at, flag in enumerate(is_best)
            }
            # The official code may mark an equal answer that stands elsewhere.
            if not feature.is_impossible:
                assert start <= first <= last < stop
        assert np.sum(np.concatenate(best)) == num_words


def words(text):
    """A piece a letter: "ab." is "a b ."."""
    return " ".join(text)


def test_a_window_keeps_its_place_in_the_tree():
    context = "\n".join(["A b c d? E f g h i j?", "K l m."])
    answer = Answer("i j?\nK", context.index("i"))
    passage = Passage("", context, (Question("q", "x y z", (answer,)),))
    sizes = WindowSizes(max_length=14, stride=4, max_question_pieces=4)
    made = make_windows([passage], ENCODER, sizes)
    # Pieces: a b c d ? | e f g h i j ? || k l m .
    seen = [
        (
            *(window.start, window.stop),
            window.sentence_lengths.tolist(),
            window.paragraph_index.tolist(),
            window.sentence_index.tolist(),
            window.first_token_index.tolist(),
            *(window.answer, window.answer_sentence),
        )
        for window in made.windows
    ]
    assert seen == [
        (0, 8, [5, 3], [1, 1], [0, 1], [0, 0], None, None),
        (4, 12, [1, 7], [1, 1], [0, 1], [4, 0], None, None),
        (8, 16, [4, 4], [1, 2], [1, 0], [3, 0], (1, 4), 0),
    ]
    window = made.windows[2]
    assert len(window) == 8
    assert window.text_of(*window.answer) == "i j?\nK"
    tokens = [LETTERS[one - 5] for one in window.question_ids]
    assert tokens == ["x", "y", "z"]
    assert window.token_ids.tolist() == window.context.token_ids[8:16].tolist()
    assert (made.num_questions, made.num_cut_questions) == (1, 0)


def test_every_piece_may_begin_an_answer_in_one_window():
    # At 5 there are 2 pieces to one side in both, and the windows are as long.
    flags = squad_windows.max_context([(0, 8), (3, 11)])
    assert [flag.astype(int).tolist() for flag in flags] == [
        [1, 1, 1, 1, 1, 1, 0, 0],
        [0, 0, 0, 1, 1, 1, 1, 1],
    ]
    # At 3 there is 1 in both, and the second window is longer.
    flags = squad_windows.max_context([(0, 5), (2, 10)])
    assert [flag.astype(int).tolist() for flag in flags] == [
        [1, 1, 1, 0, 0],
        [0, 1, 1, 1, 1, 1, 1, 1],
    ]


def test_questions_are_cut_and_counted():
    passage = Passage(
        "", "A b.", (Question("q1", words("abcdef")), Question("q2", words("abc")))
    )
    sizes = WindowSizes(max_length=8, stride=2, max_question_pieces=3)
    progress = []
    made = make_windows([passage, Passage("", "", ())], ENCODER, sizes, progress.append)
    assert (made.num_questions, made.num_cut_questions) == (2, 1)
    assert [window.identifier for window in made.windows] == ["q1", "q1", "q2", "q2"]
    first, *_, last = made.windows
    assert first.question_ids.tolist() == last.question_ids.tolist() == [5, 6, 7]
    assert first.context is last.context
    assert first.answer is None
    assert progress == [2]


def test_of_several_answers_the_first_is_marked():
    answers = (Answer("d", 6), Answer("a", 0))
    passage = Passage("", "A b c d", (Question("q", "x", answers),))
    (window,) = make_windows([passage], ENCODER, WindowSizes()).windows
    assert window.answer == (3, 3)
    assert window.is_max_context.all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stride": 0}, "`stride` must be at least 1. Received: stride=0"),
        ({"max_question_pieces": 0}, "`max_question_pieces` must be at least 1"),
        ({"num_special_tokens": -1}, "`num_special_tokens` must be at least 0"),
        ({"tokens_per_sentence": -1}, "`tokens_per_sentence` must be at least 0"),
        ({"max_sentences": 1}, "`max_sentences` must be at least 2"),
        ({"max_length": 67}, "`max_length` must have room .* max_length=67"),
        ({"max_length": 68, "tokens_per_sentence": 1}, "tokens_per_sentence=1"),
    ],
)
def test_sizes_without_room_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        WindowSizes(**arguments)


def test_the_smallest_room_is_enough():
    assert WindowSizes(max_length=68).room(64) == 1
    sizes = WindowSizes(max_length=70, tokens_per_sentence=1)
    assert sizes.room(64) == 2
    bounds = squad_windows.window_bounds(context_of([2], [1]), sizes, 64)
    assert bounds == [(0, 1), (1, 2), (2, 3)]


def test_a_context_without_a_piece_is_refused():
    passage = Passage("", " \n\x07", (Question("q7", "x"),))
    with pytest.raises(ValueError, match=r"a word piece. Received: .*'q7', ' \\n"):
        make_windows([passage], ENCODER, WindowSizes())


@pytest.mark.parametrize(
    "sizes",
    [
        WindowSizes(),
        WindowSizes(
            max_length=256,
            stride=64,
            num_special_tokens=2,
            tokens_per_sentence=1,
            max_sentences=8,
        ),
    ],
    ids=["BERT", "[SENT]"],
)
def test_windows_of_real_questions(sizes):
    path = sample_data("bert_vocab", "bert-base-uncased-vocab.txt")
    data = squad_files.read(sample_data("squad", "dev-v1.1.reconstructed.json"))
    passages = data.passages[::8]
    made = make_windows(passages, SpanEncoder(Vocabulary.from_file(path)), sizes)
    of_question = collections.defaultdict(list)
    for window in made.windows:
        of_question[window.identifier].append(window)
        sentences = len(window.sentence_lengths)
        num_tokens = (
            len(window.question_ids)
            + len(window)
            + sizes.num_special_tokens
            + sizes.tokens_per_sentence * (1 + sentences)
        )
        assert num_tokens <= sizes.max_length
        assert sentences < (sizes.max_sentences or 100)
        assert window.sentence_lengths.sum() == len(window)
        assert (window.sentence_lengths > 0).all()
    num_whole = 0
    for passage in passages:
        for question in passage.questions:
            windows = of_question.pop(question.identifier)
            seen = np.zeros(len(windows[0].context.token_ids), int)
            for window in windows:
                seen[window.start : window.stop] += window.is_max_context
            assert (seen == 1).all()
            texts = [one.text_of(*one.answer) for one in windows if one.answer]
            assert all(question.answers[0].text in text for text in texts)
            num_whole += bool(texts)
    assert not of_question
    assert num_whole / made.num_questions > 0.99
