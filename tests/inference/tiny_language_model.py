"""A tiny Sega-Transformer-XL in a checkpoint, text for it, and a slow oracle."""

import functools

import keras
import numpy as np

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.config import CausalLMConfig, RunConfig, TransformerXLConfig
from seg_tf.data.inputs import LaneInputsConfig
from seg_tf.inference.language_model import LanguageModel
from seg_tf.text.normalization import CASED
from seg_tf.text.vocabulary import WordVocabulary
from tests.inference import tiny_slm

TARGET_LENGTH, MEMORY_LENGTH = 6, 4
WORDS = [".", ",", "The", "the", *(f"w{number}" for number in range(40))]
VOCABULARY = WordVocabulary(["<eos>", "<unk>", *WORDS])
# Three paragraphs of one, two and three sentences, with words that are not known.
TEXT = """\
 = The w1 =

 The w2 the w3 . The w4 , w5 w6 .\x20
 \x20
 The w7 w30 . The strange w39 . The w9 @.@ w10 w11
"""
# Words and <eos> of the text, and the sentence and the paragraph of each.
_IN_ONE_LINE = """\
= The w1 = <eos> The w2 the w3 . The w4 , w5 w6 . <eos> The w7 w30 . The strange w39 . \
The w9 @.@ w10 w11 <eos>"""
WORDS_OF_TEXT = _IN_ONE_LINE.split()
SENTENCES_OF_TEXT = [0] * 5 + [1] * 5 + [2] * 7 + [3] * 4 + [4] * 4 + [5] * 6
PARAGRAPHS_OF_TEXT = [0] * 5 + [1] * 12 + [2] * 14


def config(**settings) -> RunConfig:
    """Config of the run, with other settings of the model."""
    return RunConfig(
        name="tiny_lm",
        paper="sega_transformer_xl_base",
        model=TransformerXLConfig(
            **{
                "num_layers": 2,
                "hidden_size": 12,
                "num_heads": 2,
                "head_size": 5,
                "intermediate_size": 16,
                "memory_length": MEMORY_LENGTH,
                "dropout": 0.2,
                "cutoffs": (10, 25),
                "embedding_size": 12,
                "tail_divisor": 2,
                # So large that another counter or memory is another answer.
                "initializer_range": 0.6,
                "projection_range": 0.6,
                **settings,
            }
        ),
        inputs=LaneInputsConfig(target_length=TARGET_LENGTH, validation_lanes=3),
        objectives={"causal_lm": CausalLMConfig()},
    )


def write_checkpoint(folder, vocabulary=VOCABULARY, tokenizer="whitespace", **settings):
    """A run's folder with one checkpoint of random weights."""
    return tiny_slm.write_checkpoint(
        folder,
        config(**settings),
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        normalization=CASED,
    )


def load_anew(run_dir, **model_settings) -> LanguageModel:
    pretrained = load_pretrained(run_dir, model_settings=model_settings)
    return LanguageModel(pretrained)


@functools.cache
def load(run_dir, **model_settings) -> LanguageModel:
    """The same for all tests of a file, none of which may change it."""
    return load_anew(run_dir, **model_settings)


def one_pass(model, token_ids, sentences, paragraphs) -> np.ndarray:
    """Log probabilities of every next word `(n, V)`, of all words at once."""
    features = {
        "token_ids": token_ids,
        "stream_token": np.arange(len(token_ids)),
        "stream_sentence": sentences,
        "stream_paragraph": paragraphs,
    }
    batch = {name: np.array([values], np.int32) for name, values in features.items()}
    hidden, _ = model.encoder(batch, training=False)
    return keras.ops.convert_to_numpy(model.objective.log_probabilities(hidden))[0]


def ids_of(words) -> list[int]:
    """Ids of words and of `<eos>`."""
    return [VOCABULARY.ids.get(word, VOCABULARY.unk_id) for word in words]


def losses_of_text(model) -> np.ndarray:
    """Loss of every word of `TEXT` but the first, where each sees all before it."""
    ids = ids_of(WORDS_OF_TEXT)
    log_probabilities = one_pass(model, ids, SENTENCES_OF_TEXT, PARAGRAPHS_OF_TEXT)
    return -log_probabilities[np.arange(len(ids) - 1), ids[1:]].astype(np.float64)
