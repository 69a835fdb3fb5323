"""Common to all inputs: the contract of features, and the order of samples."""

import numpy as np
import pytest

from seg_tf import features
from seg_tf.data.inputs import MixtureInputs, ShuffledWindowInputsConfig
from tests.data import test_packed_window_inputs as packed
from tests.data import test_reat_inputs as texts
from tests.data import test_sentence_inputs as sentences
from tests.data import test_window_inputs as windows
from tests.data.test_window_inputs import assert_same_rows, take, take_by_ranks

pytestmark = pytest.mark.slow
_LENGTHS = [*packed.EXTREMES, *np.random.default_rng(1).integers(1, 50, 40)]


def shuffled(folder, seed=0):
    return sentences.build(
        folder,
        seed,
        config_class=ShuffledWindowInputsConfig,
        index_tables=sentences.PLAIN_TABLES,
    )


def mixture(folder, seed=0):
    return MixtureInputs(
        folders={"one": folder, "other": folder},
        weights={"one": 2, "other": 1},
        read=lambda records_dir: windows.build(records_dir, seed),
    )


# How records are written and read, and the sizes of the features' dimensions.
FORMS = {
    "windows": (windows.write, windows.build, {"L": 32, "P": 6}),
    "packed": (lambda folder: packed.write(folder, _LENGTHS), packed.build, {"L": 32}),
    "sentences": (sentences.write, sentences.build, {"L": 46, "P": 6, "C": 8, "S": 7}),
    "shuffled": (sentences.write, shuffled, {"L": 40, "P": 6}),
    "texts": (texts.write, texts.build, {"L": 512, "P": 77, "N": 60}),
    "mixture": (windows.write, mixture, {"L": 32, "P": 6}),
}


@pytest.fixture(name="form", scope="module", params=FORMS)
def _form(request, tmp_path_factory):
    write, build, sizes = FORMS[request.param]
    return write(tmp_path_factory.mktemp("records")), build, sizes


def test_features_keep_the_contract(form):
    folder, build, sizes = form
    dataset = build(folder).train_dataset(4)
    batch = next(iter(dataset))
    sizes = {"B": 4, "P": batch["masked_ids"].shape[1], **sizes}
    specs = features.tensor_specs(batch, sizes)
    assert batch.keys() == dataset.element_spec.keys()
    for name, (shape, dtype) in specs.items():
        # Static, not only what the first batch happens to have.
        assert dataset.element_spec[name].shape == batch[name].shape == shape, name
        assert batch[name].dtype == dtype, name


def test_a_sample_depends_on_nothing_but_its_number(form):
    folder, build, _ = form
    inputs = build(folder)
    size = inputs.num_train_samples
    count = size + 24
    expected = take(inputs.train_dataset(7), count)
    assert expected["sample_number"].tolist() == list(range(count))
    assert_same_rows(take(inputs.train_dataset(13), count), expected)
    # Resumed inside the first epoch, and of rows that are no multiple of a batch.
    resumed = take(inputs.train_dataset(4, first_sample=size - 1), 25)
    assert_same_rows(resumed, {k: v[size - 1 :] for k, v in expected.items()})
    by_ranks = take_by_ranks(inputs, 6, 3, 4)
    assert_same_rows(by_ranks, {k: v[:24] for k, v in expected.items()})
    other = take(build(folder, seed=1).train_dataset(1), 24)
    assert not np.array_equal(other["token_ids"], expected["token_ids"][:24])


def test_validation_is_complete_the_same_each_time_and_shared_by_ranks(form):
    folder, build, _ = form
    inputs = build(folder)
    size = inputs.num_validation_samples
    first = take(inputs.validation_dataset(4), 10**6)
    assert len(first["token_ids"]) == size
    assert_same_rows(take(inputs.validation_dataset(3), 10**6), first)
    limited = take(inputs.validation_dataset(4, max_samples=2), 2)
    assert_same_rows(limited, {k: v[:2] for k, v in first.items()})
    # One rank has nothing left, in as many batches.
    ranks = [
        [batch["sample_number"].numpy() for batch in dataset]
        for dataset in (
            inputs.validation_dataset(2 * size, rank=rank, num_ranks=2)
            for rank in range(2)
        )
    ]
    assert len(ranks[0]) == len(ranks[1])
    together = np.concatenate([*ranks[0], *ranks[1]])
    assert sorted(together) == sorted(first["sample_number"])


def test_batches_that_ranks_cannot_share_are_refused(form):
    folder, build, _ = form
    with pytest.raises(ValueError, match="or of `num_ranks`"):
        build(folder).train_dataset(8, rank=0, num_ranks=3)
