"""Two real processes, started by `horovodrun` on this machine.

Three micro-batches on two ranks: one of them has two.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from seg_tf.training.distribution import Distribution
from tests.training import horovod_worker

pytestmark = pytest.mark.slow

pytest.importorskip("horovod", reason="Horovod is not installed")

REPOSITORY = pathlib.Path(__file__).parents[2]
HOROVODRUN = pathlib.Path(sys.executable).parent / "horovodrun"
NUM_RANKS = 2


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, word_records, sentence_records):
    """Folder of what the ranks wrote, and results of each in the checks by name."""
    folder = tmp_path_factory.mktemp("ranks")
    call = [HOROVODRUN, "-np", NUM_RANKS, "--gloo", sys.executable, "-m"]
    call += ["tests.training.horovod_worker", folder, word_records, sentence_records]
    done = subprocess.run(
        list(map(str, call)),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HOROVOD_")
        },
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return folder, [
        json.loads((folder / f"rank-{rank}" / "found.json").read_text())
        for rank in range(NUM_RANKS)
    ]


def stored(folder, name):
    """The arrays of a file of each rank."""
    found = []
    for rank in range(NUM_RANKS):
        with np.load(folder / f"rank-{rank}" / name) as archive:
            found.append([archive[key] for key in archive.files])
    return found


def assert_close(ones, others, atol):
    assert len(ones) == len(others) > 10
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize("name", horovod_worker.CONFIGS)
def test_ranks_train_as_one_does(ranks, name):
    learner = horovod_worker.fit(horovod_worker.CONFIGS[name], Distribution())
    alone = horovod_worker.weights_of(learner)
    first, second = stored(ranks[0], f"{name}.npz")
    assert_close(second, first, atol=0)
    assert_close(first, alone, atol=2e-6 if name == "plain" else 5e-6)
    if name == "plain":
        alone = horovod_worker.validation_loss(learner, Distribution())
        for rank in ranks[1]:
            assert rank["training"] == pytest.approx(alone, rel=1e-5)


def test_sums_of_gradients_do_not_depend_on_their_groups(ranks):
    own = stored(ranks[0], "own_gradients.npz")
    expected = [sum(of_ranks) for of_ranks in zip(*own, strict=True)]
    for number in (1, 4, 5):
        for sums in stored(ranks[0], f"sums_{number}.npz"):
            assert_close(sums, expected, atol=0)
    # float16 loses little, but not nothing.
    for sums in stored(ranks[0], "sums_compressed.npz"):
        assert_close(sums, expected, atol=5e-3)
        differences = map(np.subtract, sums, expected)
        assert max(np.abs(difference).max() for difference in differences) > 1e-6


def test_ranks_remember_lanes_as_one_does(ranks, word_records):
    expected = horovod_worker.fit_words(Distribution(), word_records)
    memory = [one.numpy() for one in expected.memory.variables]
    for weights in stored(ranks[0], "words.npz"):
        assert_close(weights, horovod_worker.weights_of(expected), atol=2e-6)
    for of_rank in stored(ranks[0], "memory.npz"):
        for one, other in zip(of_rank, memory, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_bfloat16_is_collected_and_broadcast(ranks):
    for rank in ranks[1]:
        assert rank["half_precision"] == {
            "dtype": "bfloat16",
            "collected": [1.5, 2.5, 2.5],
            "broadcast": [1.5, 2.5, 2.5],
        }


def test_overflow_on_one_rank_is_skipped_on_all_alike(ranks):
    _, found = ranks
    one, other = (rank["overflow"] for rank in found)
    assert other == one
    assert one["updates"] == 3
    assert one["samples"] == 4 * 6
    assert one["skipped"] == 1
    assert one["loss_scale"] == 32.0
    assert np.isfinite(one["loss"])


@pytest.mark.parametrize("signalled", range(NUM_RANKS), ids=["chief", "other"])
def test_signal_to_one_rank_stops_all_after_the_same_update(ranks, signalled):
    folder, found = ranks
    for rank in found:
        stop = rank["stop"][signalled]
        assert stop["updates"] == 3
        assert "Stopped by SIGTERM after update 3 of 20" in stop["message"]
        assert (stop["is_common"], stop["curve"]) == (True, True)
    own = folder / f"stopped-{signalled}"
    assert (own / "by-0/checkpoints/update-00000003/state.json").exists()
    # Only the chief writes.
    assert [path.name for path in own.iterdir()] == ["by-0"]


def test_ranks_that_differ_all_end_and_name_the_difference(ranks):
    found = [rank["disagreements"] for rank in ranks[1]]
    for told in found:
        for name in list(told)[:2]:
            assert f"They differ in {name}\n" in told[name]
        assert "`--records_dir` must be a folder" in told["nowhere"]
        assert told["nothing"] == ""
    assert "Rank 1 on " in found[0]["nowhere"]
