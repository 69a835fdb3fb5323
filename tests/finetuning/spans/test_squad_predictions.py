"""Logits come back to their windows and pieces, and the loss is that of training."""

import numpy as np
import pytest

from seg_tf.finetuning.spans.span_batches import span_batches
from seg_tf.finetuning.spans.span_extractor import SpanExtractor
from seg_tf.finetuning.spans.squad_examples import SpanExamples, window_sizes
from seg_tf.finetuning.spans.squad_predictions import WindowPredictor
from seg_tf.finetuning.trials.divergence import TrainingDiverged
from seg_tf.tasks.squad.spans import SpanEncoder
from seg_tf.tasks.squad.squad_files import Answer, Passage, Question
from seg_tf.tasks.squad.windows import make_windows
from tests.finetuning.tiny_models import tiny
from tests.finetuning.tiny_squad import random_context
from tests.inference.tiny_slm import VOCABULARY

pytestmark = pytest.mark.slow

each_kind = pytest.mark.parametrize("kind", ["segabert", "segabert_slm"])


def windows_for(kind, num_contexts=6):
    """Windows of contexts of 5 to 50 words; every third question has no answer."""
    generator = np.random.default_rng(3)
    passages = []
    for number in range(num_contexts):
        text, places = random_context(generator, int(generator.integers(5, 51)))
        start, stop = places[2][0], places[3][1]
        answers = (Answer(text[start:stop], start),) if number % 3 else ()
        question = Question(str(number), "w51 w52", answers, not answers)
        passages.append(Passage("t", text, (question,)))
    sizes = window_sizes(tiny(kind))
    made = make_windows(passages, SpanEncoder(VOCABULARY), sizes)
    return made.windows, sizes.max_length


class TokenReader:
    """Logits that tell which piece stands where, and how long the row is."""

    def __init__(self, start=0.0):
        self.start = start

    def predict_on_batch(self, batch):
        token_ids = np.asarray(batch["token_ids"], np.float64)
        outputs = {"start": self.start + token_ids, "end": -token_ids}
        if "candidate_positions" in batch:
            outputs["sentence"] = np.zeros(batch["candidate_positions"].shape)
        return outputs


@each_kind
@pytest.mark.parametrize("has_null", [True, False])
def test_logits_are_those_of_the_pieces_of_each_window(kind, has_null):
    windows, max_length = windows_for(kind)
    predictor = WindowPredictor(tiny(kind), windows, max_length, has_null)
    found = predictor(TokenReader(start=0.5)).logits
    assert len({len(window) for window in windows}) > 3
    for window, logits in zip(windows, found, strict=True):
        assert logits.start.tolist() == (0.5 + window.token_ids).tolist()
        assert logits.end.tolist() == (-window.token_ids).tolist()
        cls_id = VOCABULARY.cls_id
        assert logits.null == ((0.5 + cls_id, -cls_id) if has_null else None)


@each_kind
def test_the_loss_is_that_of_keras(kind):
    windows, max_length = windows_for(kind)
    model = SpanExtractor.from_pretrained(tiny(kind), seed=1)
    model.compile(loss=model.losses_of_pointers(), jit_compile=False)
    batches = span_batches(
        tiny(kind),
        SpanExamples(windows),
        batch_size=len(windows),
        with_labels=True,
        max_length=max_length,
    )
    expected = model.evaluate(batches, verbose=0, return_dict=True)["loss"]
    predictor = WindowPredictor(tiny(kind), windows, max_length, has_null=True)
    assert predictor(model).loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_that_diverged_is_named_as_such(value):
    windows, max_length = windows_for("segabert")
    predictor = WindowPredictor(tiny("segabert"), windows, max_length, has_null=True)
    with pytest.raises(TrainingDiverged, match="not finite: the training diverged"):
        predictor(TokenReader(start=value))
