"""Two and three real processes, started by `horovodrun` on this machine."""

import json
import os
import pathlib
import re
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


def run_ranks(number, folder, checks):
    """Results of each rank in the named checks."""
    call = [HOROVODRUN, "-np", number, "--gloo", sys.executable, "-m"]
    call += ["tests.training.horovod_worker", folder, ",".join(checks)]
    done = subprocess.run(
        list(map(str, call)),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        # So short that naming a late rank takes no longer than it has to.
        env={
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith("HOROVOD_")
            },
            "HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
        },
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return [
        json.loads((folder / f"rank-{rank}" / "found.json").read_text())
        for rank in range(number)
    ]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    return folder, run_ranks(2, folder, list(horovod_worker.CHECKS))


@pytest.fixture(scope="module")
def alone():
    """Weights of one process that saw the same global batches."""
    pretrainer = horovod_worker.fit(horovod_worker.train_config(), Distribution())
    return horovod_worker.weights_of(pretrainer)


def stored(folder, rank, name):
    with np.load(folder / f"rank-{rank}" / name) as archive:
        return [archive[key] for key in archive.files]


def assert_close(ones, others, atol):
    assert len(ones) == len(others) > 10
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def test_two_ranks_train_as_one_does_dropout_included(two, alone):
    folder, _ = two
    ranks = [stored(folder, rank, "weights.npz") for rank in range(2)]
    assert_close(ranks[0], alone, atol=2e-6)
    assert_close(*ranks, atol=0)


def test_three_ranks_with_unlike_shares_train_as_one_does(tmp_path, alone):
    # Four micro-batches on three ranks: one of them has two.
    run_ranks(3, tmp_path, ["training", "compression"])
    for rank in range(3):
        assert_close(stored(tmp_path, rank, "weights.npz"), alone, atol=2e-6)
        assert_close(stored(tmp_path, rank, "compressed.npz"), alone, atol=1e-3)


def test_compiled_ranks_train_as_one_does(two):
    folder, _ = two
    expected = horovod_worker.fit(
        horovod_worker.train_config(dropout=0.0), Distribution()
    )
    expected = horovod_worker.weights_of(expected)
    for rank in range(2):
        assert_close(stored(folder, rank, "compiled.npz"), expected, atol=5e-6)


def test_gradients_that_travel_as_float16_lose_little(two, alone):
    folder, _ = two
    ranks = [stored(folder, rank, "compressed.npz") for rank in range(2)]
    assert_close(*ranks, atol=0)
    assert_close(ranks[0], alone, atol=1e-3)
    differences = [
        np.abs(one - other).max() for one, other in zip(ranks[0], alone, strict=True)
    ]
    assert max(differences) > 1e-6  # so they did


def test_two_ranks_remember_lanes_as_one_does(two, tmp_path):
    folder, _ = two
    expected = horovod_worker.fit_words(Distribution(), tmp_path)
    memory = [one.numpy() for one in expected.memory.variables]
    for rank in range(2):
        weights = horovod_worker.weights_of(expected)
        assert_close(stored(folder, rank, "words.npz"), weights, atol=2e-6)
        for one, other in zip(stored(folder, rank, "memory.npz"), memory, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_late_rank_is_named_and_waited_for(two):
    _, found = two
    assert [rank["late"][0] for rank in found] == [2.0, 2.0]
    assert re.search(r"Missing ranks:\n1: \[Horovod", found[0]["late"][1]), found


def test_bfloat16_is_collected_and_broadcast(two):
    _, found = two
    for rank in found:
        assert rank["half_precision"] == {
            "dtype": "bfloat16",
            "is_chief_s": True,
            "no_lane_is_empty": True,
        }


def test_overflow_on_one_rank_is_skipped_on_all_alike(two):
    _, found = two
    one, other = (rank["overflow"] for rank in found)
    assert one == other
    assert one["updates"] == 3
    assert one["samples"] == 4 * 8
    assert one["skipped"] == 1
    assert one["loss_scale"] == 32.0
    assert np.isfinite(one["loss"])


def test_signal_to_one_rank_stops_all_after_the_same_update(two):
    folder, found = two
    assert [rank["stop"]["updates"] for rank in found] == [3, 3]
    for rank in found:
        assert "Stopped by SIGTERM after update 3 of 20" in rank["stop"]["message"]
    assert (folder / "stopped-0/checkpoints/update-00000003/state.json").exists()
    assert not (folder / "stopped-1").exists()  # only the chief writes


def test_samples_without_finite_loss_are_named_whichever_rank_had_them(two):
    _, found = two
    for rank in found:
        message = rank["bad_samples"]["message"]
        # From step 4 on; the third skipped step is number 6, samples 40 to 47.
        assert "after update 3: the 3 steps after it were all skipped" in message
        assert ", ".join(f"sample {number}" for number in range(40, 48)) in message


def test_objects_go_from_the_chief_and_from_all(two):
    _, found = two
    for rank in found:
        assert rank["objects"]["gathered"] == ["from 0", "from 1"]
        assert rank["objects"]["broadcast"] == "from 0"
