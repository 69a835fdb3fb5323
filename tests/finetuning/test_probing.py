"""DiscoEval's probes: Adam in NumPy, scikit-learn's optimum, from files to scores."""

import csv
import random

import numpy as np
import pytest
import sklearn.linear_model

from seg_tf.finetuning import probing
from seg_tf.finetuning.probing import (
    DevStopping,
    ProbeRunner,
    encode_examples,
    make_probe,
    predict,
    shuffled_batches,
    train_probes,
)
from seg_tf.finetuning.trials import Trial
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.tasks.discoeval import ProbeSettings
from seg_tf.tasks.finetuning_settings import Setting
from tests.finetuning import task_folders
from tests.finetuning.tiny_models import some_texts, tiny
from tests.inference.tiny_slm import WORDS

pytestmark = pytest.mark.slow


def some_data(num_examples, num_features, num_classes, seed, noise=1.0):
    """Vectors, and labels that a linear rule gives them, but for noise."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(num_examples, num_features))
    rule = np.random.default_rng(9).normal(size=(num_features, num_classes))
    logits = features @ rule + noise * generator.gumbel(
        size=(num_examples, num_classes)
    )
    return features.astype(np.float32), logits.argmax(axis=1).astype(np.int32)


def slow_softmax(logits):
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def slow_adam(weights, gradients_of, batches, l2):
    """Adam as PyTorch has it: the penalty's gradient is scaled like the loss's."""
    weights = [weight.astype("float64") for weight in weights]
    means = [np.zeros_like(weight) for weight in weights]
    squares = [np.zeros_like(weight) for weight in weights]
    for step, batch in enumerate(batches, start=1):
        for number, gradient in enumerate(gradients_of(weights, batch)):
            gradient = gradient + l2 * weights[number]
            means[number] = 0.9 * means[number] + 0.1 * gradient
            squares[number] = 0.999 * squares[number] + 0.001 * gradient**2
            mean = means[number] / (1 - 0.9**step)
            square = squares[number] / (1 - 0.999**step)
            weights[number] = weights[number] - 1e-3 * mean / (np.sqrt(square) + 1e-8)
    return weights


def gradients_of_probe(features, labels):
    """Of the mean cross-entropy of a batch, by the chain rule."""

    def gradients(weights, numbers):
        inputs = features[numbers].astype("float64")
        hidden = inputs
        if len(weights) == 4:
            hidden = 1 / (1 + np.exp(-(inputs @ weights[0] + weights[1])))
        errors = slow_softmax(hidden @ weights[-2] + weights[-1])
        errors[np.arange(len(numbers)), labels[numbers]] -= 1
        errors /= len(numbers)
        of_classifier = [hidden.T @ errors, errors.sum(axis=0)]
        if len(weights) == 2:
            return of_classifier
        back = errors @ weights[2].T * hidden * (1 - hidden)
        return [inputs.T @ back, back.sum(axis=0), *of_classifier]

    return gradients


def settings(**changed):
    return ProbeSettings(features="concatenated", **changed)


@pytest.mark.parametrize(("hidden_size", "l2"), [(0, 1e-9), (7, 0.5)])
def test_passes_are_adam_in_plain_numpy(hidden_size, l2, monkeypatch):
    # 3 batches, the last of which is short; 20 passes to the first evaluation.
    data = some_data(10, 6, 3, seed=1)
    monkeypatch.setattr(probing, "predict", lambda *_: data[1])
    protocol = settings(
        hidden_size=hidden_size,
        l2=(l2,),
        batch_size=4,
        max_passes=1,
        passes_per_evaluation=20,
    )
    (probe,) = train_probes(data, data, 3, protocol, seed=2)
    before = make_probe(6, 3, hidden_size, l2, seed=2).get_weights()
    generator = np.random.default_rng(2)
    orders = [generator.permutation(10) for _ in range(20)]
    batches = [order[begin : begin + 4] for order in orders for begin in (0, 4, 8)]
    expected = slow_adam(before, gradients_of_probe(*data), batches, l2)
    for found, weight, old in zip(
        probe.model.get_weights(), expected, before, strict=True
    ):
        errors = np.abs(found - weight)
        assert np.median(errors) < 1e-5
        # Adam makes a step of a gradient however small it is, rounding and all.
        assert errors.max() < 1e-3
        assert np.abs(found - old).max() > 1e-2


def test_each_pass_has_an_order_that_hangs_on_the_seed_alone():
    features, labels = some_data(40, 6, 3, 1)
    labels = np.arange(40)

    def orders(seed):
        batches = shuffled_batches(features, labels, 16, seed)
        assert len(batches) == 3
        return [
            np.concatenate([numbers for _, numbers in batches]).tolist()
            for _ in range(3)
        ]

    assert all(sorted(order) == list(range(40)) for order in orders(3))
    assert len(set(map(tuple, orders(3)))) == 3
    assert orders(3) == orders(3) != orders(4)


@pytest.mark.parametrize("hidden_size", [0, 400])
def test_first_weights_are_uniform_below_the_root_of_inputs(hidden_size):
    weights = make_probe(900, 40, hidden_size, 1e-9, seed=1).get_weights()
    inputs = [900, 900, hidden_size, hidden_size] if hidden_size else [900, 900]
    for weight, fan_in in zip(weights, inputs, strict=True):
        bound = fan_in**-0.5
        assert 0.85 * bound < np.abs(weight).max() <= bound
        np.testing.assert_allclose(np.std(weight), bound / 3**0.5, rtol=0.25)
    # A bias is no copy of the kernel's beginning.
    assert (weights[0].ravel()[:40] != weights[1][:40]).any()


def slow_protocol(accuracies, max_passes, passes_per_evaluation, tenacity):
    """The benchmark's rules, step by step: number of evaluations, and the kept one."""
    passes, evaluation, best, kept, count = 0, 0, -1, None, 0
    stop = False
    while not stop and passes <= max_passes:
        passes += passes_per_evaluation
        accuracy = accuracies[evaluation]
        if accuracy > best:
            best, kept = accuracy, evaluation
        else:
            if count >= tenacity:
                stop = True
            count += 1
        evaluation += 1
    return evaluation, kept


class ScriptedProbe:
    """A model whose weights are the number of its last evaluation."""

    stop_training = False

    def get_weights(self):
        return self.weights


def scripted(monkeypatch, accuracies, protocol):
    """Stops with given accuracies, in percent: those evaluated, and the kept one."""
    model, numbers = ScriptedProbe(), iter(range(len(accuracies)))

    def predictions(model, _):
        model.weights = next(numbers)
        return np.arange(100) >= accuracies[model.weights]

    monkeypatch.setattr(probing, "predict", predictions)
    stopping = DevStopping((np.zeros((100, 1)), np.zeros(100)), protocol)
    stopping.set_model(model)
    for epoch in range(protocol.max_evaluations * protocol.passes_per_evaluation):
        stopping.on_epoch_end(epoch)
        if model.stop_training:
            break
    return [round(100 * one) for one in stopping.accuracies], stopping.best_weights


@pytest.mark.parametrize(
    ("max_passes", "passes_per_evaluation", "tenacity"),
    [(200, 4, 5), (200, 15, 8), (15, 1, 5), (20, 4, 0), (3, 4, 2)],
)
def test_trainings_end_as_in_the_benchmark(
    monkeypatch, max_passes, passes_per_evaluation, tenacity
):
    protocol = settings(
        max_passes=max_passes,
        passes_per_evaluation=passes_per_evaluation,
        tenacity=tenacity,
    )
    generator = random.Random(1)
    for _ in range(20):
        # Of few values, so that some are equal; they rise now and then.
        accuracies = [
            generator.randrange(4) + rise // 3 for rise in range(max_passes + 2)
        ]
        found, kept = scripted(monkeypatch, accuracies, protocol)
        expected, expected_kept = slow_protocol(
            accuracies, max_passes, passes_per_evaluation, tenacity
        )
        assert found == accuracies[:expected]
        assert kept == expected_kept


def test_probes_are_as_good_as_scikit_learns_by_the_protocol():
    """On dev, within 2 of 100 examples.

    Both see the same 600 examples, but one ends before its optimum. The two agree on
    all but those near the border, of which there are as many on either side: a share
    of 0.05 of 2,000 would move the accuracy by 0.005 as its standard error.
    """
    train, dev = (some_data(number, 20, 4, number, noise=2) for number in (600, 2000))
    (probe,) = train_probes(train, dev, 4, settings(l2=(1e-2,)), seed=1)
    oracle = sklearn.linear_model.LogisticRegression(C=1 / (1e-2 * 600))
    expected = oracle.fit(*train).score(*dev)
    assert 0.5 < expected < 0.9
    assert abs(max(probe.accuracies) - expected) < 0.02
    # Its weights are those that were best on dev.
    accuracy = np.mean(predict(probe.model, dev[0]) == dev[1])
    assert accuracy == max(probe.accuracies)


# === From files to scores ===


IGNORED = Setting(5.0, 3, 7)
ENDS = ("w30", "w31")
FOLDERS = {
    "discoeval/sp/wiki": "SP/wiki",
    "discoeval/bso/wiki": "BSO/wiki",
    "discoeval/dc/chat": "DC/chat",
    "discoeval/ssp": "SSP/abs",
}


def write_files(folder, task, splits=("train", "valid", "test")):
    """Files whose labels the words give away."""
    kind, generator = task.split("/")[1], np.random.default_rng(2)
    folder /= FOLDERS[task]
    folder.mkdir(parents=True)
    for split in splits:
        lines = []
        for _ in range(600 if split == "train" else 60):
            fields = [
                f"{WORDS[number]} {generator.choice(WORDS[20:23])}"
                for number in range({"sp": 5, "bso": 2, "dc": 6}.get(kind, 1))
            ]
            label = None
            if kind == "sp":
                label = int(generator.integers(5))
                fields = [fields.pop(label), *fields]
            elif kind != "bso":
                label = int(generator.random() < 0.7)
                fields[-1] += f" {ENDS[label]}" * 4
            lines.append("\t".join(fields if label is None else [str(label), *fields]))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")


def make(tmp_path, task, model="slm", report=pytest.fail, **arguments):
    return ProbeRunner(tiny(model), task, tmp_path / "data", report=report, **arguments)


@pytest.mark.parametrize(
    ("task", "model", "mode", "penalties"),
    [
        ("discoeval/sp/wiki", "segabert", "per_sentence", (1e-5,)),
        ("discoeval/sp/wiki", "slm", "joint", (1e-5, 1e-2)),
        ("discoeval/bso/wiki", "reat", "joint", (1e-5,)),
    ],
)
def test_what_the_words_tell_is_found(
    task, model, mode, penalties, tmp_path, monkeypatch
):
    write_files(tmp_path / "data", task)
    task_folders.train_little(monkeypatch, max_passes=200, l2=penalties)
    runner = make(tmp_path, task, model, mode=mode)
    scores, logs = runner.run(Trial(IGNORED, 1), tmp_path / "trial")
    assert set(runner.baselines["without a model"]) == {"accuracy", "test_accuracy"}
    for name, score in runner.baselines["without a model"].items():
        assert scores[name] > score + 0.1
    assert max(row["dev_accuracy"] for row in logs) == scores["accuracy"]
    assert {row["l2"] for row in logs} == {*penalties}


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_predictions_and_scores_agree(tmp_path):
    task = "discoeval/ssp"
    write_files(tmp_path / "data", task)
    runner = make(tmp_path, task, limit=40)
    scores, _ = runner.run(Trial(IGNORED, 1), tmp_path / "trial")
    assert runner.num_examples == 40
    for split, file, prefix in [("dev", "valid", ""), ("test", "test", "test_")]:
        rows = rows_of(tmp_path / "trial" / f"{split}_predictions.tsv")
        lines = (tmp_path / f"data/SSP/abs/{file}.txt").read_text().splitlines()
        assert [row["label"] for row in rows] == [line[0] for line in lines]
        right = np.mean([row["label"] == row["prediction"] for row in rows])
        np.testing.assert_allclose(scores[f"{prefix}accuracy"], right)
        # Label 1 is most frequent in train.
        ones = np.mean([row["label"] == "1" for row in rows])
        np.testing.assert_allclose(
            runner.baselines["without a model"][f"{prefix}accuracy"], ones
        )


def test_texts_are_encoded_once_for_all_seeds_unless_the_encoder_is_new(
    tmp_path, monkeypatch
):
    task = "discoeval/ssp"
    write_files(tmp_path / "data", task)
    encoded = []
    encode_rows = SentenceEncoder.encode_rows

    def counting(self, rows, *arguments, **options):
        vectors, num_cut = encode_rows(self, rows, *arguments, **options)
        encoded.append(vectors)
        return vectors, num_cut

    monkeypatch.setattr(SentenceEncoder, "encode_rows", counting)
    task_folders.train_little(monkeypatch)
    runner = make(tmp_path, task, limit=30)
    assert not encoded
    for seed in (1, 2):
        runner.run(Trial(IGNORED, seed), tmp_path / "trial")
    assert len(encoded) == 3
    # Every seed of a baseline has an encoder of its own.
    twin = make(tmp_path, task, limit=30, randomly_initialized=True)
    found = [twin.run(Trial(IGNORED, seed), tmp_path / "trial") for seed in (7, 8, 7)]
    assert found[0] == found[2]
    first, second, third = (encoded[number] for number in (3, 6, 9))
    np.testing.assert_array_equal(first, third)
    for one, other in ((encoded[0], first), (first, second)):
        assert np.abs(one - other).max() > 1e-2


@pytest.mark.parametrize("row_texts", [1, 3])
def test_every_text_has_its_vector_though_rows_are_encoded_once(row_texts):
    examples = some_texts(np.random.default_rng(1), 5, 3)
    # Texts, and an example, that come again.
    examples[3] = (examples[0][0], examples[1][2], examples[3][2])
    examples[4] = examples[0]
    encoder = SentenceEncoder(tiny("slm"))
    vectors, num_cut = encode_examples(encoder, examples, row_texts)
    assert (vectors.shape, num_cut) == ((5, 3, 12), 0)
    for example, found in zip(examples, vectors, strict=True):
        rows = [example] if row_texts == 3 else [(text,) for text in example]
        expected = np.concatenate(encoder.encode_rows(rows)[0])
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_without_test_there_are_no_scores_of_it_and_cuts_are_reported(
    tmp_path, monkeypatch
):
    task = "discoeval/sp/wiki"
    task_folders.train_little(monkeypatch)
    write_files(tmp_path / "data", task, splits=("train", "valid"))
    said = []
    runner = make(tmp_path, task, report=said.append, limit=30, max_length=3)
    scores, _ = runner.run(Trial(IGNORED, 1), tmp_path / "trial")
    assert set(scores) == {"accuracy", "l2"}
    missing, *cut = said
    assert missing.startswith("No scores of discoeval/sp/wiki on test: ")
    assert "SP/wiki/test.txt" in missing
    assert [line.partition(": ")[0] for line in cut] == [
        f"{task}, train",
        f"{task}, dev",
    ]


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        ("discoeval/bso/wiki", "segabert", '`mode` must be "per_sentence".*segabert'),
        ("discoeval/dc/chat", "slm", "must be at most 5 texts.*6 texts"),
        ("glue/rte", "slm", "of DiscoEval.*glue/rte"),
    ],
)
def test_what_cannot_be_probed_is_refused(task, model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, task, model, mode="joint")
