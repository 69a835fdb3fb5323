"""Orders that the model finds, against the reconstructor on each row alone."""

import dataclasses
import math

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import SentenceUnshufflingConfig
from seg_tf.inference import row_encoder
from seg_tf.inference.ordering import SentenceOrderer
from seg_tf.inference.texts import Sentence
from tests.inference import tiny_slm
from tests.inference.tiny_slm import ROW_LENGTH, sentence

pytestmark = pytest.mark.slow


def text_of(*lengths, seed=0):
    generator = np.random.default_rng(seed)
    return [Sentence(sentence(generator, length), "text") for length in lengths]


def decoded_alone(pretrained, sentences):
    """Order and step probabilities of one row, by itself."""
    candidates = tiny_slm.candidates_alone(pretrained, [one.text for one in sentences])
    reconstructor = pretrained.objectives["objective_0"].reconstructor
    order, probabilities = reconstructor.decode(
        candidates[np.newaxis], np.ones((1, len(candidates)), bool)
    )
    count = len(sentences)
    return np.asarray(order)[0, :count] - 1, np.asarray(probabilities)[0, :count]


def test_orders_are_those_of_each_row_alone_whatever_the_batch(pretrained, monkeypatch):
    texts = [
        text_of(3, 5, 2, seed=1),
        text_of(4, seed=2),
        text_of(8, 9, 9, 8, seed=3),
    ]
    for tokens_per_batch in (1, 10_000):
        monkeypatch.setattr(row_encoder, "_TOKENS_PER_BATCH", tokens_per_batch)
        found = SentenceOrderer(pretrained).order(texts)
        orders = set()
        for text, groups in zip(texts, found, strict=True):
            (group,) = groups
            order, probabilities = decoded_alone(pretrained, text)
            np.testing.assert_array_equal(group.order, order)
            np.testing.assert_allclose(group.confidences, probabilities, atol=1e-5)
            assert group.confidence == pytest.approx(math.prod(probabilities), abs=1e-5)
            assert (group.first, group.cut) == (0, ())
            orders.add(group.order)
        # Random weights, but not blind ones: otherwise nothing would be compared.
        assert any(list(order) != sorted(order) for order in orders)


def test_a_model_with_token_types_orders_by_those_of_the_first_text(tmp_path):
    config = tiny_slm.config(SentenceUnshufflingConfig(num_layers=1))
    model = dataclasses.replace(config.model, num_token_types=2)
    tiny_slm.write_checkpoint(tmp_path, dataclasses.replace(config, model=model))
    pretrained, text = load_pretrained(tmp_path), text_of(3, 5, 2, seed=1)
    ((group,),) = SentenceOrderer(pretrained).order([text])
    order, probabilities = decoded_alone(pretrained, text)
    np.testing.assert_array_equal(group.order, order)
    np.testing.assert_allclose(group.confidences, probabilities, atol=1e-5)


def test_text_of_too_many_sentences_is_ordered_in_consecutive_groups(pretrained):
    text = text_of(*[2] * 10)
    (groups,) = SentenceOrderer(pretrained).order([text])
    assert [(group.first, len(group.order)) for group in groups] == [
        (0, 4),
        (4, 4),
        (8, 2),
    ]
    for group in groups:
        part = text[group.first : group.first + len(group.order)]
        order, _ = decoded_alone(pretrained, part)
        assert list(group.order) == list(group.first + order)


def test_sentences_that_do_not_fit_into_a_row_begin_another(pretrained):
    # Pieces are the words and the period; each sentence has its [SENT].
    room = ROW_LENGTH - 2
    exactly = text_of(10, 20, room - 10 - 20 - 6)
    assert len(SentenceOrderer(pretrained).order([exactly])[0]) == 1
    one_more = text_of(10, 20, room - 10 - 20 - 6 + 1)
    groups = SentenceOrderer(pretrained).order([one_more])[0]
    assert [len(group.order) for group in groups] == [2, 1]
    assert all(not group.cut for group in groups)


def test_long_and_empty_sentences_have_a_place_too(pretrained):
    long, empty = text_of(3, 200, 4), [*text_of(3, 4), Sentence("\x01\x02", "text")]
    orderer = SentenceOrderer(pretrained)
    groups, (second,), none = orderer.order([long, empty, []])
    assert [group.order for group in groups] == [(0,), (1,), (2,)]
    assert [group.cut for group in groups] == [(), (1,), ()]
    assert all(group.confidences == (1.0,) for group in groups)
    assert sorted(second.order) == [0, 1, 2]
    assert none == []


def test_strings_come_back_in_the_order_that_was_found(run_dir):
    orderer = SentenceOrderer.from_preset(run_dir)
    texts = [text_of(3, 4, 2, seed=8), text_of(5, seed=9)]
    # A blank line does not begin a new text.
    given = ["\n\n".join(one.text for one in text) for text in texts]
    for text, found in zip(texts, orderer.predict(given), strict=True):
        (order,) = (group.order for group in orderer.order([text])[0])
        assert found == [text[number].text for number in order]
    with pytest.raises(ValueError, match="`documents` must"):
        orderer.predict(given[0])


def test_other_models_are_refused(pretrained):
    other = dataclasses.replace(pretrained, objectives={})
    with pytest.raises(ValueError, match="whose objectives are none"):
        SentenceOrderer(other)
