"""Loading a checkpoint to use the model: with nothing else at hand."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import load_encoder, load_pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.config import EncoderConfig, build_from, to_dict
from seg_tf.text.encoding import TextPreparation
from seg_tf.text.normalization import CASED
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from seg_tf.training.checkpoint import Checkpoints
from seg_tf.training.step import LaneMemory, StepOptions
from tests.text.twelve_scripts import PAIRED_NORMALIZATIONS
from tests.training.stand_ins import VOCAB_SIZE, ArithmeticInputs, small_config
from tests.training.test_checkpoint import trained

pytestmark = pytest.mark.slow

WORDS = Vocabulary([*SPECIAL_TOKENS, *(f"w{n}" for n in range(VOCAB_SIZE - 5))])
# Of another language than the one that is built in.
PARAMETERS = PunktParameters(abbreviation_types=frozenset({"bzw"}), name="a splitter")
TEXT = TextPreparation(
    WORDS.to_bytes(),
    CASED,
    {"name": "a splitter"},
    sentence_parameters=PARAMETERS.to_bytes(),
)


@pytest.fixture(scope="module")
def learner():
    return trained()


def test_encoder_alone_can_be_loaded(tmp_path):
    # Equal sizes, out of alphabetical order: a swap would go unnoticed.
    model = EncoderConfig(
        index_tables={"position_index": 12, "paragraph_index": 12},
        num_layers=1,
        hidden_size=8,
        num_heads=2,
    )
    config = dataclasses.replace(small_config(), model=model)
    encoder = build_from(config.model, vocab_size=VOCAB_SIZE)

    class EncoderAlone:
        objectives = types.MappingProxyType({})
        counters = ()
        memory = LaneMemory()
        options = StepOptions()
        optimizer = keras.optimizers.SGD(0.1)

    EncoderAlone.encoder = encoder
    checkpoints = Checkpoints(
        tmp_path / "checkpoints",
        keep=2,
        facts={"config": to_dict(config), "vocab_size": VOCAB_SIZE},
    )
    for updates, loss in ((1, 2.0), (2, 1.0), (3, 5.0)):
        for variable in encoder.trainable_variables:
            variable.assign_add(tf.random.normal(variable.shape))
        checkpoints.save(
            EncoderAlone, updates=updates, samples=1, validation={"loss": loss}
        )
        if updates == 2:
            best = [variable.numpy() for variable in encoder.weights]

    features = next(iter(ArithmeticInputs().train_dataset(2)))
    features["paragraph_index"] = 11 - features["position_index"]
    for folder in (tmp_path, checkpoints.path(2)):
        loaded, loaded_config = load_encoder(folder)
        assert loaded_config == config
        np.testing.assert_equal([one.numpy() for one in loaded.weights], best)
    for variable, value in zip(encoder.weights, best, strict=True):
        variable.assign(value)
    np.testing.assert_array_equal(loaded(features).numpy(), encoder(features).numpy())


def save_with_text(folder, learner, config=None, text_preparation=TEXT):
    """A checkpoint of a run that knows its text, in the folder of that run."""
    return Checkpoints(
        folder / "checkpoints",
        keep=1,
        facts={
            "config": to_dict(config or small_config()),
            "vocab_size": VOCAB_SIZE,
            "vocab_checksum": WORDS.checksum,
        },
        text_preparation=text_preparation,
    ).save(learner, updates=3, samples=12)


@pytest.mark.parametrize("normalization", PAIRED_NORMALIZATIONS, ids=str)
def test_the_normalization_of_text_comes_with_a_checkpoint(
    learner, tmp_path, normalization
):
    preparation = dataclasses.replace(TEXT, normalization=normalization)
    save_with_text(tmp_path, learner, text_preparation=preparation)
    loaded = load_pretrained(tmp_path)
    assert loaded.normalization == loaded.text_encoder().normalization == normalization


def test_checkpoint_alone_is_enough_to_use_the_model(learner, tmp_path):
    folder = save_with_text(tmp_path, learner)
    loaded = load_pretrained(tmp_path)
    assert loaded.vocabulary.tokens == WORDS.tokens
    assert loaded.normalization == CASED
    assert loaded.sentence_splitter == {"name": "a splitter"}
    assert loaded.sentence_parameters == PARAMETERS
    assert loaded.folder == folder
    assert loaded.config == small_config()
    features = next(iter(ArithmeticInputs().train_dataset(4)))
    sequence = learner.encoder(features)
    np.testing.assert_array_equal(loaded.encoder(features), sequence)
    # The objective's own weights too: its logits are those of the run.
    assert list(loaded.objectives) == ["masked_lm"]
    positions = features["masked_positions"]
    np.testing.assert_array_equal(
        loaded.objectives["masked_lm"].logits(sequence, positions),
        learner.objectives["masked_lm"].logits(sequence, positions),
    )
    encoder, _ = load_encoder(tmp_path)
    np.testing.assert_array_equal(encoder(features), sequence)


def test_loaded_encoder_reads_the_token_types_of_pairs(tmp_path):
    config = small_config()
    model = dataclasses.replace(config.model, num_token_types=2)
    config = dataclasses.replace(config, model=model)
    learner = trained(config)
    save_with_text(tmp_path, learner, config)
    features = dict(next(iter(ArithmeticInputs().train_dataset(2))))
    one_text = tf.zeros_like(features["token_ids"])
    pair = tf.concat([one_text[:, :3], one_text[:, 3:] + 1], axis=1)
    sequence = learner.encoder(features).numpy()
    for encoder in (load_pretrained(tmp_path).encoder, load_encoder(tmp_path)[0]):
        assert "token_type" in encoder.feature_names
        # As in pretraining where there is one text, and only there.
        found = encoder({**features, "token_type": one_text}).numpy()
        np.testing.assert_array_equal(found, sequence)
        found = encoder({**features, "token_type": pair}).numpy()
        assert np.abs(found - sequence).max() > 1e-3
        with pytest.raises(ValueError, match=r"It lacks \['token_type'\]"):
            encoder(features)


def test_checkpoint_of_an_earlier_format_is_refused(learner, tmp_path):
    folder = save_with_text(tmp_path, learner)
    contents.write_state(folder, {**contents.read_state(folder), "format_version": 2})
    message = r"state\.json: written in format 2; .* format 4 only\. Make the check"
    with pytest.raises(CheckpointError, match=message):
        load_pretrained(tmp_path)


def test_checkpoint_without_vocabulary_is_refused(learner, tmp_path):
    save_with_text(tmp_path, learner, text_preparation=None)
    load_encoder(tmp_path)
    with pytest.raises(CheckpointError, match=r"has no vocab\.txt"):
        load_pretrained(tmp_path)
