"""The command that shows what a reader makes of a text."""

import json
import pathlib
import subprocess
import sys

import pytest

_REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "data_pipelines.readers", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=_REPOSITORY,
    )


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
    assert "corpus.jsonl, line 4: Expected a JSON object; at column 1" in result.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--format=markdown", "--input=/nowhere"], "error: `input_path` must exist"),
        (["--format=markdown"], "error: `input_path` must name a file"),
        (
            ["--format=wikitext", "--input=.", "--reader_options=a=b"],
            "error: Format 'wikitext'",
        ),
    ],
)
def test_says_what_is_wrong(arguments, message):
    result = run(*arguments)
    assert result.returncode == 1
    assert result.stderr.startswith(message)
