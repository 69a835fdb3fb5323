"""Common to all inputs: the contract of features, and the order of samples."""

import functools

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
    """A function that builds inputs, those of seed 0, and the sizes of dimensions."""
    write, build, sizes = FORMS[request.param]
    folder = write(tmp_path_factory.mktemp("records"))
    return functools.partial(build, folder), build(folder), sizes


@pytest.fixture(name="dataset", scope="module")
def _dataset(form):
    return form[1].train_dataset(7)


def test_features_keep_the_contract(form, dataset):
    batch = next(iter(dataset))
    sizes = {"B": 7, "P": batch["masked_ids"].shape[1], **form[2]}
    specs = features.tensor_specs(batch, sizes)
    assert batch.keys() == dataset.element_spec.keys()
    assert dataset.options().autotune.enabled is False  # It closes at once.
    for name, (shape, dtype) in specs.items():
        # Static, not only what the first batch happens to have.
        assert dataset.element_spec[name].shape == batch[name].shape == shape, name
        assert batch[name].dtype == dtype, name


def test_a_sample_depends_on_nothing_but_its_number(form, dataset):
    build, inputs, _ = form
    size = inputs.num_train_samples
    count = size + 24
    expected = take(dataset, count)
    assert expected["sample_number"].tolist() == list(range(count))
    # In other batches, resumed inside the first epoch.
    resumed = take(inputs.train_dataset(13, first_sample=5), count - 5)
    assert_same_rows(resumed, {k: v[5:] for k, v in expected.items()})
    by_ranks = take_by_ranks(inputs, 6, 2, 4)
    assert_same_rows(by_ranks, {k: v[:24] for k, v in expected.items()})
    other = take(build(seed=1).train_dataset(1), 24)
    assert not np.array_equal(other["token_ids"], expected["token_ids"][:24])


def test_validation_is_complete_the_same_each_time_and_shared_by_ranks(form):
    _, inputs, _ = form
    size = inputs.num_validation_samples
    first = take(inputs.validation_dataset(4), 10**6)
    assert len(first["token_ids"]) == size
    limited = take(inputs.validation_dataset(3, max_samples=2), 2)
    assert_same_rows(limited, {k: v[:2] for k, v in first.items()})
    # The second rank has nothing left for the last batch.
    ranks = [
        list(inputs.validation_dataset(2 * -(-size // 3), rank=rank, num_ranks=2))
        for rank in range(2)
    ]
    parts = [part for parts in zip(*ranks, strict=True) for part in parts]
    shared = {name: np.concatenate([part[name] for part in parts]) for name in first}
    assert_same_rows(shared, first)


def test_batches_that_ranks_cannot_share_are_refused(form):
    with pytest.raises(ValueError, match="or of `num_ranks`"):
        form[1].train_dataset(8, rank=0, num_ranks=3)
