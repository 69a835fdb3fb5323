import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seg_tf.training.logs import EventFile


def read(folder):
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
    assert read(tmp_path) == {
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
    assert read(tmp_path)["loss"] == steps_and_values
