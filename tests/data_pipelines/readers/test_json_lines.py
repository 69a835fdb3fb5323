"""JSON lines: documents, and each way a line can be wrong."""

import gzip
import json

import pytest

from data_pipelines import readers
from tests.data_pipelines.readers import helpers
from tests.sample_data import sample_data

GOOD = {"text": "Good."}


def read(folder, *lines, **options):
    """Reads lines, of which those that are no strings are written as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return helpers.read_text(
        folder, "json_lines", "".join(f"{text}\n" for text in texts), **options
    )


def test_line_ends_in_the_text_separate_paragraphs(tmp_path):
    first, second = read(
        tmp_path,
        {"text": " One.\nTwo  words.\r\n\n \nThree.\rFour.", "url": "u"},
        {"text": "\u00e9\u2028 \U0001f600", "title": " A\n title "},
    )
    assert first.paragraphs == ("One.", "Two  words.", "Three.", "Four.")
    assert (first.location, first.title) == ("line 1", "")
    assert second.paragraphs == ("\u00e9\u2028 \U0001f600",)
    assert (second.location, second.title) == ("line 2", "A title")


@pytest.mark.parametrize(
    "record",
    [
        {"a.b.c": "Own.", "a": {"b": {"c": "No."}}, "a.b": {"c": "No."}},
        {"a": {"b.c": "Own.", "b": {"c": "No."}}},
    ],
)
def test_a_field_whose_name_has_dots_comes_first(tmp_path, record):
    (document,) = read(tmp_path, record, text_field="a.b.c")
    assert document.paragraphs == ("Own.",)


def test_lists_and_missing_inner_fields(tmp_path):
    items = read(tmp_path, {"a": {"b": "x"}}, {"a": "x"}, text_field="a.c")
    assert helpers.reasons(items) == ["missing_text_field"] * 2
    assert "found only ['a', 'a.b']." in items[0].message
    lists = [{"text": ["One.", " \n", "Two.\nThree."]}, {"text": []}]
    first, second = read(tmp_path, *lists)
    assert first.paragraphs == ("One.", "Two.", "Three.")
    assert second.reason == "empty_document"


@pytest.mark.parametrize(
    "line, reason, message",
    [
        ('{"text": "a" "b"}', "malformed_json", "Expecting ',' delimiter: line 1"),
        ("Some text.", "malformed_json", "column 1"),
        (f'{{"text": "a", "n": {"1" * 5000}}}', "malformed_json", "Exceeds the limit"),
        ('{"text": ' + "[" * 100_000, "malformed_json", "recursion"),
        ("null", "not_an_object", "found 'null'"),
        ('{"url": "u", "body": "b"}', "missing_text_field", "only ['body', 'url']."),
        ('{"text": ["a", 1]}', "text_not_a_string", "'text', found 1."),
        ('{"text": null}', "text_not_a_string", "found None"),
        ('{"text": " \\n "}', "empty_document", "found none"),
        ('{"text": "a\\u0000b"}', "no_character", "the escape \\u0000"),
        ('{"text": "a\\ud83d"}', "no_character", "\\ud83d."),
        ('{"text": "a", "title": "\\uDE00"}', "no_character", "\\ude00"),
    ],
)
def test_bad_line_costs_one_document(tmp_path, line, reason, message):
    before, rejected, after = read(tmp_path, GOOD, line, GOOD)
    assert before.paragraphs == after.paragraphs == ("Good.",)
    assert (rejected.source, rejected.location) == ("file", "line 2")
    assert rejected.reason == reason
    assert message in rejected.message
    assert after.location == "line 3"


@pytest.mark.parametrize("value", [[{"text": "a"}, {"text": "b"}], {"text": "a"}])
def test_json_of_another_layout_is_rejected_whole(tmp_path, value):
    text = json.dumps(value, indent=2)
    (item,) = helpers.read_text(tmp_path, "json_lines", "\n" + text)
    assert (item.reason, item.location) == ("not_json_lines", "line 2")
    assert "`jq -c" in item.message


class TestC4:
    def test_830_documents_with_the_paragraphs_of_a_plain_loop(self):
        folder = sample_data("c4")
        items = list(readers.get_reader("json_lines").read_input(folder))
        expected = []
        for path in sorted(folder.glob("*.json.gz")):
            for line in gzip.decompress(path.read_bytes()).decode().split("\n"):
                if line:
                    text = json.loads(line)["text"]
                    expected.append([p.strip() for p in text.split("\n") if p.strip()])
        assert helpers.paragraphs(items) == expected
        assert len(expected) == 830
