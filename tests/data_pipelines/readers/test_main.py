"""The command that shows what a reader makes of a text."""

import json

import pytest

from tests import command_calls


def run(*arguments):
    return command_calls.call("readers", *arguments)


@pytest.fixture
def corpus(tmp_path):
    lines = [json.dumps({"body": f"Document {number}.\nMore."}) for number in range(50)]
    lines[3] = "broken"
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_shows_documents_counts_and_rejections(corpus):
    result = run(
        "--format=json_lines", f"--input={corpus}", "--reader_options=text_field=body"
    )
    assert result.returncode == 0, result.stderr
    assert "=== corpus.jsonl, line 3" in result.stdout
    assert "line 5" not in result.stdout, "three documents are shown"
    result = run(
        "--format=json_lines",
        f"--input={corpus}/*",
        "--reader_options=text_field=body",
        "--num_documents=10",
        "--sample_seed=1",
    )
    assert result.stdout.count("=== corpus.jsonl") == 10
    assert "Read: 49 documents, 98 paragraphs, 147 words" in result.stdout
    assert "Rejected: 1 {'malformed_json': 1}" in result.stdout
    assert "corpus.jsonl, line 4: Expected a JSON object, found" in result.stdout


def test_output_has_a_document_a_line(corpus):
    (corpus / "more").mkdir()
    record = json.dumps({"body": "Zwölf\u2028Zeilen.\r\n\r\nEnde."})
    (corpus / "more" / "other.jsonl").write_text(record)
    arguments = (
        "--format=json_lines",
        f"--input={corpus}",
        "--reader_options=text_field=body",
    )
    result = run(*arguments, f"--output={corpus / 'all.jsonl'}")
    assert result.returncode == 0, result.stderr
    assert "Read: 50 documents, 100 paragraphs" in result.stdout
    assert "Rejected: 1 {'malformed_json': 1}" in result.stdout
    documents = [
        [f"Document {number}.", "More."] for number in range(50) if number != 3
    ]
    # U+2028 is no line end here, and it must not become one.
    documents.append(["Zwölf\u2028Zeilen.", "Ende."])
    lines = (corpus / "all.jsonl").read_text("utf-8").split("\n")[:-1]
    assert [json.loads(line)["text"].split("\n") for line in lines] == documents
