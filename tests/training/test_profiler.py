import dataclasses

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from seg_tf.training.profiler import Profiler


@dataclasses.dataclass
class Run:
    """A run that only calls the profiler."""

    profiler: Profiler
    reports: list

    def train(self, last, done=0):
        self.profiler.start(done)
        for number in range(done + 1, last + 1):
            with self.profiler.update(number):
                tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]))


@pytest.fixture
def run(tmp_path):
    reports = []
    return Run(Profiler(range(3, 6), tmp_path, reports.append), reports)


def profiles(folder):
    """For each profile, the numbers of its updates and the names of its events."""
    found = []
    for path in sorted(folder.glob("plugins/profile/*/*.xplane.pb")):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        steps, names = [], set()
        for plane in space.planes:
            stats = plane.stat_metadata
            for event in (event for line in plane.lines for event in line.events):
                name = plane.event_metadata[event.metadata_id].name
                names.add(name)
                values = {
                    stats[stat.metadata_id].name: stat.int64_value
                    for stat in event.stats
                }
                if name == "train":
                    steps.append(values["step_num"])
        found.append((steps, names))
    return found


def test_profile_is_of_the_updates_asked_for(run, tmp_path):
    run.train(last=10)
    ((steps, names),) = profiles(tmp_path)
    assert steps == [3, 4, 5]
    assert any("MatMul" in name for name in names)
    assert run.reports == [f"Profile of updates 3 to 5: {tmp_path}/plugins/profile"]


def test_run_that_ends_within_the_range_leaves_what_it_has(run, tmp_path):
    run.train(last=4)
    run.profiler.close()
    ((steps, _),) = profiles(tmp_path)
    assert steps == [3, 4]
    assert "updates 3 to 4" in run.reports[0]


def test_run_resumed_within_the_range_profiles_the_rest(run, tmp_path):
    run.train(last=8, done=4)
    ((steps, _),) = profiles(tmp_path)
    assert steps == [5]


def test_run_resumed_after_the_range_says_that_there_is_no_profile(run, tmp_path):
    run.train(last=8, done=5)
    assert not profiles(tmp_path)
    assert run.reports == [
        "No profile is written: the run goes on after update 5, the last to be "
        "profiled is 5"
    ]


def test_profile_that_fails_does_not_end_the_run(run, monkeypatch):
    def stop():
        raise tf.errors.UnavailableError(None, None, "the disk is full")

    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: None)
    monkeypatch.setattr(tf.profiler.experimental, "stop", stop)
    run.train(last=8)
    assert run.reports == ["No profile is written: the disk is full"]
