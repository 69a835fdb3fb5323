"""Tests the choices of `seg-tf pretrain FOLDER`, and a run from text to weights."""

import gzip
import json
import pathlib
import random
import re
import sys
import time
import types
from collections import Counter

import numpy as np
import psutil
import pytest
from absl import flags
from ml_collections import config_flags

from seg_tf.commands import folder_choices as choices
from seg_tf.commands import pretrain, pretrain_folder
from seg_tf.commands.folder_choices import Speed, Survey
from seg_tf.config import to_dict
from seg_tf.config.base import flat
from tests import command_calls
from tests.command_calls import REPOSITORY

PAGE = (REPOSITORY / "docs" / "one_command.md").read_text("utf-8")
CONFIG = choices.configure("modern_mini", 128, muon=False, gpu=False, bfloat16=True)
SPEED = Speed(update=0.3, start=10.0, pieces=2_000.0)
SMALL = (
    "--config.model.num_layers=1",
    "--config.model.hidden_size=32",
    "--config.model.num_heads=2",
    "--config.model.intermediate_size=64",
    "--config.training.batch_size=4",
    "--config.training.dtype_policy=float32",
    "--vocab_size=300",
    "--cache_dir=cache",
)


def look(**changes):
    found = Survey(
        num_documents=100,
        num_characters=3_000_000,
        copies=0.0,
        script="LATIN",
        script_share=1.0,
        language="English",
        distinct_characters=120,
    )
    return choices.replace(found, **changes)


def words(generator, number):
    names = "the of and to in is red green house river walks sleeps old new"
    return " ".join(generator.choices(names.split(), k=number))


@pytest.fixture
def folder(tmp_path):
    generator = random.Random(0)
    path = tmp_path / "my_texts"
    path.mkdir()
    for number in range(12):
        paragraphs = [f"{words(generator, 20).capitalize()}." for _ in range(40)]
        (path / f"{number:02}.txt").write_text("\n\n".join(paragraphs), "utf-8")
    return path


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"a/b.txt": 5, "c.md": 3}, "plain_text"),
        ({"a.txt": 5, "c.jsonl.gz": 9}, "json_lines"),
        ({"AA/wiki_00": 5, "AA/wiki_01.bz2": 9, "notes.txt": 3}, "wikiextractor"),
        ({"wiki_notes.txt": 3}, "plain_text"),
        ({"enwiki-pages-articles1.xml-p1p4.bz2": 3}, "mediawiki"),
        ({"reviews.tsv": 3}, "csv"),
        ({"model.py": 5, "Makefile": 1}, None),
    ],
)
def test_format_is_the_one_of_most_bytes(sizes, expected):
    assert choices.detect_format(sizes) == expected


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Съешь ещё этих мягких французских булок, да выпей же чаю. ", "cp1251"),
        ("我们昨天去了北京的图书馆看书，他说今天不会下雨。", "gb18030"),
        ("Nous avons été à la fête du théâtre où l'on a dîné. ", "cp1252"),
        ("Съешь ещё этих мягких французских булок, да выпей же чаю. ", "koi8_r"),
        ("今日は天気がいいので、散歩に行きましょう。", "shift_jis"),
        ("Any text", "utf_16"),
    ],
)
def test_encoding_is_guessed(text, encoding):
    assert choices.guess_encoding((20 * text).encode(encoding)) == encoding


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "stars,review\n5,A long text\n1,Another\n", "review"),
        ("a.tsv", "text\tother\nA\tLonger than that\n", None),
        ("a.jsonl", '{"body": "A long text", "n": 123456789012}\n', "body"),
        ("b.jsonl", '["no object"]\n', None),
    ],
)
def test_text_is_the_longest_field(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_text(content)
    assert choices.find_text_field(str(path)) == expected


def test_language_needs_stop_words():
    for text, language in (
        ("the house of the man was in the wood and it is old", "English"),
        ("das Haus ist nicht von der Stadt und die Zeit mit", "German"),
        ("szia uram van itt ház", None),
        (20 * "the house of the man was " + 4 * "das Haus ist nicht von der ", None),
    ):
        assert choices.guess_language(Counter(text.split())) == language


def test_a_single_file_is_divided_into_documents():
    lines = "\n".join("Each line is long enough. And it ends." for _ in range(50))
    assert choices.document_options(lines) == {"documents": "lines"}
    paragraph = "\n".join(["these words fill a line of about fifty letters"] * 3)
    wrapped = "\n\n".join([paragraph] * 50)
    assert choices.document_options(wrapped)["hard_wrapped"] == "yes"
    whole = "\n\n".join("A paragraph.\nAnother one." for _ in range(50))
    assert choices.document_options(whole)["hard_wrapped"] == "no"


def test_settings_of_the_records_follow_the_text():
    english = choices.choose_text(look(), {})
    assert (english["lower_case"], english["sentence_parameters"]) == (True, "english")
    other = choices.choose_text(look(language="German"), {})
    assert (other["lower_case"], other["sentence_parameters"]) == (False, "universal")
    assert choices.choose_text(look(), {"lower_case": False})["lower_case"] is False
    sizes = [
        choices.choose_text(look(num_characters=number), {})["vocab_size"]
        for number in (100_000, 3_000_000, 100_000_000)
    ]
    assert sizes == [2_048, 4_096, 8_192]
    chinese = look(num_characters=33_000, script="CJK", distinct_characters=1_800)
    assert choices.choose_text(chinese, {})["vocab_size"] == 4_096
    assert choices.choose_text(chinese, {})["max_characters"] == 2_048


def test_copies_are_dropped_and_do_not_count():
    assert choices.choose_text(look(), {})["duplicates"] == "none"
    assert choices.choose_text(look(copies=0.6), {})["duplicates"] == "exact"
    with pytest.raises(ValueError, match="at least 20,000 characters without"):
        choices.choose_text(look(num_characters=40_000, copies=0.6), {})


def test_copies_are_found(tmp_path):
    generator = random.Random(0)
    texts = [words(generator, 100) for _ in range(4)]
    for number, text in enumerate([*texts, *texts[:2] * 3]):
        (tmp_path / f"{number}.txt").write_text(text, "utf-8")
    found = choices.survey(str(tmp_path), "plain_text", {})
    assert found.num_documents == 10
    assert found.copies == pytest.approx(0.6, abs=0.02)


# --- Length --------------------------------------------------------------------------


def test_the_run_fits_into_the_time():
    for seconds in (180, 3_600):
        plan = choices.plan_length(CONFIG, SPEED, seconds, 1e8, 8_192)
        # Validations of 10 rows of batches at 40 % of an update, and 1.5 s each.
        fixed = 15 + 13 * (0.4 * 10 * 0.3 + 1.5)
        assert plan.seconds == pytest.approx(plan.num_updates * 0.3 + fixed)
        assert 0.96 * seconds < plan.seconds <= 0.97 * seconds
        assert not plan.is_short
        easy = SPEED._replace(level=choices.LOSS_LEVEL / 2)
        halved = choices.plan_length(CONFIG, easy, seconds, 1e8, 8_192)
        assert halved == plan._replace(loss=pytest.approx(plan.loss / 2))
    small = choices.plan_length(CONFIG, SPEED, 36_000, 1e6, 8_192)
    assert small.is_short
    assert small.epochs == pytest.approx(choices.MAX_EPOCHS)
    with pytest.raises(ValueError, match="Add at least 1"):
        choices.plan_length(CONFIG, SPEED, 40, 1e8, 8_192)


def test_only_promising_sizes_are_measured():
    losses = {("mini", 1.0): 4.0, ("tiny", 0.25): 3.5, ("tiny", 0.5): 4.5}
    measured = []

    def measure(name):
        measured.append(name)
        return SPEED._replace(update={"mini": 1.0, "tiny": 0.5}[name])

    def plan(name, speed):
        if name == "huge":
            raise ValueError("too slow")
        return choices.Plan(100, 1.0, 1.0, losses[name, speed.update], False)

    # Tiny looks better by FLOPs, and is measured to be slower than that.
    name, _ = choices.choose_size({"mini": 4, "tiny": 1, "huge": 99}, measure, plan)
    assert (name, measured) == ("mini", ["mini", "tiny"])


def test_constants_of_the_loss_are_the_fit_of_the_documented_runs():
    cells = re.findall(r"^\| `.*\| fit \|$", PAGE, re.M)
    rows = np.array([[float(cell) for cell in row.split("|")[2:8]] for row in cells])
    assert len(rows) >= 12
    size, pieces, muon, old, few, loss = rows.T
    by_size, by_pieces = choices.LOSS_EXPONENTS
    terms = [size**0, size**by_size, pieces**by_pieces, muon, old, few]
    fit, *_ = np.linalg.lstsq(np.stack(terms, 1), loss)
    names = ("CONSTANT", "PARAMETERS", "PIECES", "MUON")
    constants = [getattr(choices, f"LOSS_{name}") for name in names]
    np.testing.assert_allclose(fit[:4], constants, atol=0.006)
    for n, d, m, o, f, expected in rows:
        if not (o or f):
            predicted = choices.predict_loss(n * 1e6, d * 1e6, 1e12, bool(m))
            assert abs(predicted - expected) < 0.1
    new, again = (choices.predict_loss(5e6, 5e7, text, False) for text in (1e8, 5e6))
    assert new < again < choices.predict_loss(5e6, 5e6, 5e6, False)


# --- The command ---------------------------------------------------------------------


def test_every_choice_is_a_flag_and_fits_the_line(capsys, monkeypatch):
    chosen = choices.choose_text(look(), {})
    chosen |= {"format": "plain_text", "reader_options": {"documents": "blank_lines"}}
    pretrain_folder.show("Text", chosen, pretrain_folder.TEXT_CHOICES)
    fields = flat(to_dict(CONFIG))
    pretrain_folder.show("Run", fields, pretrain_folder.RUN_CHOICES)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 80
    with command_calls.flags_of_one_command():
        pretrain.define_flags()
        shown = [line.split()[0] for line in lines if line.startswith("  --")]
        shown = [re.sub(r"--(\w+\.)", r"--config.\1", name) for name in shown]
        shown = [name.replace("lower_case=true", "lower_case") for name in shown]
        # The fields of a config are read from the command line itself.
        monkeypatch.setattr(sys, "argv", ["pretrain", "texts", *shown])
        pretrain.parse_flags(sys.argv)
        overrides = config_flags.get_override_values(flags.FLAGS["config"])
        assert overrides.keys() == pretrain_folder.RUN_CHOICES.keys()
        assert flags.FLAGS.vocab_size == 4_096


def call(*arguments):
    return command_calls.call("pretrain", *arguments)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.py", b"print(1)\n", "--format=plain_text"),
        ("a.txt", b"A few words.", "at least 20,000 characters"),
        (
            "a.txt",
            "Где это? ".encode("cp1251") * 99,
            "--reader_options=encoding=cp1251",
        ),
        (
            "a.txt.gz",
            gzip.compress("Где это? ".encode("cp1251") * 99),
            "--reader_options=encoding=cp1251",
        ),
        (
            "a.jsonl.gz",
            gzip.compress(b'{"text": "a"}\n' * 99)[:-9],
            "at least 20,000 char",
        ),
        (
            "a.jsonl",
            b'{"body": "long"}\n' + b'{"id": "x"}\n' * 3,
            "--reader_options=text_field=NAME",
        ),
    ],
)
def test_unusable_text_is_refused_with_what_to_do(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    code, _, errors = call(tmp_path)
    assert code == 1
    assert errors.startswith("error: ")
    assert expected in " ".join(errors.split())
    assert not pathlib.Path(f"{tmp_path}.seg_tf").exists()


def test_only_files_that_are_read_are_looked_at(tmp_path, monkeypatch):
    def survey(folder, format, options):
        raise ValueError(f"{format} {options}")

    monkeypatch.setattr(choices, "survey", survey)
    line = "these words fill a line of about fifty letters\n"
    with gzip.open(tmp_path / "book.txt.gz", "wt") as file:
        file.write("\n".join([3 * line] * 50))
    (tmp_path / "cover.jpg").write_bytes(bytes(9_000))
    _, _, errors = call(tmp_path)
    assert "{'documents': 'blank_lines', 'hard_wrapped': 'yes'}" in errors
    (tmp_path / "book.txt.gz").rename(tmp_path / "book.pdf")
    (tmp_path / "book.txt").write_text("\n".join([3 * line] * 50), "utf-16")
    options = "--reader_options=encoding=utf-16"
    _, _, errors = call(tmp_path, options)
    assert "'documents': 'blank_lines',\n'hard_wrapped': 'yes'" in errors
    (tmp_path / "book.txt").unlink()
    (tmp_path / "reviews.csv").write_text("n;text\n1;Very good.\n")
    options = "--reader_options=delimiter=;"
    _, _, errors = call(tmp_path, options)
    assert "csv {'delimiter': ';'}" in errors
    (tmp_path / "reviews.csv").write_text("n,review\n1,Very good.\n")
    _, _, errors = call(tmp_path)
    assert "csv {'text_field': 'review'}" in errors
    for name in ("output_dir", "cache_dir"):
        _, _, errors = call(tmp_path, f"--{name}={tmp_path / 'here'}")
        assert f"`--{name}` must not be in the text" in " ".join(errors.split())


def test_flags_of_a_named_config_are_kept(monkeypatch):
    fields = ("training.log_interval=7", "training.num_updates=200")
    arguments = ["pretrain", "texts", "--config=segabert_modern_tiny"]
    arguments += [f"--config.{field}" for field in fields]
    manifest = types.SimpleNamespace(
        vocabulary={"size": 300}, window_length=128, count=lambda *_: 10_000
    )
    with command_calls.flags_of_one_command():
        pretrain.define_flags()
        monkeypatch.setattr(sys, "argv", arguments)
        pretrain.parse_flags(arguments)
        begin = time.monotonic()
        config, plan = pretrain_folder.plan_run(
            manifest, lambda _: SPEED, 10, is_named=True, begin=begin
        )
    assert (config.training.log_interval, config.training.num_updates) == (7, 200)
    assert config.training.validation_interval == 20
    # What is said and shown is of the length that was asked for.
    assert (plan.num_updates, plan.is_short) == (200, False)
    assert plan.epochs == 200 * SPEED.pieces / 10_000


@pytest.mark.slow
def test_from_text_to_weights_and_resumed(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    measure_speed = pretrain_folder.measure_speed
    monkeypatch.setattr(
        pretrain_folder, "measure_speed", lambda *_: Speed(0.2, 1.0, 512.0)
    )
    # Building takes no time, for any load of the machine.
    begin = psutil.Process().create_time()
    clock = types.SimpleNamespace(monotonic=lambda: 0.0, time=lambda: begin)
    monkeypatch.setattr(pretrain_folder, "time", clock)
    command = ["my_texts", "--minutes=3", "--config.training.num_updates=20"]
    code, output, errors = call(*command, *SMALL)
    assert code == 0, errors
    run, plan = pathlib.Path("runs/my_texts"), pathlib.Path("runs/my_texts/plan.json")
    written = json.loads(plan.read_text())
    assert written["config"]["training"]["num_updates"] == 20
    assert (run / "checkpoints" / "update-00000020").exists()
    assert "Choices for 3 minutes" in output
    # The page shows the loss in the log, masked words and neighbors, without links.
    page = (run / "run.html").read_text(encoding="utf-8")
    last = json.loads((run / "log.jsonl").read_text().splitlines()[-1])
    end = f"<td>validation loss at the end</td><td>{last['loss']:.2f}</td>"
    assert end in page
    speed = measure_speed(written["records"], json.dumps(written["config"]))
    assert speed.level == pytest.approx(last["loss_without_context"])
    assert page.count("<mark>") == 8
    assert "Done after 20 updates." in page
    assert not re.search(r"(src|href)=.?(http|//)", page)
    # The records are those of the commands.
    records = pathlib.Path(written["records"])
    vocabulary, options = records.parent / "vocab.txt", ("--input=my_texts",)
    options += ("--format=plain_text", f"--vocab_file={vocabulary}", "--lower_case")
    code, _, errors = command_calls.call(
        "build-records",
        *options,
        "--output_dir=records",
        "--window_length=128",
    )
    assert code == 0, errors
    for path in filter(pathlib.Path.is_file, records.rglob("*")):
        other = pathlib.Path("records") / path.relative_to(records)
        if path.name != ".lock":
            assert other.read_bytes() == path.read_bytes(), path
    # A text may be too short to hold out a document.
    options += ("--validation_fraction=0", "--output_dir=all", "--window_length=128")
    assert command_calls.call("build-records", *options)[0] == 0
    written["config"]["training"]["validation_interval"] = 0
    speed = measure_speed("all", json.dumps(written["config"]))
    assert speed.level == choices.LOSS_LEVEL

    # The same command neither measures nor plans anew.
    monkeypatch.setattr(pretrain_folder, "measure_speed", None)
    before = plan.read_bytes()
    code, output, errors = call(*command, *SMALL)
    assert code == 0, errors
    assert "Resuming with the choices in" in output
    assert plan.read_bytes() == before
    code, _, errors = call("my_texts", "--minutes=9", *SMALL)
    assert code == 1
    assert "with other flags" in " ".join(errors.split())
