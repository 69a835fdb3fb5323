"""Multiple choice: a row for each answer, scored by the same weights."""

import numpy as np
import pytest

from seg_tf.finetuning.classification.text_classifier import TextClassifier
from tests.finetuning.tiny_models import some_texts, tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    return TextClassifier.from_pretrained(
        tiny("segabert"), num_choices=4, num_texts=5, labels="ABCD", seed=2
    )


def test_logits_are_the_scores_of_each_answer_with_the_shared_text(model):
    # Of different lengths, so that rows of an example are padded to its longest.
    texts = some_texts(np.random.default_rng(1), 3, 5, longest=9)
    logits = model.predict(texts, verbose=0)
    assert logits.shape == (3, 4)
    pairs = TextClassifier.from_pretrained(tiny("segabert"), 1, 2)
    pairs.set_weights(model.get_weights())
    for (shared, *answers), scores in zip(texts, logits, strict=True):
        of_pairs = pairs.predict([(shared, one) for one in answers], verbose=0)
        np.testing.assert_allclose(scores, of_pairs[:, 0], atol=1e-5)
    assert np.ptp(logits, axis=1).min() > 1e-3


def test_learns_which_answer_is_right_and_is_saved(tmp_path):
    generator = np.random.default_rng(4)
    texts, labels = [], []
    for shared, *answers in some_texts(generator, 24, 5, longest=3):
        label = int(generator.integers(4))
        answers[label] += " w59 w59 w59"
        texts.append((shared, *answers))
        labels.append(label)
    made = TextClassifier.from_pretrained(
        tiny("segabert"), num_choices=4, num_texts=5, labels="ABCD", seed=2
    )
    made.compile("adam", made.loss_of_labels())
    made.optimizer.learning_rate = 0.01
    made.fit(texts, labels, batch_size=8, epochs=12, verbose=0)
    logits = made.predict(texts, verbose=0)
    assert np.mean(logits.argmax(axis=1) == labels) > 0.9
    made.save_to_preset(tmp_path / "saved")
    copy = TextClassifier.from_preset(tmp_path / "saved")
    np.testing.assert_allclose(copy.predict(texts, verbose=0), logits, atol=1e-5)


def test_wrong_numbers_of_answers_and_export_are_refused(model, tmp_path):
    with pytest.raises(ValueError, match="a shared text and 4 answers"):
        model.predict([("w1", "w2", "w3")], verbose=0)
    with pytest.raises(ValueError, match="a multiple choice"):
        model.export(tmp_path / "served")
