import time

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seg_tf.training import run_folder
from seg_tf.training.logs import EventFile, RunLog


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


def test_last_value_before_the_resumed_update_is_kept(log_file):
    assert RunLog(log_file, updates=4).last("loss") == 1 / 4
    assert RunLog(log_file, updates=0).last("loss") is None
    assert not RunLog(log_file).has_rows


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


def read_events(folder):
    accumulator = EventAccumulator(str(folder), purge_orphaned_data=True)
    accumulator.Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_the_scalars(tmp_path):
    events = EventFile(tmp_path)
    events.write(1, {"train/loss": 2.0, "train/accuracy": 0.25})
    events.write(2, {"train/loss": 1.5})
    assert read_events(tmp_path) == {
        "train/loss": [(1, 2.0), (2, 1.5)],  # written before it is closed
        "train/accuracy": [(1, 0.25)],
    }
    events.close()


def test_tensorboard_forgets_what_a_killed_process_did_after_its_checkpoint(tmp_path):
    first = EventFile(tmp_path)
    for updates in range(1, 8):
        first.write(updates, {"loss": 0.0})
    first.close()
    time.sleep(0.01)
    second = EventFile(tmp_path, updates=4)
    for updates in range(5, 8):
        second.write(updates, {"loss": 1.0})
    second.close()
    steps_and_values = [(step, 0.0 if step <= 4 else 1.0) for step in range(1, 8)]
    assert read_events(tmp_path)["loss"] == steps_and_values
