"""DiscoEval's probes from files to scores."""

import csv
import dataclasses
import itertools
import json

import numpy as np
import pytest

from seg_tf.finetuning import probing
from seg_tf.finetuning.probing import ProbeRunner, probe_setting, stored_vectors
from seg_tf.finetuning.trials import Setting
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.tasks import discoeval as probes
from tests.counting_bar import CountingBar
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
        np.mean(
            [encoder.encode_rows([(unit,)], "cls")[0][0, 0] for unit in units], axis=0
        )
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
    with pytest.raises(ValueError, match=r"units are encoded apart.*'joint'"):
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
    encode = SentenceEncoder.encode_rows

    def counting(self, rows, *arguments):
        encoded.extend(rows)
        return encode(self, rows, *arguments)

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
    ("model", "mode", "message"),
    [
        ("segabert", "joint", r'`mode` must be "per_sentence".*tiny_segabert'),
        ("bert", "alone", "`mode` must be one of per_sentence, joint.*'alone'"),
    ],
)
def test_modes_that_a_model_does_not_have_are_refused(model, mode, message, tmp_path):
    write_files(tmp_path / "data", "discoeval/bso/wiki")
    with pytest.raises(ValueError, match=message):
        make(tmp_path, "discoeval/bso/wiki", model, mode=mode)


def test_other_benchmarks_have_no_probes(tmp_path):
    with pytest.raises(ValueError, match=r"of DiscoEval.*glue/rte"):
        make(tmp_path, "glue/rte")


@pytest.mark.parametrize("task", ["discoeval/sp/arxiv", "discoeval/dc/wiki"])
def test_sample_data_without_train_says_so(task, tmp_path):
    data = sample_data("discoeval")
    with pytest.raises(OSError, match=r"none of .*train\.txt"):
        ProbeRunner(tiny("slm"), task, data, tmp_path)


# === Vectors in a folder ===

ROWS_PER_PART = 4


class CountingEncoder(SentenceEncoder):
    """Remembers which rows it encoded, and dies when told to."""

    def __init__(self, *arguments, dies_after=None, **options):
        super().__init__(*arguments, **options)
        self.encoded = []
        self._dies_after = dies_after

    def encode_rows(self, rows, *arguments):
        if self._dies_after is not None and len(self.encoded) >= self._dies_after:
            raise KeyboardInterrupt
        self.encoded += rows
        return super().encode_rows(rows, *arguments)


def store(rows, folder, encoder=None, reports=None, mode="joint"):
    """Vectors, the encoder, and the progress bars."""
    encoder = encoder or CountingEncoder(tiny("slm"))
    bars = []

    def progress(total):
        bars.append(CountingBar(total))
        return bars[-1]

    vectors = stored_vectors(
        encoder,
        rows,
        folder,
        {"mode": mode},
        progress,
        ([] if reports is None else reports).append,
        rows_per_part=ROWS_PER_PART,
    )
    return vectors, encoder, bars


@pytest.fixture
def rows():
    generator = np.random.default_rng(1)
    found = some_texts(generator, 12, 2)
    # Rows that come again.
    return [*found[:10], found[3], found[0]]


def test_rows_are_encoded_once(rows, tmp_path):
    first, encoder, (bar,) = store(rows, tmp_path)
    assert (first.shape, first.dtype) == ((12, 2, 12), np.float32)
    assert encoder.encoded == rows[:10]
    assert bar.done == bar.total == 10
    expected, _ = SentenceEncoder(tiny("slm")).encode_rows(rows)
    np.testing.assert_allclose(first, expected, atol=1e-5)
    second, encoder, bars = store(rows, tmp_path)
    np.testing.assert_array_equal(first, second)
    assert encoder.encoded == bars == []
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["vocab_sha256"] == tiny("slm").vocabulary.checksum
    assert settings["num_rows"] == 10


def test_a_killed_job_resumes_with_the_missing_parts(rows, tmp_path):
    expected, *_ = store(rows, tmp_path / "whole")
    folder = tmp_path / "killed"
    dying = CountingEncoder(tiny("slm"), dies_after=ROWS_PER_PART)
    with pytest.raises(KeyboardInterrupt):
        store(rows, folder, dying)
    leftover = folder / ".aside-0"
    leftover.mkdir()
    (leftover / "part-00001.npy").write_bytes(b"half")
    vectors, encoder, (bar,) = store(rows, folder)
    np.testing.assert_array_equal(vectors, expected)
    assert encoder.encoded == rows[ROWS_PER_PART:10]
    assert bar.done == bar.total == 10
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"texts": True}, "texts_sha256"),
        ({"kind": "segabert_slm"}, "encoder_sha256"),
        ({"mode": "per_sentence"}, "mode: joint there, per_sentence now"),
        ({"max_length": 20}, "max_length: 48 there, 20 now"),
        ({"randomly_initialized": True}, "encoder_sha256"),
    ],
)
def test_other_vectors_are_refused(changed, message, rows, tmp_path):
    changed = dict(changed)
    store(rows, tmp_path)
    if changed.pop("texts", None):
        # The same words, divided elsewhere.
        rows[1] = (" ".join(rows[1]), "")
    mode = changed.pop("mode", "joint")
    encoder = CountingEncoder(tiny(changed.pop("kind", "slm")), **changed)
    with pytest.raises(ValueError, match=f"different settings.*{message}"):
        store(rows, tmp_path, encoder, mode=mode)
    assert encoder.encoded == []


def test_damaged_vectors_are_named(rows, tmp_path):
    store(rows, tmp_path)
    np.save(tmp_path / "part-00001.npy", np.zeros((1, 2, 12), np.float32))
    with pytest.raises(ValueError, match=r"vectors of 10 rows.*with 7.*Remove it"):
        store(rows, tmp_path)


def test_cut_rows_are_reported(rows, tmp_path):
    reports = []
    encoder = CountingEncoder(tiny("slm"), max_length=8)
    store(rows, tmp_path, encoder, reports)
    longer = [row for row in rows[:10] if len(" ".join(row).split()) > 4]
    assert reports == [
        f"Rows of texts that were too long and cut: {len(longer)} of 10 encoded now"
    ]
    # A resumed job counts its own rows.
    (tmp_path / "part-00000.npy").unlink()
    store(rows, tmp_path, encoder, reports)
    assert reports[1].endswith(f" of {ROWS_PER_PART} encoded now")
