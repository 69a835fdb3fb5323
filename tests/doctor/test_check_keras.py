"""Keras: its backend and the variables that lead it astray."""

import json

import pytest

from seg_tf.doctor import check_keras
from seg_tf.doctor.children import HUNG, RAISED, Outcome

VALUES = {
    "keras": "3.15.1",
    "backend": "tensorflow",
    "floatx": "float32",
    "keras_hub": "0.32.0",
}
FACTS = {
    "variable": "",
    "file": "/home/.keras/keras.json",
    "in_file": "tensorflow",
    "legacy": "",
    "tf_keras": False,
}
RECURSION = Outcome(
    {"keras": "3.15.1", "backend": "tensorflow", "floatx": "float32"},
    RAISED,
    "RecursionError: maximum recursion depth exceeded",
    "importing keras_hub",
)


def judge_one(outcome=None, **facts):
    outcome = outcome or Outcome(VALUES)
    (finding,) = check_keras.judge(outcome, {**FACTS, **facts})
    return finding


def test_all_is_well():
    assert judge_one().level == "ok"
    assert judge_one(in_file="").level == "ok"
    assert judge_one(variable="tensorflow", in_file="jax").level == "ok"


def test_the_variable_chooses_another_backend():
    failed = Outcome({}, RAISED, "No module named 'jax'", "importing keras")
    for outcome in (failed, Outcome({**VALUES, "backend": "jax"})):
        finding = judge_one(outcome, variable="jax")
        assert finding.level == "problem"
        assert finding.cure == "unset KERAS_BACKEND"


def test_the_settings_file_chooses_another_backend():
    finding = judge_one(in_file="torch")
    assert finding.title == "Keras runs on torch, not on TensorFlow"
    assert "/home/.keras/keras.json" in finding.cause
    assert "export KERAS_BACKEND=tensorflow" in finding.cure


@pytest.mark.parametrize("tf_keras", [False, True])
def test_legacy_keras_without_the_package_is_the_cause_of_the_recursion(tf_keras):
    finding = judge_one(RECURSION, legacy="1", tf_keras=tf_keras)
    assert finding.level == "problem"
    assert "TF_USE_LEGACY_KERAS=1" in finding.cause
    assert finding.cure == "unset TF_USE_LEGACY_KERAS"


def test_legacy_keras_with_the_package_is_fine():
    assert judge_one(legacy="1", tf_keras=True).level == "ok"
    assert judge_one(legacy="0", tf_keras=False).level == "ok"


def test_another_failure_says_which_package():
    assert judge_one(RECURSION).title == "keras-hub cannot be imported"
    hung = Outcome({}, HUNG, "60 s", "importing keras")
    finding = judge_one(hung)
    assert finding.title == "Keras cannot be imported"
    assert "--time_limit" in finding.cure


def test_two_causes_are_both_told():
    findings = check_keras.judge(
        RECURSION, {**FACTS, "legacy": "true", "in_file": "jax"}
    )
    assert len(findings) == 2


def test_keras_2_and_another_float_type_are_found():
    old = judge_one(Outcome({**VALUES, "keras": "2.15.0"}))
    assert old.level == "problem"
    half = judge_one(Outcome({**VALUES, "floatx": "float16"}))
    assert half.level == "warning"
    assert '"floatx": "float32"' in half.cure


@pytest.mark.parametrize(
    "text, backend",
    [(json.dumps({"backend": "jax"}), "jax"), ("{broken", ""), ("[]", ""), (None, "")],
)
def test_the_settings_file_is_read_from_where_keras_reads_it(
    tmp_path, monkeypatch, text, backend
):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    if text is not None:
        (tmp_path / "keras.json").write_text(text)
    facts = check_keras.gather()
    assert facts["in_file"] == backend
    assert facts["file"] == str(tmp_path / "keras.json")
