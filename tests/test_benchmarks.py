"""Parts of the benchmarks of the step: made batches and cases."""

import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import accelerator_cases, made_batches
from seg_tf.features import FEATURES

CASES = accelerator_cases.all_cases(accelerator_cases.ENGINES, on_gpu=False)


@pytest.mark.parametrize(
    "case",
    {(case.model, case.packed, case.fused): case for case in CASES}.values(),
    ids=lambda case: case.name,
)
def test_made_batches_keep_the_batch_contract(case):
    config = case.config()
    rows = config.training.batch_size
    batch = made_batches.make_batch(config, case.vocab_size, rows)
    sizes = {"B": rows, "L": case.length}
    for name, value in batch.items():
        assert value.dtype == FEATURES[name].dtype, name
        for letter, size in zip(FEATURES[name].shape, value.shape, strict=True):
            assert sizes.setdefault(letter, size) == size, name
    assert batch["padding_mask"].all()
    for name, table_rows in getattr(config.model, "index_tables", {}).items():
        assert 0 <= batch[name].min() <= batch[name].max() < table_rows, name
    if "gold_candidates" in batch:
        for ids, places, gold in zip(
            batch["sentence_id"],
            batch["candidate_positions"],
            batch["gold_candidates"],
            strict=True,
        ):
            # Candidates have consecutive ids; in gold order they rise.
            np.testing.assert_array_equal(ids[places], np.arange(len(places)))
            assert (np.diff(places[gold]) > 0).all()


WITHOUT_TENSORFLOW = """
import dataclasses, sys
for name in ("tensorflow", "tensorflow_text"):
    sys.modules[name] = None  # importing it fails
from benchmarks import accelerator, accelerator_case, made_batches
from seg_tf.configs import segabert
from seg_tf.training import build, throughput
run = segabert.RUNS["tiny"]
config = dataclasses.replace(
    run,
    model=dataclasses.replace(run.model, num_layers=1, hidden_size=8),
    training=dataclasses.replace(run.training, batch_size=2),
)
batch = made_batches.make_batch(config, 50, 2)
learner = build.build_learner_from_batch(config, 50, batch)
learner.make_update(iter([batch]))
print(learner.updates, learner.tokens, throughput.flops_per_update(config, 50) > 0)
"""


@pytest.mark.slow
def test_jax_trains_on_made_batches_without_tensorflow():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["1", "256", "True"], done.stderr[-2000:]
