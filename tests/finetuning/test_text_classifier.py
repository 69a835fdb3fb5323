"""The classifier: its head in NumPy, and what every Keras model can be asked for."""

import dataclasses
import functools
import inspect
import math
import random
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import seg_tf
from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import load_encoder, load_pretrained
from seg_tf.checkpoints.weight_files import CheckpointError
from seg_tf.finetuning.optimizer import finetuning_optimizer
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.text_classifier import TextClassifier
from seg_tf.interop.weights import write_pooler
from tests.finetuning.tiny_models import some_texts, text_batches, tiny

pytestmark = pytest.mark.slow
EAGER = True

# One of each kind of layout and readout, and with all tables.
each_kind = pytest.mark.parametrize("kind", ["segabert", "segabert_slm", "reat"])


def features_of(pretrained, texts):
    """The features of all texts in one batch."""
    (features,) = text_batches(pretrained, texts, batch_size=len(texts))
    return {name: values.numpy() for name, values in features.items()}


def classify(kind, texts, num_classes=3, **arguments):
    """A classifier of its own, and its inputs."""
    pretrained = tiny(kind)
    features = features_of(pretrained, texts)
    classifier = TextClassifier.from_preset(
        pretrained, num_classes, len(texts[0]), seed=5, **arguments
    )
    return classifier, features


def pairs(number, longest=12):
    return some_texts(np.random.default_rng(number), 4, 2, longest)


@functools.cache
def classifier_of_pairs(kind):
    """A classifier that no test may change, and its inputs."""
    return classify(kind, pairs(1), dropout=0.0)


def slow_hidden(kind, classifier, features, num_texts):
    """What the affine layer reads, row by row."""
    sequence = np.asarray(classifier.encoder(features))
    features = {name: np.asarray(values) for name, values in features.items()}
    rows = []
    for row, vectors in enumerate(sequence):
        if kind.endswith("slm"):
            ids = features["token_ids"][row].tolist()
            at = [0] + [place for place, one in enumerate(ids) if one == 5]
            assert len(at) == 1 + num_texts
            rows.append(np.concatenate([vectors[place] for place in at]))
            continue
        pooler = classifier.encoder.pooler if kind == "reat" else classifier.pooler
        kernel, bias = (np.asarray(weight, "float64") for weight in pooler.weights)
        pooled = np.tanh(vectors @ kernel + bias)
        if kind != "reat":
            rows.append(pooled[0])
            continue
        starts, given = features["sentence_starts"][row], features["given_text"][row]
        rows.append(
            np.concatenate(
                [
                    np.mean([pooled[start] for start in starts[given == text]], axis=0)
                    for text in range(1, 1 + num_texts)
                ]
            )
        )
    return np.array(rows)


@each_kind
@pytest.mark.parametrize("num_texts", [1, 2])
def test_head_equals_plain_numpy(kind, num_texts):
    # Some are so long that ReAT has them in parts.
    texts = some_texts(np.random.default_rng(1), 4, num_texts, longest=25)
    classifier, features = classify(kind, texts)
    for weight in classifier.classifier.weights:
        weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    kernel, bias = (np.asarray(one, "float64") for one in classifier.classifier.weights)
    hidden = slow_hidden(kind, classifier, features, num_texts)
    logits = classifier(features)
    np.testing.assert_allclose(logits, hidden @ kernel + bias, atol=1e-5)
    assert logits.shape == (4, 3)


@each_kind
def test_padding_and_company_do_not_change_a_prediction(kind):
    texts = [*pairs(1, longest=4), *pairs(2, longest=30)]
    classifier, _ = classifier_of_pairs(kind)
    together = np.asarray(classifier(features_of(tiny(kind), texts)))
    assert np.ptp(together, axis=0).max() > 1e-3
    for row in (0, 7):
        alone = classifier(features_of(tiny(kind), [texts[row]]))
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "freeze_encoder"), [("bert", False), ("slm", True), ("reat", False)]
)
def test_saved_file_gives_the_same_model(kind, freeze_encoder, tmp_path):
    classifier, features = classify(
        kind, pairs(1), dropout=0.25, freeze_encoder=freeze_encoder, name="given"
    )
    classifier.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(features), classifier(features))
    assert isinstance(loaded, TextClassifier)
    assert (loaded.name, loaded.dropout, loaded.num_classes) == ("given", 0.25, 3)
    assert loaded.head_dropout.rate == 0.25
    assert loaded.encoder.trainable != freeze_encoder
    assert len(loaded.trainable_weights) == len(classifier.trainable_weights)
    assert len(loaded.weights) == len(classifier.weights)


def test_training_does_not_touch_the_checkpoint():
    pretrained = tiny("segabert")
    before = pretrained.encoder.get_weights()
    classifier = TextClassifier.from_preset(pretrained, 2, seed=1)
    classifier.fit(WORDS, CLASSES, learning_rate=0.1, verbose=0)
    trained = classifier.encoder.get_weights()
    np.testing.assert_equal(pretrained.encoder.get_weights(), before)
    assert all((new != old).any() for new, old in zip(trained, before, strict=True))


@pytest.mark.usefixtures("traced")
def test_one_class_is_a_regression_and_a_frozen_encoder_stays():
    pretrained = tiny("slm")
    texts = some_texts(np.random.default_rng(7), 30, 2, longest=5)
    labels = [float(len(one.split()) - len(other.split())) for one, other in texts]
    classifier = TextClassifier.from_preset(
        pretrained, 1, 2, freeze_encoder=True, seed=1
    )
    before = classifier.encoder.get_weights()
    head = classifier.classifier.kernel.numpy()
    classifier.compile(keras.optimizers.Adam(0.02), "mse", jit_compile=False)
    train = text_batches(pretrained, texts, labels, batch_size=30, seed=1)
    losses = classifier.fit(train, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert classifier.output_shape == (None, 1)
    assert len(classifier.trainable_weights) == 2
    assert (classifier.classifier.kernel.numpy() != head).any()
    np.testing.assert_equal(classifier.encoder.get_weights(), before)


@each_kind
def test_there_is_no_dropout_in_a_frozen_encoder(kind):
    classifier, features = classify(kind, pairs(1), dropout=0.0, freeze_encoder=True)
    np.testing.assert_array_equal(
        classifier(features, training=True), classifier(features)
    )
    trained, _ = classifier_of_pairs(kind)
    difference = trained(features, training=True) - trained(features)
    assert np.abs(difference).max() > 1e-4


@pytest.mark.parametrize("kind", ["segabert", "reat"])
def test_mixed_precision_follows_the_policy(kind):
    expected, _ = classifier_of_pairs(kind)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        classifier, features = classify(kind, pairs(1), dropout=0.0)
    finally:
        keras.config.set_dtype_policy("float32")
    logits = classifier(features)
    assert logits.dtype.name == "float32"
    assert classifier.encoder(features).dtype.name == "bfloat16"
    assert {weight.dtype for weight in classifier.trainable_weights} == {"float32"}
    np.testing.assert_allclose(logits, expected(features), atol=0.15)


def test_a_seed_gives_the_same_new_weights():
    random.seed(3)
    state = random.getstate()
    twins = [
        classify("segabert", pairs(1), randomly_initialized=True)[0] for _ in range(2)
    ]
    assert random.getstate() == state
    np.testing.assert_equal(*(twin.get_weights() for twin in twins))
    # Dropout too.
    _, features = classifier_of_pairs("segabert")
    one, other = (np.asarray(twin(features, training=True)) for twin in twins)
    np.testing.assert_array_equal(one, other)
    again = TextClassifier.from_preset(tiny("segabert"), 3, 2, seed=6)
    assert (again.classifier.kernel.numpy() != twins[0].classifier.kernel.numpy()).any()


def test_a_keras_file_has_the_vocabulary(run_dir, tmp_path):
    classifier = TextClassifier.from_preset(run_dir, labels=["bad", "good"], seed=1)
    classifier.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    texts = ["w1 w2", "w3"]
    np.testing.assert_equal(
        loaded.predict_labels(texts, verbose=0),
        classifier.predict_labels(texts, verbose=0),
    )
    loaded.fit(texts, ["good", "bad"], verbose=0)
    loaded.save_to_preset(tmp_path / "saved")
    again = TextClassifier.from_preset(tmp_path / "saved").predict(texts, verbose=0)
    np.testing.assert_array_equal(again, loaded.predict(texts, verbose=0))
    # A model of an encoder only knows no text.
    bare = TextClassifier(classifier.encoder, classifier.readout, 2)
    with pytest.raises(ValueError, match="reads features, not text"):
        bare.predict(texts)


@pytest.mark.parametrize("name", seg_tf.__all__)
def test_an_argument_that_no_preset_has_is_an_error(name):
    load = getattr(seg_tf, name).from_preset
    for known in inspect.signature(load).parameters:
        with pytest.raises(TypeError, match=f"'{known}s'"):
            load("runs/none", **{f"{known}s": 1})


def test_a_classifier_needs_classes():
    for arguments in (
        {},
        {"labels": ["good"]},
        {"labels": ["a", "b"], "num_classes": 3},
    ):
        with pytest.raises(ValueError, match="`labels` must name every class"):
            TextClassifier.from_preset(tiny("bert"), **arguments)
    assert TextClassifier.from_preset(tiny("bert"), num_choices=4).num_classes == 4
    with pytest.raises(CheckpointError, match="Did you mean segabert_mini_en"):
        TextClassifier.from_preset("segabert_min_en")


REVIEWS = [
    (f"w1 {word} {last}", int(last == "w2"))
    for last in ("w2", "w3")
    for word in ("w4", "w5", "w6", "w7")
]


def test_a_saved_task_is_a_checkpoint_with_settings_of_its_own(run_dir, tmp_path):
    folder = tmp_path / "saved"
    classifier = TextClassifier.from_preset(run_dir, num_classes=3, max_length=12)
    classifier.save_to_preset(folder)
    encoder, _ = load_encoder(folder)
    np.testing.assert_equal(classifier.encoder.get_weights(), encoder.get_weights())
    again = TextClassifier.from_preset(folder, max_length=12)
    logits = classifier.predict(["w1 w2", "w3"], verbose=0)
    np.testing.assert_array_equal(again.predict(["w1 w2", "w3"], verbose=0), logits)
    with pytest.raises(ValueError, match=r"`num_classes` must.*=2.*saved with 3"):
        TextClassifier.from_preset(folder, num_classes=2)
    for anew in ({"randomly_initialized": True}, {"num_choices": 2}):
        (name,) = anew
        with pytest.raises(ValueError, match=rf"`{name}` must be as in the saved"):
            TextClassifier.from_preset(folder, **anew)
    with pytest.raises(ValueError, match=r"must hold a SpanExtractor.*a TextClassif"):
        SpanExtractor.from_preset(folder)
    with pytest.raises(ValueError, match="must be new"):
        classifier.save_to_preset(folder)
    smaller = TextClassifier.from_preset(run_dir, num_classes=2)
    smaller.save_to_preset(folder, overwrite=True)
    assert TextClassifier.from_preset(folder).num_classes == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").touch()
    with pytest.raises(ValueError, match="must be new"):
        smaller.save_to_preset(tmp_path / "mine", overwrite=True)


def _change(model, fit):
    """Largest change of a weight in a training."""
    before = model.get_weights()
    fit()
    after = model.get_weights()
    return max(np.abs(a - b).max() for a, b in zip(before, after, strict=True))


def test_every_fit_has_a_schedule_of_its_own(tmp_path):
    texts, labels = zip(*REVIEWS, strict=True)
    pretrained = tiny("bert")
    classifier = TextClassifier.from_preset(
        pretrained, 2, freeze_encoder=True, dropout=0.0, seed=1
    )

    def train(model, *examples, **arguments):
        return _change(
            model, lambda: model.fit(*examples, epochs=2, verbose=0, **arguments)
        )

    # Adam's first steps are about as long as the learning rate.
    assert 1e-5 < train(classifier, texts, labels) < 1e-4
    start = classifier.get_weights()
    assert train(classifier, texts, labels, learning_rate=1e-2) > 5e-3
    second = classifier.get_weights()
    # As a model that starts from these weights, bit by bit.
    twin = TextClassifier.from_preset(pretrained, 2, freeze_encoder=True, dropout=0.0)
    twin.set_weights(start)
    train(twin, texts, labels, learning_rate=1e-2)
    np.testing.assert_equal(twin.get_weights(), second)
    # The rate is kept; what Keras loads starts anew as well, and has it too.
    classifier.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    batches = text_batches(pretrained, texts, labels, batch_size=8)
    assert train(loaded, batches) > 5e-3
    assert train(loaded, batches, learning_rate=3e-5) < 1e-4
    # Half of the epochs are half of the updates.
    assert train(classifier, texts, labels, initial_epoch=1) > 5e-3
    assert classifier.optimizer.learning_rate == 0.0


def test_features_in_arrays_are_counted_for_the_schedule():
    texts, labels = map(np.array, zip(*REVIEWS, strict=True))
    classifier = TextClassifier.from_preset(tiny("bert"), 2, freeze_encoder=True)
    features = keras.tree.map_structure(np.array, classifier.preprocessor(texts))
    classifier.fit(
        features, labels, batch_size=3, epochs=2, validation_split=0.2, verbose=0
    )
    updates = 2 * math.ceil(math.floor(0.8 * len(texts)) / 3)
    assert classifier.optimizer.iterations == updates
    assert classifier.optimizer.learning_rate == 0.0
    # In the same order texts give the same.
    settings = {"freeze_encoder": True, "dropout": 0.0, "seed": 2}
    arguments = {"batch_size": 4, "shuffle": False, "learning_rate": 0.1, "verbose": 0}
    found = []
    for x in (features, list(texts)):
        twin = TextClassifier.from_preset(tiny("bert"), 2, **settings)
        twin.fit(x, labels, **arguments)
        found.append(twin.predict(x, verbose=0))
    np.testing.assert_allclose(*found, atol=1e-5)


def test_a_model_that_the_user_compiled_has_its_own_rate():
    classifier = TextClassifier.from_preset(tiny("bert"), 2)
    classifier.compile(finetuning_optimizer(1e-3, 2), classifier.loss_of_labels())
    with pytest.raises(ValueError, match=r"`learning_rate` must be left out"):
        classifier.fit(["w1"], [1], learning_rate=1e-3, verbose=0)


def test_the_learning_rate_is_that_of_the_checkpoint(run_dir, tmp_path):
    texts, labels = zip(*REVIEWS, strict=True)
    folder = tmp_path / "preset"
    shutil.copytree(load_pretrained(run_dir).folder, folder)
    state = contents.read_state(folder)
    contents.write_state(folder, {**state, "finetuning_learning_rate": 1e-2})
    classifier = TextClassifier.from_preset(folder, num_classes=2)
    # A fine-tuned model hands it on.
    classifier.save_to_preset(tmp_path / "saved")
    saved = TextClassifier.from_preset(tmp_path / "saved")
    assert _change(saved, lambda: saved.fit(texts, labels, verbose=0)) > 5e-3
    for rate in (0.0, float("nan"), -1.0):
        with pytest.raises(ValueError, match=r"`learning_rate` must be positive and"):
            classifier.fit(texts, labels, learning_rate=rate)
    for rate in ("high", 0.0, True):
        contents.write_state(folder, {**state, "finetuning_learning_rate": rate})
        with pytest.raises(
            CheckpointError, match=r"state.json: .*`finetuning_learning_"
        ):
            load_pretrained(folder)


def test_the_pooler_of_an_imported_checkpoint_is_kept(tmp_path):
    pretrained = dataclasses.replace(tiny("bert"), folder=tmp_path)
    width = pretrained.encoder.hidden_size
    kernel = np.random.default_rng(0).normal(size=(width, width)).astype("float32")
    write_pooler(tmp_path, {"pooler/kernel": kernel, "pooler/bias": kernel[0]})

    def kernel_of(**arguments):
        made = TextClassifier.from_preset(pretrained, 2, seed=1, **arguments)
        return made.pooler.get_weights()

    np.testing.assert_array_equal(kernel_of()[0], kernel)
    np.testing.assert_array_equal(kernel_of()[1], kernel[0])
    new = kernel_of(randomly_initialized=True)[0]
    assert not np.isclose(new, kernel).all(axis=0).any()
    # No other kind of row is pooled by one layer.
    slm = dataclasses.replace(tiny("segabert_slm"), folder=tmp_path)
    assert TextClassifier.from_preset(slm, 2).pooler is None


# === What users of Keras call ===

WORDS = ["w1 w2", "w3 w3 w3", "w4", "w5 w6 w7 w8"]
SECOND = ["w9", "w8 w7", "w6 w5", "w4"]
CLASSES = np.array([0, 1, 1, 0])


def dataset_of(x, y, *weights):
    """A dataset of batches of two, of unknown cardinality."""
    dataset = tf.data.Dataset.from_tensor_slices((x, y, *weights)).batch(2)
    return dataset.filter(lambda *_: True)


PAIRS = (WORDS, SECOND)
CALLS = {
    "lists": lambda: (
        *("fit", WORDS, CLASSES.tolist()),
        {"class_weight": {0: 1, 1: 2}, "validation_data": dataset_of(WORDS, CLASSES)},
    ),
    "column of labels": lambda: (
        *("fit", tf.constant(WORDS), tf.constant(CLASSES[:, None])),
        {},
    ),
    "split": lambda: ("fit", np.array(WORDS), CLASSES, {"validation_split": 0.5}),
    "validation with weights": lambda: (
        *("fit", tf.constant(WORDS), CLASSES),
        {"validation_data": (tf.constant(WORDS), CLASSES, np.ones(4))},
    ),
    "weighted dataset of pairs": lambda: (
        *("fit", dataset_of(PAIRS, CLASSES, np.ones(4, "float32")), None),
        {},
    ),
    "pairs of lists": lambda: ("fit", PAIRS, CLASSES, {}),
    "predict a dataset": lambda: (
        *("predict", tf.data.Dataset.from_tensor_slices(WORDS).batch(3), None),
        {},
    ),
}


@pytest.fixture(scope="module")
def models():
    """Classifiers of one text and of two."""
    return [
        TextClassifier.from_preset(tiny("bert"), 2, num_texts, seed=1)
        for num_texts in (1, 2)
    ]


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_keras_hub_s_classifiers(models, name):
    method, x, y, arguments = CALLS[name]()
    if y is not None:
        arguments["y"] = y
    result = getattr(models["pairs" in name], method)(x, verbose=0, **arguments)
    if method == "predict":
        assert np.shape(result) == (4, 2)
        return
    losses = result.history["loss"] + result.history.get("val_loss", [])
    has_validation = any(one.startswith("validation") for one in arguments)
    assert len(losses) == 1 + has_validation
    assert np.isfinite(losses).all()


@pytest.fixture(scope="module")
def keras_user():
    names = np.array(["bad", "good"])
    return TextClassifier.from_preset(tiny("bert"), labels=names, seed=1)


@pytest.mark.usefixtures("traced")
def test_evaluation_before_training_leaves_the_schedule_to_fit():
    classifier = TextClassifier.from_preset(tiny("bert"), 2, seed=1)
    loss, _ = classifier.evaluate(tf.constant(WORDS), CLASSES, verbose=0)
    weighted, _ = classifier.evaluate(
        WORDS, CLASSES, sample_weight=[4, 0, 0, 0], verbose=0
    )
    logits = classifier.predict(WORDS, verbose=0)
    losses = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(4), CLASSES]
    assert loss == pytest.approx(losses.mean(), rel=1e-5)
    assert weighted == pytest.approx(losses[0], rel=1e-5)
    fit = functools.partial(classifier.fit, WORDS, CLASSES, batch_size=2, verbose=0)
    assert _change(classifier, lambda: fit(epochs=2, learning_rate=0.01)) > 1e-3


def test_labels_are_predicted_with_their_probabilities(keras_user):
    names, probabilities = keras_user.predict_labels(WORDS, verbose=0)
    logits = keras_user.predict(WORDS, verbose=0)
    best = logits.argmax(axis=1)
    assert names.tolist() == [["bad", "good"][number] for number in best]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, shares, rtol=1e-5)
    numbered = TextClassifier.from_preset(tiny("bert"), 2)
    assert set(numbered.predict_labels(WORDS, verbose=0)[0]) <= {0, 1}
    regression = TextClassifier.from_preset(tiny("bert"), 1)
    with pytest.raises(ValueError, match="`predict` gives the values of a regression"):
        regression.predict_labels(WORDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0, 2, 0, 1]}, r"`labels` must .*, 0 to 1\. Received: labels\[1\]=2$"),
        ({"y": [0.5, 1.0, 0.0, 0.0]}, r"0 to 1\. Received: labels\[0\]=0\.5$"),
        ({"y": [1.0, float("nan"), 0, 1]}, r"0 to 1\. Received: labels\[1\]=nan$"),
        ({"y": [0]}, r"`labels` must hold one number for each of .* 4 examples"),
        ({"y": None}, r"`labels` must hold one number for each of `texts`"),
        ({"y": [None, 1, 0, 1]}, r"`labels` must hold one number for each of `texts`"),
        ({"y": np.eye(2)[CLASSES]}, r"not one-hot rows; `np.argmax"),
        ({"y": ["good", "fair", "good", "bad"]}, r"bad, good\. Received: 'fair'"),
        ({"sample_weight": [1.0]}, r"one weight for each of `texts`.*\(1,\), 4 exam"),
        ({"validation_split": 1.0}, "at least one example"),
        (
            {"x": lambda: dataset_of(WORDS, CLASSES).repeat(), "y": None},
            "known number of batches",
        ),
        (
            {"x": lambda: dataset_of(WORDS, np.eye(2)[CLASSES]), "y": None},
            "not names or one-hot rows",
        ),
    ],
)
def test_what_keras_would_not_understand_is_said(keras_user, arguments, message):
    if callable(arguments.get("x")):
        arguments = {**arguments, "x": arguments["x"]()}
    with pytest.raises(ValueError, match=message):
        keras_user.fit(**{"x": WORDS, "y": CLASSES, **arguments})
    if arguments.keys() == {"y"}:
        with pytest.raises(ValueError, match=message):
            keras_user.fit(WORDS, CLASSES, validation_data=(WORDS, arguments["y"]))


# === Multiple choice ===


@pytest.fixture(scope="module")
def choice():
    return TextClassifier.from_preset(
        tiny("segabert"), num_choices=4, num_texts=5, labels="ABCD", seed=2
    )


def test_logits_are_the_scores_of_each_answer_with_the_shared_text(choice):
    # Of different lengths, so that rows of an example are padded to its longest.
    texts = some_texts(np.random.default_rng(1), 3, 5, longest=9)
    logits = choice.predict(texts, verbose=0)
    assert logits.shape == (3, 4)
    pairs = TextClassifier.from_preset(tiny("segabert"), 1, 2)
    pairs.set_weights(choice.get_weights())
    for (shared, *answers), scores in zip(texts, logits, strict=True):
        of_pairs = pairs.predict([(shared, one) for one in answers], verbose=0)
        np.testing.assert_allclose(scores, of_pairs[:, 0], atol=1e-5)
    assert np.ptp(logits, axis=1).min() > 1e-3


def test_wrong_numbers_of_answers_and_export_are_refused(choice, tmp_path):
    with pytest.raises(ValueError, match="examples of 5 strings"):
        choice.predict([("w1", "w2", "w3")], verbose=0)
    with pytest.raises(ValueError, match="A multiple choice cannot be exported"):
        choice.export(tmp_path / "served")
