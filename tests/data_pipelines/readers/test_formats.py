"""Properties of every format, and how a format is found."""

import gzip
import json
import pathlib
import re

import hypothesis
import pytest
from hypothesis import strategies

from data_pipelines import readers
from tests.data_pipelines.readers import helpers

SENTENCE = "This is a sentence of seven words."


def example_files(text: str) -> dict[str, str]:
    """A file in each format, of one document with one paragraph (and maybe a title)."""
    return {
        "csv": 'title,text\nT,"' + text.replace('"', '""') + '"\n',
        "json_lines": json.dumps({"text": text}) + "\n",
        "markdown": text + "\n",
        "mediawiki": "<mediawiki><page><title>T</title><ns>0</ns><id>1</id>\n<revision>"
        f"<text>{text}</text></revision></page></mediawiki>\n",
        "plain_text": text + "\n",
        "python_docs": f'"""{text}"""\n',
        "wikiextractor": f'<doc id="1" url="" title="T">\nT\n\n{text}\n\n</doc>\n',
        "wikitext": f" \n = T = \n \n {text} \n",
    }


FORMATS = list(example_files(""))


def one_document(format: str, text: str) -> bytes:
    return example_files(text)[format].encode()


def documented_reader(folder):
    """The file `letters.py` of docs/sources.md, in a folder."""
    text = pathlib.Path("docs/sources.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"A file `letters.py`:\n\n```python\n(.*?)```", text, re.S)
    (folder / "letters.py").write_text(code)


def test_formats_of_users_are_named_by_their_class(tmp_path, monkeypatch):
    documented_reader(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    post = tmp_path / "post"
    post.mkdir()
    text = "Dear Ann,\nIt rains.\n---\nDear Bob,\nIt snows.\nYours\n---\nDear Cy,"
    (post / "a.letters.gz").write_bytes(gzip.compress(text.encode()))
    (post / "b.txt").write_text("no letter")
    reader = readers.get_reader("letters:Reader", greeting="false")
    items = list(reader.read_input(post))
    assert helpers.reasons(items) == ["", "", "empty_document"]
    assert items[1].paragraphs == ("It snows.", "Yours")
    assert [item.location for item in items] == [f"letter {n}" for n in (1, 2, 3)]
    assert readers.options_of("letters:Reader")["greeting"] == "true"
    with pytest.raises(ValueError, match=r"'letters:Reader' has the options.*'shout'"):
        readers.get_reader("letters:Reader", shout="true")
    (tmp_path / "letters.py").unlink()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("word", {}, r"`format`.*'wikitext'.*Received: 'word'"),
        ("no_such_module:Reader", {}, "`format` must be .*No module named 'no_such_m"),
        ("json:Reader", {}, "`format` must be .*Received: 'json:Reader'"),
        (
            "json:JSONDecoder",
            {},
            "`format` must name a dataclass that is a subclass of",
        ),
        ("csv", {"titles": True}, r"'title_field'.*Received: \['titles'\]"),
        ("csv", {"quotes": "x"}, r"true or false. Received: 'x'"),
        ("csv", {"delimiter": "comma"}, "`delimiter` must be a character, or tab"),
        ("csv", {"encoding": "rot13"}, "`encoding` must be one of Python's"),
    ],
)
def test_wrong_formats_and_options_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        readers.get_reader(name, **options)


@pytest.mark.parametrize("format", FORMATS)
class TestEveryFormat:
    def test_reads_its_one_document(self, tmp_path, format):
        (document,) = helpers.read_bytes(
            tmp_path, format, one_document(format, SENTENCE)
        )
        assert document.paragraphs[-1] == SENTENCE
        assert document.source == "file"
        assert document.num_characters == sum(len(p) for p in document.paragraphs)

    def test_empty_file_is_rejected(self, tmp_path, format):
        (item,) = helpers.read_bytes(tmp_path, format, b"")
        assert item.reason == "empty_file"

    @hypothesis.given(
        position=strategies.integers(0, 60),
        length=strategies.integers(0, 4),
        data=strategies.sampled_from(
            # What each format, or text in general, may stumble over.
            rb"|\r|\n|\n\n|&#10;|&#13;|&#0;|<br>|\u2028|\x85|\0|</doc>|<doc |= | \n = "
            rb"|*|_|`|[|](|```\n|> |# |{|}|'|\\|\\ud800|\\u0000|\\n".decode(
                "unicode_escape"
            ).split("|")
        ),
    )
    @hypothesis.settings(
        max_examples=100,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
    )
    @hypothesis.example(position=26, length=0, data="&#10;")
    def test_any_damage_gives_documents_or_rejections(
        self, tmp_path, format, position, length, data
    ):
        file = one_document(format, SENTENCE) * 2
        file = file[:position] + data.encode() + file[position + length :]
        self.check(helpers.read_bytes(tmp_path, format, file))

    def check(self, items):
        for item in items:
            if isinstance(item, readers.RejectedDocument):
                assert item.reason.replace("_", "").isalnum()
                assert item.location
                assert item.message.endswith(".")
                continue
            assert item.paragraphs
            for paragraph in item.paragraphs:
                assert paragraph == paragraph.strip() != ""
                assert not {"\n", "\r", "\0"}.intersection(paragraph)
                paragraph.encode("utf-8")


def test_options_have_the_form_of_flags():
    options = readers.options_of("csv")
    assert options["quotes"] == "true"
    # What is listed can be given.
    assert readers.get_reader("csv", **options) == readers.get_reader("csv")
    assert readers.parse_options(["a=b", "c=d=e", "f="]) == {
        **{"a": "b", "c": "d=e", "f": ""}
    }
    with pytest.raises(ValueError, match=r"name=value.*'quotes'"):
        readers.parse_options(["quotes"])
