"""Files of similarity sets, made in their published forms."""

import pytest

from seg_tf import tasks
from seg_tf.tasks import similarity as similarity_sets
from tests.sample_data import sample_data

SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    "6\tA boy sits\tA child sits\t4.5\tENTAILMENT\n"
    '9\tNo "boy sits\tA fly\t1\tNEUTRAL\n'
)
BENCHMARK = (
    "main-captions\tMSRvid\t2012test\t0024\t2.500\tA girl brushes.\tSomeone brushes.\n"
    "main-forums\tdeft-forum\t2014\t0\t0\tNo.\tYes.\tlicence\thttp://x\n"
)


def write(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.txt").write_text(content, encoding="utf-8")


@pytest.fixture
def year(tmp_path):
    """2013 with two parts, a pair of the second without a score."""
    write(
        tmp_path / "STS13-en-test",
        **{
            "STS.input.headlines": "Ein Satz\tZwei Sätze\nb\tB\n",
            "STS.gs.headlines": "4.25\n0\n",
            "STS.input.FNWN": "c\tC\nd\tD\ne\tE\n",
            "STS.gs.FNWN": "5.000\n\n1\n",
            "STS.output.baseline": "not read",
        },
    )
    return tmp_path


def test_parts_of_a_year_are_read_and_pairs_without_a_score_counted(year):
    for folder in (year, year / "STS13-en-test"):
        found = similarity_sets.read("sts13", folder)
        assert found.num_unscored == 1
        assert [(*pair.texts, pair.label) for pair in found.pairs] == [
            *(("c", "C", 5.0), ("e", "E", 1.0)),
            *(("Ein Satz", "Zwei Sätze", 4.25), ("b", "B", 0.0)),
        ]


def test_sick_is_read_by_its_header(tmp_path):
    write(tmp_path / "SICK", SICK_test_annotated=SICK)
    pairs = similarity_sets.read("sick-r", tmp_path).pairs
    assert [pair.label for pair in pairs] == [4.5, 1.0]
    assert pairs[1].texts == ('No "boy sits', "A fly")


def test_the_benchmark_has_no_header_and_may_have_licences(tmp_path):
    (tmp_path / "sts-test.csv").write_text(BENCHMARK)
    pairs = similarity_sets.read("sts-b-test", tmp_path).pairs
    assert [(*pair.texts, pair.label) for pair in pairs] == [
        ("A girl brushes.", "Someone brushes.", 2.5),
        ("No.", "Yes.", 0.0),
    ]


def test_sts_b_is_that_of_glue():
    data = sample_data("glue")
    pairs = similarity_sets.read("sts-b", data).pairs
    expected = tasks.read("glue/sts-b", data, "dev")
    assert len(pairs) == 1_500
    assert [(pair.texts, pair.label) for pair in pairs] == [
        (pair.texts, pair.label) for pair in expected
    ]


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("STS.gs.FNWN", "5\n\n", r"FNWN\.txt must have as many lines.*3 and 2"),
        ("STS.gs.FNWN", "5\n\nhigh\n", r"FNWN\.txt:3: .*from 0 to 5.*'high'"),
    ],
)
def test_files_that_are_wrong_are_named(year, name, contents, message):
    write(year / "STS13-en-test", **{name: contents})
    with pytest.raises(ValueError, match=message):
        similarity_sets.read("sts13", year)


def test_sets_that_are_not_there_are_named(year):
    with pytest.raises(ValueError, match=r"`name` must be one of sts12,.*'sts17'"):
        similarity_sets.read("sts17", year)
    with pytest.raises(FileNotFoundError, match="STS14-en-test, or hold it"):
        similarity_sets.read("sts14", year)
    (year / "STS13-en-test" / "STS.gs.FNWN.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"STS\.gs\.FNWN"):
        similarity_sets.read("sts13", year)
