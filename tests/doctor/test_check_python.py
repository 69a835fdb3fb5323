"""Python and packages: recorded facts, and the lock file that is really there."""

import hashlib

import pytest

from seg_tf.doctor import check_python, cures

FACTS = {
    "version": [3, 11, 2],
    "executable": "/env/bin/python",
    "in_environment": True,
    "pinned": {"keras": "3.15.1", "numpy": "2.4.6"},
    "installed": {"keras": "3.15.1", "numpy": "2.4.6", "other": "1"},
}


def judge(**changes):
    return check_python.judge({**FACTS, **changes})


def levels(findings):
    return [finding.level for finding in findings]


def test_all_is_well():
    assert levels(judge()) == ["ok"] * 3


@pytest.mark.parametrize("version", [[3, 10, 14], [3, 14, 0], [2, 7, 18]])
def test_another_python_is_a_problem(version):
    finding = judge(version=version)[0]
    assert finding.level == "problem"
    assert finding.cure == "make setup PYTHON=python3.12 VENV=.venv312"


@pytest.mark.parametrize("version", [[3, 11, 0], [3, 13, 9]])
def test_the_oldest_and_newest_python_are_fine(version):
    assert judge(version=version)[0].level == "ok"


def test_no_virtual_environment_is_a_warning():
    assert judge(in_environment=False)[1].level == "warning"


def test_missing_and_differing_packages_are_told_apart():
    missing, differing = judge(
        pinned={"keras": "3.15.1", "numpy": "2.4.6", "tqdm": "4", "zipp": "4"},
        installed={"keras": "3.9.0", "numpy": "2.4.6"},
    )[2:]
    assert missing.level == "problem"
    assert missing.title == "Packages are missing: tqdm, zipp"
    assert differing.level == "warning"
    assert "keras 3.9.0" in differing.title
    assert "keras 3.15.1" in differing.cause
    assert "numpy" not in differing.title + differing.cause


def test_without_a_lock_file_nothing_is_compared():
    assert judge(pinned=None)[2].level == "ok"


def test_pins_are_those_of_this_python_under_one_spelling():
    lock = """\
# a comment with x==1
ml_dtypes==0.6.0 \\
    --hash=sha256:aa==
numpy==1.0 ; python_full_version < '3.5' \\
    --hash=sha256:bb
numpy==2.0 ; python_full_version >= '3.5' \\
win.only==1 ; sys_platform == 'win32' \\
plain==1.2.3
"""
    assert check_python.pinned_versions(lock) == {
        "ml-dtypes": "0.6.0",
        "numpy": "2.0",
        "plain": "1.2.3",
    }


def test_the_real_lock_file_is_read_and_this_environment_has_it():
    facts = check_python.gather()
    assert facts["pinned"]["tensorflow"] == facts["installed"]["tensorflow"]
    assert "absl-py" in facts["pinned"]
    assert len(facts["pinned"]) > 50


def test_the_cure_works_even_where_set_up_takes_all_for_installed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert cures.packages() == "make setup"
    (tmp_path / "set-up.json").write_text('{"run": "of another lock file"}')
    assert cures.packages() == "make setup"
    checksum = hashlib.sha256(cures.LOCK.read_bytes()).hexdigest()
    (tmp_path / "set-up.json").write_text(f'{{"run": "{checksum}"}}')
    assert "-m pip install --no-deps" in cures.packages()
    assert cures.packages().endswith("-r requirements/run.txt")
