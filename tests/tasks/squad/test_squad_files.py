"""SQuAD files are read whole, or refused by name."""

import copy
import json

import pytest

from seg_tf.tasks.squad import squad_files
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question
from tests.sample_data import sample_data

V1 = {
    "version": "1.1",
    "data": [
        {
            "title": "Rhine",
            "paragraphs": [
                {
                    "context": "The Rhine is long.\nIt is 1,233 km long.",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "How long? ",
                            "answers": [
                                {"text": "1,233 km", "answer_start": 25},
                                {"text": "long", "answer_start": 13},
                            ],
                        }
                    ],
                }
            ],
        }
    ],
}
V2 = {
    "version": "v2.0",
    "data": [
        {
            "title": "Rhine",
            "paragraphs": [
                {
                    "context": "It is long.",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "How wide?",
                            "answers": [],
                            "plausible_answers": [{"text": "long", "answer_start": 6}],
                            "is_impossible": True,
                        }
                    ],
                }
            ],
        }
    ],
}


def write(folder, content):
    path = folder / "squad.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def changed(content, change):
    """A copy, after `change` of its paragraph and its question."""
    content = copy.deepcopy(content)
    paragraph = content["data"][0]["paragraphs"][0]
    change(paragraph, paragraph["qas"][0])
    return content


def test_version_1_is_read(tmp_path):
    path = write(tmp_path, V1)
    data = squad_files.read(path)
    answers = (Answer("1,233 km", 25), Answer("long", 13))
    question = Question("q1", "How long? ", answers)
    context = "The Rhine is long.\nIt is 1,233 km long."
    assert data.passages == (Passage("Rhine", context, (question,)),)
    assert not data.has_impossible
    assert data.source == str(path)
    assert answers[0].stop == 33


def test_version_2_is_read(tmp_path):
    data = squad_files.read(write(tmp_path, V2))
    assert data.has_impossible
    assert list(data.questions()) == [
        Question("q1", "How wide?", (), True, (Answer("long", 6),))
    ]


def test_a_file_without_a_version_is_known_by_its_questions(tmp_path):
    for content, expected in ((V1, False), (V2, True)):
        content = {"data": content["data"]}
        assert squad_files.read(write(tmp_path, content)).has_impossible is expected


def test_a_file_to_be_answered_needs_no_answers(tmp_path):
    content = changed(V1, lambda paragraph, asked: asked.pop("answers"))
    data = squad_files.read(write(tmp_path, content))
    (question,) = data.questions()
    assert question.answers == ()
    with pytest.raises(ValueError, match=r"squad.json: question 'q1': .*neither"):
        squad_files.check_answered(data)


def test_answered_and_impossible_questions_can_be_trained_on(tmp_path):
    for content in (V1, V2):
        squad_files.check_answered(squad_files.read(write(tmp_path, content)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, asked: asked.pop("question"), r"question 'q1': .*`question`.*id, "),
        (lambda _, asked: asked.update(question=7), r"'q1': `question` .* string.* 7"),
        (
            lambda _, asked: asked.pop("id"),
            r"1 \(Rhine\), paragraph 1, question 1.*`id",
        ),
        (
            lambda one, _: one.pop("context"),
            r"article 1 \(Rhine\), paragraph 1.*`conte",
        ),
        (lambda one, _: one.update(qas={}), r"paragraph 1: `qas` must be a JSON array"),
        (
            lambda _, asked: asked.update(answers=["x"]),
            r"'q1': expected an object.*'x'",
        ),
        (
            lambda _, asked: asked.update(answers=[{"text": "x", "answer_start": "3"}]),
            r"'q1': `answer_start` must be a JSON integer. Received: '3'",
        ),
        (
            lambda _, asked: asked.update(
                answers=[{"text": "x", "answer_start": True}]
            ),
            r"'q1': `answer_start` must be a JSON integer. Received: True",
        ),
        (
            lambda _, asked: asked.update(answers=[{"text": "x", "answer_start": -1}]),
            r"'q1': `answer_start` must be at least 0. Received: -1",
        ),
        (
            lambda _, asked: asked.update(is_impossible=True),
            r"'q1': an impossible question must have no `answers`.*'1,233 km'",
        ),
        (lambda _, asked: asked.update(is_impossible="no"), r"JSON boolean.*'no'"),
        (
            lambda one, asked: one["qas"].append(asked),
            r"question 'q1' occurs twice",
        ),
    ],
)
def test_an_error_names_file_and_place(tmp_path, change, message):
    path = write(tmp_path, changed(V1, change))
    with pytest.raises(ValueError, match=message) as caught:
        squad_files.read(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1, 2]", r"squad.json: expected an object with `data`.*\[1, 2\]"),
        (b'{"data": [{"title": "x"', r"squad.json:1:\d+: not valid JSON"),
        (b'{"version": "\xff"}', r"squad.json: expected UTF-8, found byte 0xFF.* 13"),
        (b"{}", r"squad.json: expected a member `data`. Received: none"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, content, message):
    path = tmp_path / "squad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        squad_files.read(path)
    with pytest.raises(OSError, match="absent"):
        squad_files.read(tmp_path / "absent.json")


def move(start):
    return lambda _, asked: asked["answers"][1].update(answer_start=start)


# "long" stands at 13 and at 34.
@pytest.mark.parametrize(
    ("start", "expected", "num_moved"),
    [
        *[(13, 13, 0), (34, 34, 0), (14, 13, 1), (12, 13, 1), (0, 13, 1)],
        *[(23, 13, 1), (24, 34, 1), (400, 34, 1)],
    ],
)
def test_answers_move_to_the_nearest_place(tmp_path, start, expected, num_moved):
    data = squad_files.read(write(tmp_path, changed(V1, move(start))))
    aligned, count = squad_files.align(data)
    (question,) = aligned.questions()
    assert [answer.start for answer in question.answers] == [25, expected]
    assert count == num_moved
    # What was read is as it was read.
    assert next(data.questions()).answers[1].start == start


def test_an_answer_that_stands_nowhere_is_refused(tmp_path):
    data = squad_files.read(
        write(
            tmp_path,
            changed(V1, lambda _, asked: asked["answers"][1].update(text="LONG")),
        )
    )
    with pytest.raises(ValueError, match=r"squad.json: question 'q1': .*'LONG'"):
        squad_files.align(data)


@pytest.mark.parametrize(
    ("name", "num_passages", "num_questions", "num_impossible"),
    [
        ("dev-v1.1.reconstructed.json", 2067, 10_570, 0),
        ("dev-v2.0.reconstructed.json", 1204, 11_873, 5945),
        ("cs224n_dev-v2.0.16-articles.json", 646, 6078, 3168),
        ("train-v1.1.first-12-articles.json", 678, 4370, 0),
    ],
)
def test_real_files_are_read_whole(name, num_passages, num_questions, num_impossible):
    data = squad_files.read(sample_data("squad", name))
    assert data.has_impossible == (num_impossible > 0)
    assert len(data.passages) == num_passages
    questions = list(data.questions())
    assert len(questions) == num_questions
    assert sum(question.is_impossible for question in questions) == num_impossible
    assert all(bool(one.answers) != one.is_impossible for one in questions)
    aligned, num_moved = squad_files.align(data)
    assert num_moved == 0
    assert aligned == data
