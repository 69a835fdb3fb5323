"""Word pieces for masks, against rows that were laid out by hand."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.inference.masked_lm import MaskFiller
from seg_tf.objectives.masked_lm import MaskedLM
from tests.finetuning import tiny_models
from tests.finetuning.tiny_models import KINDS, VOCABULARY

pytestmark = pytest.mark.slow

# A word is one piece; the second line is a paragraph of its own.
TEXTS = ["w1 [MASK] w3\n\nw4 [MASK]", "[MASK]"]


def pretrained_of(kind):
    pretrained = tiny_models.tiny(kind)
    keras.utils.set_random_seed(2)
    objective = MaskedLM(pretrained.encoder)
    objective.build((None, None, 8 if kind == "reat" else 12))
    return dataclasses.replace(pretrained, objectives={"masked_lm": objective})


def test_fillings_are_the_best_pieces_at_the_masks():
    pretrained = pretrained_of("segabert")
    (first, second), _ = MaskFiller(pretrained).predict(TEXTS, num_best=3)
    cls, sep, mask = VOCABULARY.cls_id, VOCABULARY.sep_id, VOCABULARY.mask_id
    w1, w3, w4 = map(VOCABULARY.id_of, ("w1", "w3", "w4"))
    by_hand = {
        "token_ids": [cls, w1, mask, w3, w4, mask, sep],
        "paragraph_index": [0, 0, 0, 0, 1, 1, 1],
        "sentence_index": [0, 0, 0, 0, 0, 0, 0],
        "token_index": [0, 0, 1, 2, 0, 1, 2],
        "padding_mask": [True] * 7,
    }
    check([first, second], pretrained, by_hand, [2, 5])


def check(fillings, pretrained, by_hand, positions):
    batch = {name: np.array([values]) for name, values in by_hand.items()}
    features = {name: batch[name] for name in pretrained.encoder.feature_names}
    objective = pretrained.objectives["masked_lm"]
    logits = objective.logits(pretrained.encoder(features), np.array([positions]))
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
    for found, probabilities in zip(fillings, expected, strict=True):
        best = np.argsort(-probabilities)[:3]
        assert [one.piece for one in found] == list(VOCABULARY.tokens_of(best))
        np.testing.assert_allclose(
            [one.probability for one in found], probabilities[best], rtol=1e-4
        )


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_form_fills_each_mask_whatever_the_company(kind):
    filler = MaskFiller(pretrained_of(kind))
    together = filler.predict(TEXTS, num_best=VOCABULARY.size)
    assert [len(masks) for masks in together] == [2, 1]
    for text, masks in zip(TEXTS, together, strict=True):
        (alone,) = filler.predict([text], num_best=VOCABULARY.size)
        for one, other in zip(alone, masks, strict=True):
            assert sum(filling.probability for filling in one) == pytest.approx(1)
            assert dict(one) == pytest.approx(dict(other), abs=1e-5)


def test_masks_of_reat_are_in_text_order():
    filler = MaskFiller(pretrained_of("reat"))

    def encode(features, training):
        return tf.one_hot(features["token_ids"], VOCABULARY.size)

    # Each mask gets the word before it.
    encode.feature_names = filler._encoder.feature_names
    filler._encoder = encode
    filler._objective = types.SimpleNamespace(
        logits=lambda sequence, at: tf.gather(sequence, at - 1, batch_dims=1)
    )
    for text in ("w1 w2 [MASK]\nw3 [MASK]", "w3 [MASK]\nw1 w2 [MASK]"):
        (masks,) = filler.predict([text], num_best=1)
        expected = [line.split()[-2] for line in text.splitlines()]
        assert [best.piece for (best,) in masks] == expected


def test_what_cannot_be_filled_is_refused():
    with pytest.raises(ValueError, match=r"predict masked word pieces.*are none"):
        MaskFiller(tiny_models.tiny("bert"))
    filler = MaskFiller(pretrained_of("slm"))
    with pytest.raises(ValueError, match=r"hold a \[MASK\]. Received: 'w1'"):
        filler.predict(["[MASK] w1", "w1"])
    with pytest.raises(ValueError, match=r"at most \d+ word pieces.*100 pieces"):
        filler.predict(["[MASK]" + " w1" * 99])
    with pytest.raises(ValueError, match=r"and 5 sentences.*in 6 sentences"):
        filler.predict(["[MASK]\n" * 6])
