"""Runs on a mixture: stopped and resumed, validated, refused where it has changed."""

import numpy as np
import pytest

from seg_tf.data import record_sources
from seg_tf.training import build, run_folder, throughput
from seg_tf.training.errors import Interrupted
from tests.data_pipelines.builders import random_tree, write_windows
from tests.training.stand_ins import (
    LENGTH,
    VOCAB_SIZE,
    At,
    pretrain,
    small_config,
    terminate,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    """Inputs from two folders of records, and their description."""
    root = tmp_path_factory.mktemp("sources")
    for seed, name in enumerate(("books", "wikipedia")):
        generator = np.random.default_rng(seed)
        train, held_out = (
            [random_tree(generator, 40, VOCAB_SIZE) for _ in range(count)]
            for count in (10, 4)
        )
        write_windows(
            root / name,
            {"train": [train], "validation": [held_out]},
            window_length=LENGTH,
            vocab_size=VOCAB_SIZE,
        )
    sources = record_sources.parse(f"{root}/wikipedia:3,{root}/books:2")
    inputs = build.build_inputs(small_config(), sources)
    return inputs, record_sources.describe(sources)


def run(folder, mixture, *callbacks):
    inputs, records = mixture
    _, result = pretrain(folder, small_config(), inputs, *callbacks, records=records)
    return result, [
        {name: value for name, value in row.items() if name not in throughput.FIGURES}
        for row in run_folder.read_log(folder / "log.jsonl")
    ]


def weights_of(folder):
    with np.load(folder / "checkpoints/update-00000020/training_state.npz") as archive:
        return {name: archive[name] for name in archive.files}


@pytest.fixture(scope="module")
def unbroken(mixture, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    return folder, *run(folder, mixture)


def test_run_stopped_in_the_middle_equals_an_unbroken_one(mixture, unbroken, tmp_path):
    folder, result, rows = unbroken
    # While the sources are validated, in a block of five samples: after 32.
    with pytest.raises(Interrupted):
        run(tmp_path, mixture, At(8, terminate, "test"))
    assert run(tmp_path, mixture) == (result, rows)
    np.testing.assert_equal(weights_of(tmp_path), weights_of(folder))


def test_the_weighted_mean_of_the_sources_picks_the_best_checkpoint(unbroken):
    _, result, rows = unbroken
    losses = {}
    for row in rows:
        if row["kind"] == run_folder.VALIDATION:
            mean = (2 * row["books/loss"] + 3 * row["wikipedia/loss"]) / 5
            assert row["loss"] == pytest.approx(mean)
            assert row["books/loss"] != row["wikipedia/loss"]
            losses[row["updates"]] = row["loss"]
    assert [*losses] == [8, 16, 20]
    assert result.best_loss == min(losses.values())
    assert losses[result.best_updates] == result.best_loss
