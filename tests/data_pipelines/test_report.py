"""The report: its figures against slow ones, and that text stays text."""

import html.parser
import itertools
import json
import math
import pathlib
import random
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from data_pipelines import build_windows
from data_pipelines.builds.window_building import WindowOptions
from data_pipelines.cleaning.cleaning_options import CleaningOptions
from data_pipelines.report import charts, page, report_flag
from data_pipelines.report.measurements import CAPS, LengthCounts, measure
from seg_tf import files
from seg_tf.data.manifest import Manifest
from tests import command_calls
from tests.data_pipelines.builders import read_all
from tests.data_pipelines.cleaning import corpora

pytestmark = pytest.mark.slow

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
NASTY = "<script>alert(1)</script> & <img src=http://x/>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The corpus of the cleaning tests, and documents that are over every cap."""
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
    build_windows.build_windows(window_options, output_dir / "documents", output_dir)
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


@pytest.mark.parametrize("window_length", [128, 256, 512, 1024, 2048])
def test_padding_and_capped_paragraphs_are_those_of_plain_loops(built, window_length):
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
    found = measure(built / "documents", 1000).windows[window_length]
    assert found.lengths.tolist() == lengths
    expected = 1 - sum(lengths) / (len(lengths) * window_length)
    assert math.isclose(found.padding, expected)
    # No row exceeds its length, and packing is no worse than none.
    assert 1 - sum(lengths) / (
        math.ceil(sum(lengths) / window_length) * window_length
    ) <= (found.packed_padding + 1e-9)
    assert found.packed_padding <= found.padding
    assert (found.pieces_slid, found.pieces_clamped) == (slid, clamped)
    if window_length >= 512:
        assert clamped > 0
    if window_length <= 256:
        assert slid > 0


def test_indices_over_the_tables_are_counted_piece_by_piece(built):
    expected = dict.fromkeys(CAPS, 0)
    num_tokens = 0
    for tree in read_all(built / "documents"):
        sentence = 0
        for paragraph, num_sentences in enumerate(tree.paragraph_lengths):
            for number in range(num_sentences):
                for token in range(tree.sentence_lengths[sentence]):
                    num_tokens += 1
                    expected["paragraph_index"] += paragraph >= 50
                    expected["sentence_index"] += number >= 100
                    expected["token_index"] += token >= 256
                sentence += 1
    found = measure(built / "documents", 1000)
    assert all(expected.values())
    assert found.over_cap == expected
    assert found.num_tokens == num_tokens


def test_lengths_are_those_of_plain_python(built):
    found = measure(built / "documents", 1000)
    all_trees = read_all(built / "documents")
    expected = {
        "paragraphs a document": [len(tree.paragraph_lengths) for tree in all_trees],
        "sentences a paragraph": [n for t in all_trees for n in t.paragraph_lengths],
        "pieces a sentence": [n for tree in all_trees for n in tree.sentence_lengths],
        "pieces a document": [len(tree.token_ids) for tree in all_trees],
    }
    assert list(found.lengths) == list(expected)
    for name, lengths in expected.items():
        counts = found.lengths[name]
        assert counts.number == len(lengths)
        assert math.isclose(counts.mean, sum(lengths) / len(lengths))
        assert counts.longest == max(lengths)
        for share in (0.5, 0.95):
            assert (
                counts.quantile(share)
                == sorted(lengths)[math.ceil(share * len(lengths)) - 1]
            )
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


def test_a_sample_is_as_large_as_asked_for_and_always_the_same(built):
    found = measure(built / "documents", 20)
    assert found.num_documents == 20
    assert found.num_all_documents == Manifest.load(built).count("documents")
    assert found.lengths["pieces a document"].number == 20
    again = measure(built / "documents", 20).lengths["pieces a sentence"]
    assert again.binned() == found.lengths["pieces a sentence"].binned()


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
    assert "malformed_json" in text
    assert "short_documents" in text
    assert f"{Manifest.load(built).count('records'):,}</b>windows of 64" in text
    assert text.count("<svg") == 5
    page.write_report(built, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == text


def test_documents_alone_have_a_report_too(built, tmp_path):
    page.write_report(built / "documents", tmp_path / "page.html")
    assert "windows of 64" not in (tmp_path / "page.html").read_text()


def test_documents_of_words_have_a_report_without_windows(corpus, tmp_path):
    words = ["<eos>", "<unk>", *corpora.WORDS]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n")
    corpora.build(
        corpus,
        tmp_path / "documents",
        CleaningOptions(),
        tokenizer="words",
        vocab_file=str(tmp_path / "words.txt"),
    )
    page.write_report(tmp_path / "documents", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "Words a document" in text
    assert "read as one stream" in text
    assert "No cleaning step was on" in text


def test_windows_without_their_documents_are_refused(built, tmp_path):
    with pytest.raises(ValueError, match=r"`documents_dir` must .* no manifest"):
        page.write_report(built, tmp_path / "page.html", documents_dir=tmp_path)
    with pytest.raises(ValueError, match="holds other windows"):
        page.write_report(built, tmp_path / "page.html", documents_dir=built)
    assert not (tmp_path / "page.html").exists()


def test_areas_of_bars_are_shares_of_the_lengths():
    bins = [(1, 1, 6), (2, 2, 0), (3, 3, 1), (4, 5, 3)]
    chart = ElementTree.fromstring(charts.histogram(bins, [("half", 2)]))
    assert "half" in "".join(chart.itertext())
    paths = [
        path.get("d")
        for path in chart.iter()
        if path.get("style", "").startswith("fill: #3b6fb6")
    ]
    areas = []
    for path in paths:
        numbers = np.array(re.findall(r"-?[\d.]+", path), float).reshape(-1, 2)
        areas.append(np.prod(np.ptp(numbers, axis=0)))
    np.testing.assert_allclose(areas / np.sum(areas), [0.6, 0, 0.1, 0.3], atol=1e-3)


def test_bars_have_their_shares_written_beside_them():
    chart = ElementTree.fromstring(
        charts.paired_bars([("128", 0.25, 0.05), ("256", 0.5, 0.001)], ("a", "b"))
    )
    texts = {text.strip() for text in chart.itertext()}
    assert {"25.0 %", "5.0 %", "50.0 %", "0.1 %", "128", "256", "a", "b"} <= texts


def test_the_flag_takes_a_path_or_none(corpus, tmp_path):
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


@pytest.mark.parametrize("place", ["folder", "missing/page.html", ""])
def test_pages_that_cannot_be_written_are_refused_first(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").write_text("text")
    with pytest.raises(ValueError, match=r"`--report` must name a file, in a folder"):
        report_flag._Parser().parse(place)
    if place == "folder":
        with pytest.raises(IsADirectoryError):
            files.write_text(tmp_path / "folder", "page")
        assert (tmp_path / "folder" / "precious").read_text() == "text"
