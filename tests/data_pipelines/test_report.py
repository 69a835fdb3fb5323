"""The report: its figures against slow ones, and that text stays text."""

import html.parser
import itertools
import json
import math
import random
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from data_pipelines import command_flags
from data_pipelines.builds.windows import WindowOptions, build_windows
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.report import page
from data_pipelines.report.measurements import CAPS, LengthCounts, measure
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


@pytest.mark.parametrize("window_length", [128, 512, 2048])
def test_padding_and_capped_paragraphs_equal_plain_loops(built, window_length):
    lengths, slid, clamped = [], 0, 0
    cap = CAPS["paragraph_index"]
    for tree in read_all(built / "documents"):
        paragraphs = tree.indices()["paragraph_index"]
        for begin, end in slow_windows(tree, window_length - 2):
            lengths.append(end - begin + 2)
            true = paragraphs[begin:end]
            lowered = true - min(max(true[-1] - (cap - 1), 0), true[0])
            slid += np.sum(lowered != true)
            clamped += np.sum(lowered >= cap)
    counts = measure(built / "documents", 1000).windows[window_length]
    assert counts.lengths.tolist() == lengths
    used = sum(lengths)
    assert math.isclose(counts.padding, 1 - used / (len(lengths) * window_length))
    # No row exceeds its length, and packing is not worse than none.
    least = 1 - used / (math.ceil(used / window_length) * window_length)
    assert least <= counts.packed_padding + 1e-9
    assert counts.packed_padding <= counts.padding
    assert (counts.pieces_slid, counts.pieces_clamped) == (slid, clamped)
    assert clamped > 0 or window_length < 512
    assert slid > 0 or window_length > 256


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
    expected = {
        "paragraphs a document": [len(tree.paragraph_lengths) for tree in trees],
        "sentences a paragraph": [n for t in trees for n in t.paragraph_lengths],
        "pieces a sentence": [n for tree in trees for n in tree.sentence_lengths],
        "pieces a document": [len(tree.token_ids) for tree in trees],
    }
    assert list(measurements.lengths) == list(expected)
    for name, lengths in expected.items():
        counts = measurements.lengths[name]
        assert counts.number == len(lengths)
        assert math.isclose(counts.mean, sum(lengths) / len(lengths))
        assert counts.longest == max(lengths)
        for share in (0.5, 0.95):
            rank = math.ceil(share * len(lengths)) - 1
            assert counts.quantile(share) == sorted(lengths)[rank]
        for first, last, count in counts.binned():
            assert count == sum(first <= length <= last for length in lengths)
        assert sum(count for _, _, count in counts.binned()) == len(lengths)


def test_bins_join_and_cover_all_lengths():
    counts = LengthCounts()
    counts.add(np.array([1, 3, 3, 5, 100]))
    bins = counts.binned()
    assert [first for first, _, _ in bins[:7]] == [1, 2, 3, 4, 6, 8, 12]
    assert bins[-1] == (96, 127, 1)
    for (_, last, _), (first, _, _) in itertools.pairwise(bins):
        assert first == last + 1
    counts = LengthCounts()
    counts.add(np.array([40]))
    assert counts.binned() == [(32, 47, 1)]


def test_a_sample_has_the_requested_size_and_is_repeatable(built):
    first, again = (measure(built / "documents", 20) for _ in range(2))
    assert first.num_documents == 20
    assert first.num_all_documents == Manifest.load(built).count("documents")
    name = "pieces a sentence"
    assert again.lengths[name].binned() == first.lengths[name].binned()


class _Checker(html.parser.HTMLParser):
    """Finds tags that do not match, and addresses."""

    _VOID = ("meta", "line", "rect", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in self._VOID or self.open.pop() == tag


def test_the_page_is_one_sound_file_and_text_stays_text(built, tmp_path):
    page.write_report(built, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    checker = _Checker()
    checker.feed(text)
    assert not checker.open
    assert not checker.tags & {"script", "img", "link", "iframe"}
    assert checker.links
    for link in checker.links:
        assert re.search(f'id="{link.removeprefix("#")}"', text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;img" in text
    assert "url(" not in text
    for content in ("malformed_json", "short_documents", "windows of 64"):
        assert content in text
    assert f">{Manifest.load(built).count('records'):,}</td>" in text
    assert text.count("<svg") == 4
    page.write_report(built, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == text


def test_documents_have_a_report_too(corpus, built, tmp_path):
    page.write_report(built / "documents", tmp_path / "page.html")
    assert "windows of 64" not in (tmp_path / "page.html").read_text()
    words = ["<eos>", "<unk>", *corpora.WORDS]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n")
    settings = {"tokenizer": "words", "vocab_file": str(tmp_path / "words.txt")}
    corpora.build(corpus, tmp_path / "documents", CleaningOptions(), **settings)
    page.write_report(tmp_path / "documents", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    for content in ("Words a document", "read as one stream", "No cleaning step"):
        assert content in text


def test_windows_without_their_documents_are_refused(built, tmp_path):
    for folder, content in ((tmp_path, "no manifest"), (built, "other windows")):
        with pytest.raises(ValueError, match=f"`documents_dir` must .* {content}"):
            page.write_report(built, tmp_path / "page.html", documents_dir=folder)
    assert not (tmp_path / "page.html").exists()


def test_areas_of_bars_are_shares_of_the_lengths():
    bins = [(1, 1, 6), (2, 2, 0), (3, 3, 1), (4, 5, 3)]
    chart = ElementTree.fromstring(page.histogram(bins, [("half", 2)]))
    assert "half" in "".join(chart.itertext())
    areas = []
    for path in chart.iter():
        if path.get("style", "").startswith("fill: #3b6fb6"):
            numbers = np.array(re.findall(r"-?[\d.]+", path.get("d")), float)
            areas.append(np.prod(np.ptp(numbers.reshape(-1, 2), axis=0)))
    np.testing.assert_allclose(areas / np.sum(areas), [0.6, 0, 0.1, 0.3], atol=1e-3)


def test_the_flag_takes_a_path_or_none(corpus, tmp_path, monkeypatch):
    command = [
        *("data_pipelines.build_records", "--format=json_lines"),
        f"--input={corpus / 'text'}",
        f"--vocab_file={corpus / 'vocab.txt'}",
        f"--output_dir={tmp_path / 'records'}",
        "--window_length=64",
        "--duplicates=exact",
    ]
    for flag, expected in (
        ("--report", tmp_path / "records" / "report.html"),
        (f"--report={tmp_path / 'page.html'}", tmp_path / "page.html"),
    ):
        finished = command_calls.call(*command, flag)
        assert finished.returncode == 0, finished.stderr
        assert f"the report is {expected}" in finished.stdout
        assert finished.stdout.count("cleaned away: duplicates") == 1
        assert "Documents that repeat an earlier one" in expected.read_text()
    monkeypatch.chdir(tmp_path)
    for path in ("records", "missing/page.html", ""):
        with pytest.raises(ValueError, match=r"`--report` must name a file, in a"):
            command_flags._ReportParser().parse(path)
