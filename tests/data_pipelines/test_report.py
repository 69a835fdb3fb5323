"""The report: its figures against slow ones, and that text stays text."""

import json
import math
import random
import re

import numpy as np
import pytest

from data_pipelines import report
from data_pipelines.builds.windows import WindowOptions, build_windows
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.report import CAPS, measure
from seg_tf.data.manifest import Manifest
from tests import command_calls
from tests.data_pipelines.builders import read_all
from tests.data_pipelines.cleaning import corpora

pytestmark = pytest.mark.slow

NASTY = "<script>alert(1)</script> & <img src=http://x/>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The corpus of the cleaning tests, and documents that exceed every cap."""
    folder = tmp_path_factory.mktemp("corpus")
    corpora.write(folder)
    generator = random.Random(5)
    long_texts = [
        [f"the man came {number} ." for number in range(130)],
        ["the ship sailed . " * 140, "a man ."],
        [" ".join(generator.choice(corpora.WORDS) for _ in range(400))] * 3,
        [NASTY],
    ]
    lines = [json.dumps({"text": "\n".join(lines)}) for lines in long_texts]
    (folder / "text" / "part-9.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    """Records of it, with short documents cleaned away."""
    output_dir = tmp_path_factory.mktemp("records")
    options = CleaningOptions(min_document_words=6)
    corpora.build(corpus, output_dir / "documents", options)
    window_options = WindowOptions(window_length=64)
    build_windows(window_options, output_dir / "documents", output_dir)
    return output_dir


def slow_windows(tree, capacity):
    """First and end piece of each window: whole sentences while they fit."""
    ends = np.cumsum(tree.sentence_lengths).tolist()
    begin = 0
    while begin < ends[-1]:
        fitting = [end for end in ends if begin < end <= begin + capacity]
        end = fitting[-1] if fitting else begin + capacity
        yield begin, end
        begin = end


def test_the_page_is_one_sound_file_and_text_stays_text(built, tmp_path):
    report.write_report(built, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert not re.search("<(script|img|link|iframe)", text)
    for link in re.findall('href="(.*?)"', text):
        assert f'id="{link.removeprefix("#")}"' in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;img" in text
    assert "url(" not in text
    for content in ("malformed_json", "short_documents", "windows of 64"):
        assert content in text
    assert f">{Manifest.load(built).count('records'):,}</td>" in text
    report.write_report(built, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == text


@pytest.mark.parametrize("window_length", [128, 512, 2048])
def test_padding_equals_plain_loops(built, window_length):
    lengths = [
        end - begin + 2
        for tree in read_all(built / "documents")
        for begin, end in slow_windows(tree, window_length - 2)
    ]
    measurements = measure(built / "documents", 1000)
    assert measurements.windows[window_length].tolist() == lengths
    found = measurements.padding(window_length)
    assert math.isclose(found, 1 - sum(lengths) / (len(lengths) * window_length))


def test_lengths_and_indices_equal_plain_python(built):
    trees = read_all(built / "documents")
    over_cap, num_tokens = dict.fromkeys(CAPS, 0), 0
    for tree in trees:
        sentence = 0
        for paragraph, num_sentences in enumerate(tree.paragraph_lengths):
            for number in range(num_sentences):
                for token in range(tree.sentence_lengths[sentence]):
                    num_tokens += 1
                    over_cap["paragraph_index"] += paragraph >= 50
                    over_cap["sentence_index"] += number >= 100
                    over_cap["token_index"] += token >= 256
                sentence += 1
    measurements = measure(built / "documents", 1000)
    assert all(over_cap.values())
    assert measurements.over_cap == over_cap
    assert measurements.num_tokens == num_tokens
    lengths = {name: list(values) for name, values in measurements.lengths.items()}
    assert lengths == {
        "paragraphs a document": [len(tree.paragraph_lengths) for tree in trees],
        "sentences a paragraph": [n for t in trees for n in t.paragraph_lengths],
        "pieces a sentence": [n for tree in trees for n in tree.sentence_lengths],
        "pieces a document": [len(tree.token_ids) for tree in trees],
    }
    first, again = (measure(built / "documents", 20) for _ in range(2))
    assert first == again
    assert first.num_documents == 20
    assert first.num_all_documents == Manifest.load(built).count("documents")


def test_windows_of_other_documents_are_refused(built, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"`documents_dir` must .* other windows"):
        report.write_report(built, tmp_path / "page.html", documents_dir=built)
    assert not (tmp_path / "page.html").exists()
    result = command_calls.call(
        *("build-windows", f"--documents_dir={built / 'documents'}"),
        *(f"--output_dir={tmp_path / 'windows'}", "--window_length=64", "--report"),
    )
    assert result.returncode == 0, result.stderr
    assert f"the report is {tmp_path / 'windows/report.html'}" in result.stdout
    # At a URL, the documents are found next to the windows.
    arguments = (f"--records_dir=file://{built}", f"--output={tmp_path / 'page.html'}")
    assert command_calls.call("report", *arguments).returncode == 0
