"""Several folders of records read as one: exact shares, rows as of each alone."""

import itertools

import numpy as np
import pytest

from seg_tf.config import build_from
from seg_tf.data.inputs import (
    MaskingConfig,
    MixtureInputs,
    PackedWindowInputsConfig,
    WindowInputsConfig,
)
from seg_tf.data.manifest import Manifest
from tests.data.test_sample_order import slow_order
from tests.data.test_window_inputs import assert_same_rows, take
from tests.data_pipelines.builders import random_tree, write_windows

pytestmark = pytest.mark.slow
WEIGHTS = {"books": 1, "domain": 2, "wikipedia": 3}
LENGTH = 40
VOCAB_SIZE = 500
MASKING = MaskingConfig(max_predictions=6)
CONFIGS = {
    "windows": WindowInputsConfig(window_length=LENGTH, masking=MASKING),
    "packed": PackedWindowInputsConfig(
        window_length=LENGTH, masking=MASKING, max_windows_per_row=5
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("sources")
    # Windows of the first are short: packed rows have more of them, and predictions.
    for number, (name, length) in enumerate(zip(WEIGHTS, (9, 90, 60), strict=True)):
        generator = np.random.default_rng(number)

        def documents(count, generator=generator, length=length):
            return [random_tree(generator, length, VOCAB_SIZE) for _ in range(count)]

        write_windows(
            root / name,
            {"train": [documents(7 + number)], "validation": [documents(3 + number)]},
            window_length=LENGTH,
            vocab_size=VOCAB_SIZE,
        )
    return {name: root / name for name in WEIGHTS}


def read(folder, rows="windows", seed=0):
    tables = {"position_index": LENGTH}
    return build_from(CONFIGS[rows], records_dir=folder, index_tables=tables, seed=seed)


def mix(folders, rows="windows", weights=None):
    return MixtureInputs(
        folders=folders,
        weights=weights or WEIGHTS,
        read=lambda folder: read(folder, rows),
    )


def test_an_epoch_ends_when_every_source_was_read_to_its_end(folders):
    inputs = mix(folders)
    sizes = [source.inputs.num_train_samples for source in inputs.sources.values()]
    unread = [set(range(size)) for size in sizes]
    samples = 0
    for source, number in slow_order(list(WEIGHTS.values())):
        if samples % sum(WEIGHTS.values()) == 0 and not any(unread):
            break
        unread[source].discard(number)
        samples += 1
    assert inputs.num_train_samples == samples
    assert inputs.num_validation_samples == sum(
        read(folder).num_validation_samples for folder in folders.values()
    )


def test_rows_are_those_of_each_source_alone_in_exact_numbers(folders):
    inputs = mix(folders, "packed")
    count = 3 * inputs.num_train_samples
    found = take(inputs.train_dataset(7), count)
    np.testing.assert_array_equal(found.pop("sample_number"), np.arange(count))
    order = itertools.islice(slow_order(list(WEIGHTS.values())), count)
    of_sample = np.array([source for source, _ in order])
    width = found["masked_ids"].shape[1]
    for number, (name, folder) in enumerate(folders.items()):
        (samples,) = np.nonzero(of_sample == number)
        assert len(samples) == count // sum(WEIGHTS.values()) * WEIGHTS[name]
        assert len(samples) == inputs.sources[name].num_samples(count)
        alone = read(folder, "packed")
        assert len(samples) >= 3 * alone.num_train_samples
        expected = take(alone.train_dataset(5), len(samples))
        del expected["sample_number"]
        # Shorter lists of predictions are filled up with nothing.
        for feature in ("masked_positions", "masked_ids", "masked_weights"):
            missing = width - expected[feature].shape[1]
            expected[feature] = np.pad(expected[feature], [(0, 0), (0, missing)])
        assert_same_rows({one: found[one][samples] for one in found}, expected)


def test_shares_are_weighted_means_and_samples_name_their_source(folders):
    inputs = mix(folders, "packed")
    alone = {name: read(folder, "packed") for name, folder in folders.items()}
    mean = sum(WEIGHTS[name] * alone[name].fill for name in alone) / 6
    assert inputs.fill == pytest.approx(mean)
    # Blocks are of wikipedia, domain, books, wikipedia, domain and wikipedia.
    of_domain = alone["domain"].describe_sample(2)
    assert inputs.describe_sample(7) == f"sample 7 (domain: {of_domain})"
    assert inputs.vocab_checksum == alone["books"].vocab_checksum
    assert inputs.text_preparation.described() == (
        alone["books"].text_preparation.described()
    )


@pytest.mark.parametrize("field", ["sha256", "lower_case"])
def test_sources_of_other_vocabularies_are_refused(folders, tmp_path, field):
    manifest = Manifest.load(folders["books"])
    manifest.vocabulary[field] = "0" * 64 if field == "sha256" else False
    manifest.save(tmp_path)
    both = {"books": folders["books"], "other": tmp_path}
    with pytest.raises(ValueError, match="must agree in `vocabulary`") as caught:
        mix(both, weights=dict.fromkeys(both, 1))
    assert str(tmp_path) in str(caught.value)
