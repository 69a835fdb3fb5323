"""Text as a stream of words: counters, blank lines, segments as in training."""

import numpy as np
import pytest

from seg_tf.config import build_from
from seg_tf.data.inputs import LaneInputsConfig
from seg_tf.inference import word_segments
from tests.inference import tiny_language_model as tiny
from tests.sample_data import sample_data


@pytest.fixture(scope="module")
def model(language_model_dir):
    return tiny.load(language_model_dir)


def read(model, folder, *contents):
    sources = {}
    for number, content in enumerate(contents):
        sources[str(number)] = folder / f"{number}.txt"
        sources[str(number)].write_text(content)
    return word_segments.read_text(sources, model)


def test_words_know_their_sentence_and_paragraph(model, tmp_path):
    text = read(model, tmp_path, tiny.TEXT)
    assert text.token_ids.tolist() == tiny.ids_of(tiny.WORDS_OF_TEXT)
    assert text.sentences.tolist() == tiny.SENTENCES_OF_TEXT
    assert text.paragraphs.tolist() == tiny.PARAGRAPHS_OF_TEXT
    assert (text.num_lines, text.num_blank_lines) == (5, 2)
    # Three <eos> that are there, two of the blank lines that are not.
    assert text.num_standard_tokens == len(tiny.WORDS_OF_TEXT) + 2


def test_files_are_read_as_one(model, tmp_path):
    once = read(model, tmp_path, tiny.TEXT)
    twice = read(model, tmp_path, tiny.TEXT, "", tiny.TEXT)
    assert twice.token_ids.tolist() == once.token_ids.tolist() * 2
    np.testing.assert_array_equal(twice.sentences[31:], once.sentences + 6)
    np.testing.assert_array_equal(twice.paragraphs[31:], once.paragraphs + 3)
    assert twice.num_lines == 10


def test_wikitext_has_its_standard_count(model):
    path = sample_data("wikitext-2", "wiki.valid.tokens")
    text = word_segments.read_text({"": path}, model)
    assert text.num_standard_tokens == 217_646
    assert len(text.token_ids) + text.num_blank_lines == 217_646


@pytest.fixture(scope="module")
def text_and_records(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    text = read(model, folder, tiny.TEXT)
    return text, tiny.build_records(folder, tmp_path_factory.mktemp("records"))


@pytest.mark.parametrize("lanes", [1, 3, 7, 30])
@pytest.mark.parametrize("target_length", [1, 6, 40])
def test_segments_are_those_of_validation(text_and_records, lanes, target_length):
    text, records_dir = text_and_records
    inputs = build_from(
        LaneInputsConfig(target_length=target_length, validation_lanes=lanes),
        records_dir=records_dir,
        seed=0,
    )
    dataset = inputs.validation_dataset(lanes, split="train")
    found = list(word_segments.segments(text, lanes, target_length))
    for batch, expected in zip(found, dataset.as_numpy_iterator(), strict=True):
        for name, values in batch.items():
            assert values.dtype == expected[name].dtype
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
    num_targets = sum(batch["padding_mask"].sum() for batch in found)
    assert num_targets == len(text.token_ids) - 1


def test_counters_wrap_around_where_they_leave_int32(model, tmp_path):
    text = word_segments.WordText(
        token_ids=np.array([5, 6, 7], np.int32),
        sentences=np.array([2**31 - 1, 2**31, 2**31]),
        paragraphs=np.zeros(3, np.int64),
        num_lines=1,
        num_standard_tokens=3,
    )
    (batch,) = word_segments.segments(text, 1, 2)
    assert batch["stream_sentence"].tolist() == [[2**31 - 1, -(2**31)]]


@pytest.mark.parametrize("content", ["", "\n \n", "The w1"])
def test_too_little_text_is_refused(model, tmp_path, content):
    text = read(model, tmp_path, content)
    with pytest.raises(ValueError, match="a word to predict for each of the `lanes`"):
        word_segments.segments(text, 3, 2)
