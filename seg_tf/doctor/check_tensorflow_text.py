"""tensorflow-text: whether its operators load into this TensorFlow and are right."""

from __future__ import annotations

import os

from seg_tf.doctor import children, cures
from seg_tf.doctor.children import HUNG, Outcome, Report
from seg_tf.doctor.findings import Finding, ok, problem, warning

_TOKENS = ("[UNK]", "seg", "##ments", "##ment", "are", "un", "##bro", "##ken", "!")
_SENTENCE = "Segments are UNBROKEN !! qed"
# Longest match first: seg|ments, are, un|bro|ken, ! and ! apart, and an unknown word.
_IDS = [1, 2, 4, 5, 6, 7, 8, 8, 0]
_SYMPTOMS = ("undefined symbol", "NotFoundError")


def check(time_limit: float) -> list[Finding]:
    outcome = children.run_probe(
        "check_tensorflow_text", time_limit, TF_CPP_MIN_LOG_LEVEL="3"
    )
    return judge(
        outcome,
        cures.installed_version("tensorflow"),
        cures.installed_version("tensorflow-text"),
    )


def probe(report: Report) -> None:
    report.step("importing tensorflow_text")
    import tensorflow_text

    report.add(path=os.fspath(tensorflow_text.__file__ or ""))
    report.step("tokenising a sentence")
    tokenizer = tensorflow_text.FastBertTokenizer(
        list(_TOKENS), suffix_indicator="##", lower_case_nfd_strip_accents=True
    )
    report.add(ids=tokenizer.tokenize([_SENTENCE]).flat_values.numpy().tolist())


def judge(outcome: Outcome, tensorflow: str, text: str) -> list[Finding]:
    """Findings from the probe and the versions of the two installed packages."""
    ids = outcome.values.get("ids")
    if ids == _IDS and _minor(text) == _minor(tensorflow):
        return [ok(f"tensorflow-text {text} splits a sentence into the right pieces")]
    fits = f'{cures.PIP} install "tensorflow-text=={_minor(tensorflow)}.*"'
    if not text:
        return [
            problem(
                "tensorflow-text is not installed",
                "tokenising in the graph needs it",
                cures.packages(),
            )
        ]
    versions = f"tensorflow-text {text} with TensorFlow {tensorflow or '(none)'}"
    if ids is not None and ids != _IDS:
        return [
            problem(
                f"{versions} splits a sentence wrongly",
                f"{_SENTENCE!r} gives {ids} and should give {_IDS}",
                cures.reinstall("tensorflow-text"),
            )
        ]
    if ids is not None:
        return [
            warning(
                f"{versions}: not of one release",
                "its operators load by luck; each is compiled for one TensorFlow",
                fits,
            )
        ]
    if not tensorflow:
        return [problem(f"{versions}", "TensorFlow is missing", cures.packages())]
    if _minor(text) != _minor(tensorflow):
        return [
            problem(
                f"The operators of {versions} do not load",
                "tensorflow-text is compiled for the TensorFlow of its own release: "
                f"{outcome.failure}",
                f"{cures.packages()}; to keep this TensorFlow: {fits}",
            )
        ]
    if any(symptom in outcome.failure for symptom in _SYMPTOMS):
        return [
            problem(
                f"The operators of {versions} do not load",
                "its library was compiled for another TensorFlow, or is damaged: "
                f"{outcome.failure}",
                cures.reinstall("tensorflow-text"),
            )
        ]
    if outcome.ending == HUNG:
        return [
            problem(
                f"{versions} does not answer",
                outcome.failure,
                "python -m seg_tf.doctor --time_limit=300",
            )
        ]
    again = cures.reinstall("tensorflow-text")
    cure = f"first what is said of TensorFlow and Keras above, then: {again}"
    return [problem(f"{versions} fails", outcome.failure, cure)]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
