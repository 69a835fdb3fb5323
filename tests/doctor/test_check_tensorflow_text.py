"""tensorflow-text: operators that do not load, and wrong pieces."""

from seg_tf.doctor import check_tensorflow_text
from seg_tf.doctor.children import HUNG, KILLED, RAISED, Outcome

IDS = [1, 2, 4, 5, 6, 7, 8, 8, 0]
UNDEFINED = Outcome(
    {},
    RAISED,
    "NotFoundError: /env/_sentence_breaking_ops.so: undefined symbol: _ZN4absl12",
    "importing tensorflow_text",
)


def judge(outcome, tensorflow="2.20.0", text="2.20.1"):
    (finding,) = check_tensorflow_text.judge(outcome, tensorflow, text)
    return finding


def test_the_expected_ids_are_those_of_the_vocabulary():
    pieces = [check_tensorflow_text._TOKENS[number] for number in IDS]
    assert pieces == [
        "seg",
        "##ments",
        "are",
        "un",
        "##bro",
        "##ken",
        "!",
        "!",
        "[UNK]",
    ]
    assert check_tensorflow_text._IDS == IDS


def test_all_is_well():
    assert judge(Outcome({"ids": IDS})).level == "ok"


def test_operators_for_another_tensorflow_name_both_versions():
    finding = judge(UNDEFINED, text="2.18.1")
    assert finding.level == "problem"
    assert "tensorflow-text 2.18.1 with TensorFlow 2.20.0" in finding.title
    assert "undefined symbol: _ZN4absl12" in finding.cause
    assert '"tensorflow-text==2.20.*"' in finding.cure


def test_operators_of_the_right_version_that_do_not_load_are_installed_again():
    finding = judge(UNDEFINED)
    assert "damaged" in finding.cause
    assert '--force-reinstall --no-deps "tensorflow-text==' in finding.cure


def test_another_version_that_happens_to_work_is_a_warning():
    finding = judge(Outcome({"ids": IDS}), text="2.19.0")
    assert finding.level == "warning"
    assert '"tensorflow-text==2.20.*"' in finding.cure


def test_wrong_pieces_are_a_problem():
    finding = judge(Outcome({"ids": IDS[:-1]}))
    assert finding.level == "problem"
    assert str(IDS) in finding.cause


def test_not_installed():
    missing = Outcome({}, RAISED, "No module named 'tensorflow_text'", "importing")
    assert judge(missing, text="").title == "tensorflow-text is not installed"
    assert "TensorFlow is missing" in judge(missing, tensorflow="").cause


def test_a_crash_and_a_hang_are_told():
    crash = judge(Outcome({}, KILLED, "SIGSEGV", "tokenising a sentence"))
    assert "killed by SIGSEGV while tokenising a sentence" in crash.cause
    hang = judge(Outcome({}, HUNG, "60 s", "importing tensorflow_text"))
    assert "nothing came within 60 s" in hang.cause
    assert "--time_limit" in hang.cure
