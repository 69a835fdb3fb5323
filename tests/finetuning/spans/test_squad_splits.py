"""Files of SQuAD are found and checked; what no model could answer is counted."""

import contextlib
import copy
import dataclasses
import functools
import json

import pytest

from seg_tf.finetuning.spans.squad_splits import make_split, read_split
from seg_tf.layouts.contexts import WindowSizes
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question, SquadFile
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.finetuning.tiny_models import tiny
from tests.tasks.squad.test_squad_files import V1, V2

PIECES = ["##" + letter for letter in "abcdefgh"]


@functools.cache
def pretrained():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *"abcdefgh", *PIECES, "."])
    return dataclasses.replace(tiny("segabert"), vocabulary=vocabulary)


def file_of(context, *answers, version="1.1"):
    """A file of one context and a question for each list of answers."""
    asked = [
        {
            "id": f"q{number}",
            "question": "a",
            "answers": [{"text": text, "answer_start": at} for text, at in of_question],
            **({"is_impossible": not of_question} if version != "1.1" else {}),
        }
        for number, of_question in enumerate(answers)
    ]
    paragraphs = [{"context": context, "qas": asked}]
    return {"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.fixture
def folder(tmp_path):
    def write(name, content):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
        return tmp_path

    return write


@contextlib.contextmanager
def no_bar(total, description, unit):
    class Bar:
        update = staticmethod(lambda number: None)

    yield Bar


@pytest.mark.parametrize(
    "name",
    ["train-v1.1.json", "squad/train-v1.1.json", "train-v1.1.first-12-articles.json"],
)
def test_files_are_found_by_their_names(folder, name):
    path = folder(name, V1)
    assert read_split(path, "v1.1", "train").source == str(path / name)


def test_the_official_name_goes_before_others(folder):
    folder("dev-v1.1.part.json", V2)
    path = folder("dev-v1.1.json", V1)
    assert read_split(path, "v1.1", "dev").source == str(path / "dev-v1.1.json")


def test_missing_and_ambiguous_files_are_named(folder):
    path = folder("dev-v1.1.a.json", V1)
    with pytest.raises(FileNotFoundError, match=r"hold train-v1.1.json. Received: "):
        read_split(path, "v1.1", "train")
    folder("dev-v1.1.b.json", V1)
    with pytest.raises(ValueError, match=r"one file alone.*a.json, .*b.json"):
        read_split(path, "v1.1", "dev")


@pytest.mark.parametrize(("version", "other"), [("v1.1", V2), ("v2.0", V1)])
def test_a_file_of_the_other_version_is_refused(folder, version, other):
    path = folder(f"dev-{version}.json", other)
    with pytest.raises(ValueError, match=f"a file of version {version}"):
        read_split(path, version, "dev")


def test_limits_take_the_first_questions(folder):
    content = file_of("a b c", [("a", 0)], [("b", 2)])
    content["data"] += copy.deepcopy(content["data"])
    for number, asked in enumerate(content["data"][1]["paragraphs"][0]["qas"]):
        asked["id"] = f"other{number}"
    path = folder("dev-v1.1.json", content)
    for limit, wanted in (
        (1, ["q0"]),
        (2, ["q0", "q1"]),
        (3, ["q0", "q1", "other0"]),
        (9, ["q0", "q1", "other0", "other1"]),
    ):
        data = read_split(path, "v1.1", "dev", limit)
        assert [one.identifier for one in data.questions()] == wanted
    assert len(read_split(path, "v1.1", "dev", 2).passages) == 1
    with pytest.raises(ValueError, match=r"`limit` must be at least 1. Received: li"):
        read_split(path, "v1.1", "dev", 0)


def test_what_cannot_be_trained_on_is_refused(folder):
    path = folder("train-v1.1.json", file_of("a b", []))
    with pytest.raises(ValueError, match="'q0': a question to train on must have an"):
        read_split(path, "v1.1", "train")
    path = folder("train-v1.1.json", file_of("a b"))
    with pytest.raises(ValueError, match="expected a file with questions"):
        read_split(path, "v1.1", "train")


def test_answers_to_train_on_are_moved_to_where_they_stand(folder):
    lines = []
    path = folder("train-v1.1.json", file_of("a b c", [("c", 3)]))
    (question,) = read_split(path, "v1.1", "train", report=lines.append).questions()
    assert question.answers[0].start == 4
    assert lines == [
        f"{path / 'train-v1.1.json'}: answers moved to where they stand: 1"
    ]


def counts(folder, content, max_answer_pieces=30, **sizes):
    sizes = {"max_length": 9, "stride": 3, "max_question_pieces": 1, **sizes}
    data = read_split(folder("dev-v1.1.json", content), "v1.1", "dev")
    split = make_split(data, pretrained(), WindowSizes(**sizes), no_bar)
    return split.num_without_window(), split.num_out_of_reach(max_answer_pieces)


# Windows have 5 pieces of the context and begin 3 apart: a b c d e, d e f g h.
# d is in the middle of neither and of equal context in both, so that the first counts.
@pytest.mark.parametrize(
    ("answers", "without_window", "out_of_reach"),
    [
        pytest.param([("a", 0)], 0, 0, id="in reach"),
        pytest.param([("b c d e", 2)], 0, 0, id="to the end of its window"),
        pytest.param([("b c d e f", 2)], 1, 1, id="in no window"),
        pytest.param([("d e f", 6)], 0, 1, id="starts where another shows more"),
        pytest.param([("e f g h", 8)], 0, 0, id="in the second window"),
        pytest.param([("d e f", 6), ("c", 4)], 0, 0, id="one of two"),
        pytest.param([("b c d e f", 2), ("c", 4)], 1, 0, id="trained on the first"),
    ],
)
def test_answers_across_windows(folder, answers, without_window, out_of_reach):
    found = counts(folder, file_of("a b c d e f g h", answers))
    assert found == (without_window, out_of_reach)


def test_answers_that_no_span_of_pieces_is(folder):
    # "ab" is two pieces, "a" a piece of it; "xy" is one, [UNK].
    content = file_of(
        "ab xy c", [("ab", 0)], [("a", 0)], [("xy", 3)], [("y c", 4)], [("ab xy", 0)]
    )
    assert counts(folder, content) == (0, 1)
    assert counts(folder, content, max_answer_pieces=3) == (0, 1)
    # Too long are then "ab xy" and no other.
    assert counts(folder, content, max_answer_pieces=2) == (0, 2)


def test_a_span_that_reads_as_another_answer_is_right(folder):
    # "xy" is one piece, so that "x" comes out as "xy", which somebody else said.
    assert counts(folder, file_of("xy c", [("x", 0)])) == (0, 1)
    assert counts(folder, file_of("xy c", [("x", 0), ("xy", 900)])) == (0, 0)


def test_questions_without_an_answer_are_not_out_of_reach(folder):
    content = file_of("a b c", [], [("b", 2)], version="v2.0")
    data = read_split(folder("dev-v2.0.json", content), "v2.0", "dev")
    split = make_split(data, pretrained(), WindowSizes(), no_bar)
    assert split.num_questions == 2
    assert (split.num_without_window(), split.num_out_of_reach(30)) == (0, 0)


def split_of(*passages, sizes=None):
    data = SquadFile("made", False, passages)
    sizes = sizes or WindowSizes(max_length=8, stride=2, max_question_pieces=3)
    lines = []

    @contextlib.contextmanager
    def progress(*about):
        class Bar:
            update = staticmethod(lines.append)

        lines.append(about)
        yield Bar

    return make_split(data, pretrained(), sizes, progress), lines


def test_questions_are_cut_and_counted():
    questions = (Question("q1", "a b c d e f"), Question("q2", "a b c"))
    passages = (Passage("", "A b.", questions), Passage("", "", ()))
    split, lines = split_of(*passages, Passage("", "c", (Question("q3", "a"),)))
    assert (split.num_questions, split.num_cut_questions()) == (3, 1)
    assert split.contexts() == ["A b.", "c"]
    examples = split.examples
    assert examples.windows.questions.numpy().tolist() == [0, 0, 1, 1, 2]
    assert examples.questions.pieces.to_list() == [[5, 6, 7], [5, 6, 7], [5]]
    assert examples.questions.contexts.numpy().tolist() == [0, 0, 1]
    assert lines == [(3, "made", "question"), 2, 1]


def test_of_several_answers_the_first_is_trained_on():
    answers = (Answer("d", 6), Answer("a", 0))
    passage = Passage("", "A b c d", (Question("q", "a", answers),))
    split, _ = split_of(
        passage, sizes=WindowSizes(max_length=40, max_question_pieces=9)
    )
    ((_, labels),) = split.examples.batches(1, with_labels=True)
    # [CLS] a [SEP] a b c d [SEP]
    assert [int(labels[name][0]) for name in ("start", "end")] == [6, 6]


def test_a_context_without_a_piece_is_refused():
    passage = Passage("", " \n\x07", (Question("q7", "a"),))
    with pytest.raises(ValueError, match=r"a word piece. Received: .*'q7', ' \\n"):
        split_of(Passage("", "a", (Question("q6", "a"),)), passage)
