"""DiscoEval's probes from files to scores."""

import csv
import dataclasses
import functools
import itertools
import json

import numpy as np
import pytest

from seg_tf.finetuning import probing
from seg_tf.finetuning.probing import ProbeRunner, probe_setting, stored_vectors
from seg_tf.finetuning.trials import Setting
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.tasks import discoeval as probes
from tests.finetuning.tiny_models import some_texts, tiny
from tests.inference.tiny_slm import WORDS
from tests.sample_data import sample_data
from tests.tasks import rst_pickles

pytestmark = pytest.mark.slow

IGNORED = Setting(learning_rate=1.0, batch_size=1, epochs=1)
FOLDERS = {
    "discoeval/sp/wiki": "SP/wiki",
    "discoeval/bso/wiki": "BSO/wiki",
    "discoeval/ssp": "SSP/abs",
    "discoeval/dc/chat": "DC/chat",
}
ENDS = ["w58", "w59"]


@pytest.fixture(autouse=True)
def fewer_penalties(monkeypatch):
    """One strength of the penalty: a test is not to wait for four."""

    def settings_of(task):
        settings = probes.settings_of(task)
        return dataclasses.replace(settings, l2=settings.l2[:1])

    monkeypatch.setattr(probing, "settings_of", settings_of)


def write_files(folder, task, splits=("train", "valid", "test"), seed=1):
    """Files of a task whose answer the words of sentences give away."""
    generator = np.random.default_rng(seed)
    folder = folder / FOLDERS[task]
    folder.mkdir(parents=True)
    for split in splits:
        lines = []
        for _ in range(600 if split == "train" else 60):
            fields = [
                f"{WORDS[number]} {generator.choice(WORDS[20:23])}"
                for number in range({"sp": 5, "bso": 2, "dc": 6}.get(kind(task), 1))
            ]
            label = None
            if kind(task) == "sp":
                label = int(generator.integers(5))
                first = fields.pop(label)
                fields = [first, *fields]
            elif kind(task) != "bso":
                label = int(generator.random() < 0.7)
                fields[-1] += f" {ENDS[label]}" * 4
            lines.append("\t".join(fields if label is None else [str(label), *fields]))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")


def kind(task):
    return task.split("/")[1]


def make(tmp_path, task, model="slm", reports=None, **arguments):
    return ProbeRunner(
        tiny(model),
        task,
        tmp_path / "data",
        tmp_path / "vectors",
        report=([] if reports is None else reports).append,
        **arguments,
    )


@pytest.mark.parametrize(
    ("task", "model", "mode"),
    [
        ("discoeval/sp/wiki", "segabert", "per_sentence"),
        ("discoeval/sp/wiki", "slm", "joint"),
        ("discoeval/bso/wiki", "slm", "per_sentence"),
        ("discoeval/bso/wiki", "reat", "joint"),
    ],
)
def test_what_the_words_tell_is_found(task, model, mode, tmp_path):
    write_files(tmp_path / "data", task)
    reports = []
    runner = make(tmp_path, task, model, reports, mode=mode)
    scores = runner.run(IGNORED, 1, tmp_path / "trial")
    assert (runner.name, runner.main_metric) == (task, "accuracy")
    assert set(runner.baseline) == {"accuracy", "test_accuracy"}
    for name, score in runner.baseline.items():
        assert scores[name] > score + 0.1
    assert not reports
    if kind(task) == "bso":
        assert runner.baseline == {"accuracy": 0.5, "test_accuracy": 0.5}


def test_vectors_of_units_are_averaged(tmp_path):
    """RST: of each side the mean over its units, which are encoded alone."""
    sizes = {"train": 600, "dev": 60, "test": 60}
    nodes = rst_pickles.write(tmp_path / "data" / "RST", **sizes)
    runner = make(tmp_path, "discoeval/rst", "segabert")
    encoder = SentenceEncoder(tiny("segabert"))
    first = [
        np.mean([encoder.encode_rows([(unit,)])[0][0, 0] for unit in units], axis=0)
        for units in nodes["dev"][0][1:]
    ]
    expected = probes.combine_vectors(
        "pair_product_and_distance", np.array([first], np.float32)
    )
    labelled = runner._labelled(None)
    np.testing.assert_allclose(labelled["dev"].features[:1], expected, atol=1e-5)
    assert labelled["train"].features.shape == (600, 4 * len(first[0]))
    scores = runner.run(IGNORED, 1, tmp_path / "trial")
    for name, score in runner.baseline.items():
        assert scores[name] > score + 0.1
    with pytest.raises(ValueError, match=r"units are encoded separately.*'joint'"):
        make(tmp_path, "discoeval/rst", mode="joint")


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_predictions_and_scores_agree(tmp_path):
    task = "discoeval/ssp"
    write_files(tmp_path / "data", task)
    runner = make(tmp_path, task, limit=40)
    scores = runner.run(IGNORED, 1, tmp_path / "trial")
    assert runner.num_examples == 40
    for split, file, prefix in [("dev", "valid", ""), ("test", "test", "test_")]:
        rows = rows_of(tmp_path / "trial" / f"{split}_predictions.tsv")
        lines = (tmp_path / f"data/SSP/abs/{file}.txt").read_text().splitlines()
        assert [row["label"] for row in rows] == [line[0] for line in lines]
        assert [row["index"] for row in rows] == [str(at) for at in range(60)]
        right = np.mean([row["label"] == row["prediction"] for row in rows])
        np.testing.assert_allclose(scores[f"{prefix}accuracy"], right)
        # Label 1 is most frequent in train.
        ones = np.mean([row["label"] == "1" for row in rows])
        np.testing.assert_allclose(runner.baseline[f"{prefix}accuracy"], ones)
    story = json.loads((tmp_path / "trial" / "probe.json").read_text())
    (probe,) = story["probes"]
    assert probe["l2"] == scores["l2"] == 1e-9
    assert max(probe["dev_accuracies"]) == scores["accuracy"]
    assert len(probe["losses"]) == len(probe["dev_accuracies"])
    assert all(isinstance(score, float) for score in scores.values())


def test_texts_are_encoded_once_for_all_seeds_and_runners(tmp_path, monkeypatch):
    task = "discoeval/ssp"
    write_files(tmp_path / "data", task)
    encoded = []
    encode_rows = SentenceEncoder.encode_rows

    def counting(self, rows, *arguments, **options):
        encoded.extend(rows)
        return encode_rows(self, rows, *arguments, **options)

    monkeypatch.setattr(SentenceEncoder, "encode_rows", counting)
    runner = make(tmp_path, task, limit=30)
    # A command may want to know of its trials alone.
    assert not encoded
    assert not (tmp_path / "vectors").exists()
    first = runner.run(IGNORED, 1, tmp_path / "1")
    once = len(encoded)
    assert once > 0
    runner.run(IGNORED, 2, tmp_path / "2")
    again = make(tmp_path, task, limit=30).run(IGNORED, 1, tmp_path / "3")
    assert len(encoded) == once
    assert again == first
    losses = [
        json.loads((tmp_path / str(trial) / "probe.json").read_text())["probes"]
        for trial in (1, 2, 3)
    ]
    assert losses[0] == losses[2] != losses[1]


def test_the_setting_is_that_of_the_protocol(tmp_path):
    task = "discoeval/ssp"
    write_files(tmp_path / "data", task)
    runner = make(tmp_path, task, limit=30)
    setting = probe_setting(task)
    assert setting == Setting(learning_rate=1e-3, batch_size=64, epochs=51)
    other = Setting(learning_rate=5.0, batch_size=3, epochs=7)
    one = runner.run(other, 1, tmp_path / "1")
    assert one == runner.run(setting, 1, tmp_path / "2")


def test_every_seed_of_a_twin_has_an_encoder_of_its_own(tmp_path):
    task = "discoeval/ssp"
    write_files(tmp_path / "data", task)
    folder = tmp_path / "vectors/discoeval-ssp/per_sentence"
    make(tmp_path, task, limit=30).run(IGNORED, 1, tmp_path / "trial")
    of = {"checkpoint": np.load(folder / "dev/part-00000.npy")}
    # Beside the checkpoint's, in the same folder.
    twin = make(tmp_path, task, limit=30, randomly_initialized=True)
    found = [twin.run(IGNORED, seed, tmp_path / "twin") for seed in (7, 8, 7)]
    assert found[0] == found[2]
    for seed in (7, 8):
        of[seed] = np.load(folder / f"seed_{seed}/dev/part-00000.npy")
        drawn = SentenceEncoder(tiny("slm"), randomly_initialized=True, seed=seed)
        rows = dict.fromkeys(example.texts for example in twin._examples["dev"])
        np.testing.assert_allclose(
            of[seed], drawn.encode_rows(list(rows))[0], atol=1e-6
        )
    for one, other in itertools.combinations(of.values(), 2):
        assert np.abs(one - other).max() > 1e-2


def test_without_test_there_are_no_scores_of_it(tmp_path):
    task = "discoeval/sp/wiki"
    write_files(tmp_path / "data", task, splits=("train", "valid"))
    reports = []
    scores = make(tmp_path, task, reports=reports, limit=30).run(
        IGNORED, 1, tmp_path / "trial"
    )
    assert set(scores) == {"accuracy", "l2"}
    (line,) = reports
    assert line.startswith("No scores of discoeval/sp/wiki on test: ")
    assert "SP/wiki/test.txt" in line


@pytest.mark.parametrize("missing", ["train", "valid"])
def test_a_missing_file_is_named(missing, tmp_path):
    task = "discoeval/sp/wiki"
    there = {"train", "valid", "test"} - {missing}
    write_files(tmp_path / "data", task, splits=sorted(there))
    with pytest.raises(OSError, match=f"SP/wiki/{missing}.txt"):
        make(tmp_path, task)
    assert not (tmp_path / "vectors").exists()


def test_dc_has_its_hidden_layer_and_the_next_task_has_not(tmp_path, monkeypatch):
    seen = []
    train = probing.train_probe

    def shorter(labelled, dev, num_classes, settings, *others):
        seen.append((settings.hidden_size, labelled.features.shape[1]))
        settings = dataclasses.replace(settings, max_passes=0)
        return train(labelled, dev, num_classes, settings, *others)

    monkeypatch.setattr(probing, "train_probe", shorter)
    for task in ("discoeval/dc/chat", "discoeval/ssp"):
        write_files(tmp_path / "data", task)
        make(tmp_path, task, limit=64).run(IGNORED, 1, tmp_path / "trial")
    assert seen == [(2000, 6 * 12), (0, 12)]


@pytest.mark.parametrize(
    ("task", "model", "mode", "message"),
    [
        ("bso", "segabert", "joint", r'`mode` must be "per_sentence".*tiny_segabert'),
        ("bso", "bert", "alone", "`mode` must be one of per_sentence, joint.*'alone'"),
        ("dc", "slm", "joint", "number of texts must be at most.*6 texts"),
    ],
)
def test_modes_that_a_model_lacks_are_refused(task, model, mode, message, tmp_path):
    task = {"bso": "discoeval/bso/wiki", "dc": "discoeval/dc/chat"}[task]
    write_files(tmp_path / "data", task)
    with pytest.raises(ValueError, match=message):
        make(tmp_path, task, model, mode=mode)


def test_other_benchmarks_have_no_probes(tmp_path):
    with pytest.raises(ValueError, match=r"of DiscoEval.*glue/rte"):
        make(tmp_path, "glue/rte")


@pytest.mark.parametrize("task", ["discoeval/sp/arxiv", "discoeval/dc/wiki"])
def test_sample_data_without_train_says_so(task, tmp_path):
    data = sample_data("discoeval")
    with pytest.raises(OSError, match=r"none of .*train\.txt"):
        ProbeRunner(tiny("slm"), task, data, tmp_path)


# === Vectors in a folder ===

ROWS_OF_PART = 4


class CountingEncoder:
    """Remembers which rows it encoded, and dies when it is told to."""

    def __init__(self, encoder, dies_after=None):
        self.describe = encoder.describe
        self.encoded = []
        self._encode_rows = encoder.encode_rows
        self._dies_after = dies_after

    def encode_rows(self, rows, on_progress=bool):
        if self._dies_after is not None and len(self.encoded) >= self._dies_after:
            raise KeyboardInterrupt
        self.encoded += rows
        return self._encode_rows(rows, on_progress=on_progress)


@functools.cache
def slm(**arguments):
    return SentenceEncoder(tiny("slm"), **arguments)


def store(examples, folder, encoder=None, reports=None, row_texts=1):
    encoder = encoder or CountingEncoder(slm())
    report = ([] if reports is None else reports).append
    vectors = stored_vectors(
        encoder, examples, folder, row_texts, report=report, rows_of_part=ROWS_OF_PART
    )
    return vectors, encoder


@pytest.fixture
def examples():
    found = some_texts(np.random.default_rng(1), 5, 3)
    # Texts, and an example, that come again.
    found[3] = (found[0][0], found[1][2], found[3][2])
    found[4] = found[0]
    return found


@pytest.mark.parametrize("row_texts", [1, 3])
def test_every_text_has_its_vector_though_rows_are_encoded_once(
    row_texts, examples, tmp_path
):
    vectors, encoder = store(examples, tmp_path / "v", row_texts=row_texts)
    assert vectors.shape == (5, 3, 12)
    assert len(encoder.encoded) == len(set(encoder.encoded))
    assert len(encoder.encoded) == (4 if row_texts == 3 else 10)
    for example, found in zip(examples, vectors, strict=True):
        rows = [example] if row_texts == 3 else [(text,) for text in example]
        expected = np.concatenate(slm().encode_rows(rows)[0])
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_second_time_nothing_is_encoded(examples, tmp_path):
    first, _ = store(examples, tmp_path)
    second, encoder = store(examples, tmp_path)
    np.testing.assert_array_equal(first, second)
    assert encoder.encoded == []


def test_a_killed_job_goes_on_with_the_missing_parts(examples, tmp_path):
    expected, _ = store(examples, tmp_path / "whole")
    folder = tmp_path / "killed"
    dying = CountingEncoder(slm(), dies_after=ROWS_OF_PART)
    with pytest.raises(KeyboardInterrupt):
        store(examples, folder, dying)
    # As if killed in the midst of writing.
    leftover = folder / ".aside-0"
    leftover.mkdir()
    (leftover / "part-00001.npy").write_bytes(b"half")
    vectors, encoder = store(examples, folder)
    np.testing.assert_array_equal(vectors, expected)
    assert len(encoder.encoded) == 10 - ROWS_OF_PART
    assert not set(encoder.encoded) & set(dying.encoded)
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"examples": 1}, "texts_sha256"),
        ({"kind": "segabert_slm"}, "encoder_sha256"),
        ({"row_texts": 3}, "row_texts: 1 there, 3 now"),
        ({"max_length": 20}, "max_length: 48 there, 20 now"),
        ({"randomly_initialized": True}, "encoder_sha256"),
    ],
)
def test_other_vectors_are_refused(changed, message, examples, tmp_path):
    changed = dict(changed)
    store(examples, tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    if changed.pop("examples", None):
        # The same words in all, parted elsewhere.
        examples[1] = (f"{examples[1][0]} {examples[1][1]}", "", examples[1][2])
    kind, row_texts = changed.pop("kind", "slm"), changed.pop("row_texts", 1)
    encoder = CountingEncoder(SentenceEncoder(tiny(kind), **changed))
    with pytest.raises(ValueError, match=f"with different settings.*{message}"):
        store(examples, tmp_path, encoder, row_texts=row_texts)
    assert encoder.encoded == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_folder_says_what_vectors_depend_on(examples, tmp_path):
    store(examples, tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["vocab_sha256"] == tiny("slm").vocabulary.checksum
    assert settings["num_rows"] == 10
    weights = np.load(tmp_path / "part-00000.npy")
    assert weights.shape == (ROWS_OF_PART, 1, 12)
    assert weights.dtype == np.float32


def test_damaged_vectors_are_named(examples, tmp_path):
    store(examples, tmp_path)
    np.save(tmp_path / "part-00001.npy", np.zeros((1, 1, 12), np.float32))
    with pytest.raises(ValueError, match=r"vectors of 10 rows.*with 7.*Remove it"):
        store(examples, tmp_path)


def test_cut_texts_are_reported(examples, tmp_path):
    reports = []
    encoder = CountingEncoder(slm(max_length=6))
    store(examples, tmp_path, encoder, reports=reports)
    (line,) = reports
    assert "texts were cut: " in line
    longer = {text for one in examples for text in one if len(text.split()) > 3}
    assert line.endswith(f"cut: {len(longer)} of 10 rows encoded now")
    # A killed job goes on, and speaks of what it did itself.
    (tmp_path / "part-00000.npy").unlink()
    store(examples, tmp_path, encoder, reports=reports)
    assert reports[1].endswith(f" of {ROWS_OF_PART} rows encoded now")
