"""Lanes of a stream: rows word by word, ranks, resuming, held-out targets."""

import itertools

import numpy as np
import pytest

from seg_tf import features
from seg_tf.config import build_from
from seg_tf.data.inputs import LaneInputsConfig
from seg_tf.data.manifest import Manifest
from tests.data.test_window_inputs import assert_same_rows, joined
from tests.data_pipelines.builders import SPECIAL_IDS, random_tree, write_word_documents

VOCAB_SIZE = 300


def flatten(shards_of_documents):
    """(word, sentence, paragraph) of each word, counted through, by loops."""
    flat = []
    sentence = paragraph = -1
    for tree in itertools.chain.from_iterable(shards_of_documents):
        words = iter(tree.token_ids.tolist())
        lengths = iter(tree.sentence_lengths.tolist())
        for num_sentences in tree.paragraph_lengths.tolist():
            paragraph += 1
            for _ in range(num_sentences):
                sentence += 1
                for _ in range(next(lengths)):
                    flat.append((next(words), sentence, paragraph))
            flat.append((0, sentence, paragraph))  # <eos>
    return flat


TARGET_LENGTH = 7
COUNTERS = ("stream_token", "stream_sentence", "stream_paragraph")


def documents():
    generator = np.random.default_rng(3)

    def made(count, longest):
        return [random_tree(generator, longest, VOCAB_SIZE) for _ in range(count)]

    return {"train": [made(4, 90), made(20, 6)], "validation": [[], made(3, 100)]}


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    write_word_documents(folder, documents(), vocab_size=VOCAB_SIZE)
    return folder


@pytest.fixture(scope="module")
def flat():
    """(word, sentence, paragraph) of every word of each split."""
    return {split: flatten(shards) for split, shards in documents().items()}


def build(records_dir, validation_lanes=3, **arguments):
    config = LaneInputsConfig(
        target_length=TARGET_LENGTH, validation_lanes=validation_lanes
    )
    return build_from(config, records_dir=records_dir, seed=0, **arguments)


def batches(dataset, count=None):
    return [
        {name: tensor.numpy() for name, tensor in batch.items()}
        for batch in itertools.islice(dataset, count)
    ]


def word_at(flat, position):
    """Word and counters at a place of the endless stream, by definition."""
    epoch, place = divmod(position, len(flat))
    word, sentence, paragraph = flat[place]
    _, last_sentence, last_paragraph = flat[-1]
    return (
        word,
        position,
        sentence + epoch * (last_sentence + 1),
        paragraph + epoch * (last_paragraph + 1),
    )


def slow_batch(flat, step, num_lanes):
    """The batch of a training step as the loops it is."""
    names = ("token_ids", *COUNTERS)
    batch = {name: np.zeros((num_lanes, TARGET_LENGTH), np.int32) for name in names}
    batch["target_ids"] = np.zeros((num_lanes, TARGET_LENGTH), np.int32)
    for lane in range(num_lanes):
        begin = lane * (len(flat) // num_lanes) + step * TARGET_LENGTH
        for column in range(TARGET_LENGTH):
            for name, value in zip(names, word_at(flat, begin + column), strict=True):
                batch[name][lane, column] = value
            batch["target_ids"][lane, column] = word_at(flat, begin + column + 1)[0]
    batch["padding_mask"] = np.ones((num_lanes, TARGET_LENGTH), bool)
    batch["lane"] = np.arange(num_lanes)
    batch["sample_number"] = step * num_lanes + np.arange(num_lanes)
    return batch


# --- Training ---------------------------------------------------------------------


def test_features_keep_the_contract(records_dir):
    inputs = build(records_dir)
    dataset = inputs.train_dataset(4)
    specs = features.tensor_specs(inputs.feature_names, {"B": 4, "L": TARGET_LENGTH})
    element = dataset.element_spec
    batch = next(iter(dataset))
    assert element.keys() == batch.keys() == specs.keys()
    for name, (shape, dtype) in specs.items():
        # Static, not only what the first batch happens to have.
        assert element[name].shape == batch[name].shape == shape, name
        assert batch[name].dtype == dtype, name


@pytest.mark.parametrize("num_lanes", [1, 2, 4])
def test_lanes_go_on_over_the_end_of_the_corpus(records_dir, flat, num_lanes):
    length = len(flat["train"])
    assert length % num_lanes or num_lanes == 1  # some words are in no lane
    num_steps = 2 * length // TARGET_LENGTH + 2
    found = batches(build(records_dir).train_dataset(num_lanes), num_steps)
    for step, batch in enumerate(found):
        assert_same_rows(batch, slow_batch(flat["train"], step, num_lanes))
    assert found[-1]["stream_token"][0, -1] > 2 * length


@pytest.mark.parametrize(
    ("num_ranks", "micro_batch_size"), [(1, None), (2, None), (3, None), (4, 1), (4, 2)]
)
def test_ranks_share_the_lanes(records_dir, flat, num_ranks, micro_batch_size):
    """Also where they take unlike numbers of micro-batches."""
    inputs = build(records_dir)
    lanes = 12 if micro_batch_size is None else 10
    of_ranks = [
        batches(
            inputs.train_dataset(
                lanes, rank=rank, num_ranks=num_ranks, micro_batch_size=micro_batch_size
            ),
            5,
        )
        for rank in range(num_ranks)
    ]
    for step, parts in enumerate(zip(*of_ranks, strict=True)):
        assert_same_rows(joined(parts), slow_batch(flat["train"], step, lanes))
    if micro_batch_size:
        sizes = {len(parts[0]["lane"]) for parts in of_ranks}
        assert len(sizes) == 2


@pytest.mark.parametrize("steps_before", [1, 4, 300])
def test_a_resumed_run_reads_on(records_dir, flat, steps_before):
    resumed = build(records_dir).train_dataset(4, first_sample=4 * steps_before)
    for step, batch in enumerate(batches(resumed, 3), start=steps_before):
        assert_same_rows(batch, slow_batch(flat["train"], step, 4))


def test_counters_beyond_int32_keep_their_differences(records_dir, flat):
    """As after four billion words; the differences are all that models read."""
    step = 2**32 // TARGET_LENGTH + 1
    lanes = build(records_dir).train_dataset(2, first_sample=2 * step)
    (batch,) = batches(lanes, 1)
    for lane in range(2):
        begin = lane * (len(flat["train"]) // 2) + step * TARGET_LENGTH
        expected = [
            word_at(flat["train"], begin + column) for column in range(TARGET_LENGTH)
        ]
        for number, name in enumerate(COUNTERS, start=1):
            exact = np.array([values[number] for values in expected], np.int64)
            np.testing.assert_array_equal(batch[name][lane], exact.astype(np.int32))
            np.testing.assert_array_equal(np.diff(batch[name][lane]), np.diff(exact))
    assert begin > 2**32


def test_too_few_words_for_the_lanes_are_refused(records_dir, flat):
    inputs = build(records_dir)
    most = len(flat["train"]) // TARGET_LENGTH
    inputs.train_dataset(most)
    with pytest.raises(ValueError, match=f"words for {most + 1} lanes.*batch_size"):
        inputs.train_dataset(most + 1)


# --- Validation -------------------------------------------------------------------


@pytest.mark.parametrize("validation_lanes", [1, 3, 10])
@pytest.mark.parametrize(
    ("batch_size", "num_ranks"), [(1, 1), (4, 1), (30, 1), (4, 2), (6, 3), (30, 3)]
)
def test_every_held_out_target_is_predicted_once(
    records_dir, flat, validation_lanes, batch_size, num_ranks
):
    flat = flat["validation"]
    inputs = build(records_dir, validation_lanes)
    by_rank = [
        batches(inputs.validation_dataset(batch_size, rank=rank, num_ranks=num_ranks))
        for rank in range(num_ranks)
    ]
    assert len({len(parts) for parts in by_rank}) == 1
    everything = list(itertools.chain(*by_rank))
    for batch in everything:
        assert len(batch["lane"]) <= batch_size // num_ranks
        assert len(set(batch["lane"])) == len(batch["lane"])
    rows = joined(everything)
    mask = rows["padding_mask"]
    places = rows["stream_token"][mask]
    assert sorted(places.tolist()) == list(range(len(flat) - 1))
    for name, column in (
        ("token_ids", 0),
        ("stream_sentence", 1),
        ("stream_paragraph", 2),
    ):
        expected = [flat[place][column] for place in places]
        np.testing.assert_array_equal(rows[name][mask], expected, err_msg=name)
    expected = [flat[place + 1][0] for place in places]
    np.testing.assert_array_equal(rows["target_ids"][mask], expected)
    for name in ("token_ids", "target_ids"):
        assert not rows[name][~mask].any()
    assert len(mask) == inputs.num_validation_samples
    assert sorted(rows["sample_number"]) == list(range(len(mask)))


# --- Records ----------------------------------------------------------------------


def test_documents_of_word_pieces_are_refused(tmp_path):
    manifest = write_word_documents(tmp_path, documents(), vocab_size=VOCAB_SIZE)
    manifest.vocabulary["tokenizer"] = "word_pieces"
    manifest.vocabulary["special_ids"] = SPECIAL_IDS
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path).tokenizer == "word_pieces"
    with pytest.raises(ValueError, match="found documents of word_pieces"):
        build(tmp_path)
