"""Tiny models that read windows of a text, in checkpoints."""

from seg_tf.config import MaskedLMConfig, RunConfig
from seg_tf.data.inputs import WindowInputsConfig
from tests.inference import tiny_slm

WINDOW_LENGTH = 24
BERT = {"position_index": WINDOW_LENGTH}
SEGABERT = {"paragraph_index": 3, "sentence_index": 2, "token_index": 4}


def config(index_tables, inputs=WindowInputsConfig, **model):
    return RunConfig(
        name="tiny_window",
        paper="bert_base",
        model=tiny_slm.tiny_encoder(index_tables, **model),
        inputs=inputs(window_length=WINDOW_LENGTH),
        objectives={"masked_lm": MaskedLMConfig()},
    )


def write_checkpoint(folder, *arguments, **settings):
    return tiny_slm.write_checkpoint(folder, config(*arguments, **settings))
