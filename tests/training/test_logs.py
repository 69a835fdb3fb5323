import pytest

from seg_tf.training import run_folder
from seg_tf.training.logs import RunLog


def rows_of(path):
    return [(row["kind"], row["updates"]) for row in run_folder.read_log(path)]


@pytest.fixture
def log_file(tmp_path):
    """The log of a run killed after 7 updates, validated after 3 and 6."""
    path = tmp_path / "log.jsonl"
    log = RunLog(path)
    for updates in range(1, 8):
        log.write("train", updates, {"loss": 1 / updates})
        if updates % 3 == 0:
            log.write("validation", updates, {"loss": 2 / updates})
    return path


def test_rows_after_the_resumed_update_are_dropped(log_file):
    log = RunLog(log_file, updates=4)
    log.write("train", 5, {"loss": 9.0})
    assert rows_of(log_file) == [
        ("train", 1),
        ("train", 2),
        ("train", 3),
        ("validation", 3),
        ("train", 4),
        ("train", 5),
    ]
    assert run_folder.read_log(log_file)[-1]["loss"] == 9.0


@pytest.mark.parametrize("validated", [False, True])
def test_validation_at_the_resumed_update_stays_only_if_it_is_done(log_file, validated):
    RunLog(log_file, updates=6, validated=validated)
    assert (("validation", 6) in rows_of(log_file)) == validated
    assert ("validation", 3) in rows_of(log_file)
    assert ("train", 6) in rows_of(log_file)


def test_line_cut_off_by_a_kill_is_dropped(log_file):
    with open(log_file, "a") as file:
        file.write('{"kind": "train", "upda')
    assert rows_of(log_file)[-1] == ("train", 7)
    RunLog(log_file, updates=7).write("train", 8, {})
    assert rows_of(log_file)[-2:] == [("train", 7), ("train", 8)]


def test_broken_line_in_the_middle_is_named(log_file):
    lines = log_file.read_text().splitlines()
    lines[2] = "{"
    log_file.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"log\.jsonl:3: not valid JSON"):
        run_folder.read_log(log_file)
