"""Parts of the benchmarks of the step: made batches and cases."""

import numpy as np
import pytest

from benchmarks import accelerator_cases, made_batches
from seg_tf.features import FEATURES

ON_GPU, ON_CPU = (
    accelerator_cases.all_cases(accelerator_cases.ENGINES, on_gpu=on_gpu)
    for on_gpu in (True, False)
)
ONE_OF_EACH_MODEL = {(one.model, one.packed, one.fused): one for one in ON_CPU}.values()


@pytest.mark.parametrize("cases", [ON_GPU, ON_CPU], ids=["GPU", "CPU"])
def test_no_two_cases_have_a_name_in_common(cases):
    names = [case.name for case in cases]
    assert len(set(names)) == len(names) > 40
    assert {case.engine for case in cases} == set(accelerator_cases.ENGINES)


@pytest.mark.parametrize("case", ONE_OF_EACH_MODEL, ids=lambda case: case.name)
def test_made_batches_keep_the_batch_contract(case):
    config = case.config()
    rows = config.training.batch_size
    batch = made_batches.make_batch(config, case.vocab_size, rows)
    sizes = {"B": rows, "L": case.length}
    for name, value in batch.items():
        feature = FEATURES[name]
        assert value.dtype == feature.dtype, name
        for letter, size in zip(feature.shape, value.shape, strict=True):
            assert sizes.setdefault(letter, size) == size, name
    assert batch["padding_mask"].all()
    tables = getattr(config.model, "index_tables", {})
    for name, table_rows in tables.items():
        assert 0 <= batch[name].min() <= batch[name].max() < table_rows, name


def test_a_made_row_of_shuffled_sentences_points_at_its_sentences():
    case = next(one for one in ON_CPU if one.model.startswith("SLM"))
    batch = made_batches.make_batch(case.config(), case.vocab_size, 2)
    for ids, places, gold in zip(
        batch["sentence_id"],
        batch["candidate_positions"],
        batch["gold_candidates"],
        strict=True,
    ):
        # Candidates are told by the ids at their positions, in order as presented.
        np.testing.assert_array_equal(ids[places], np.arange(len(places)))
        # In gold order they lie from left to right.
        assert (np.diff(places[gold]) > 0).all()
