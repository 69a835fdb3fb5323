"""Trackers, `--wandb[=PROJECT]` and `--mlflow[=EXPERIMENT]`, on a command line."""

import importlib.util

import pytest
from absl import flags

from seg_tf.commands import run_flags
from seg_tf.training import trackers
from tests import command_calls


def chosen(*arguments):
    with command_calls.flags_of_one_command():
        run_flags.define_tracker_flags()
        flags.FLAGS(["command", *arguments])
        return run_flags.chosen_trackers()


@pytest.fixture
def everything_is_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


@pytest.mark.usefixtures("everything_is_installed")
@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], {}),
        (["--wandb"], {"wandb": ""}),
        (["--wandb=project"], {"wandb": "project"}),
        (["--mlflow=a b", "--wandb"], {"wandb": "", "mlflow": "a b"}),
        (["--wandb=project", "--nowandb"], {}),
    ],
)
def test_a_tracker_is_chosen_with_a_value_or_without(arguments, expected):
    assert chosen(*arguments) == expected


@pytest.mark.usefixtures("everything_is_installed")
def test_there_is_a_flag_for_every_tracker():
    names = list(trackers.SERVICES)
    assert list(chosen(*(f"--{name}" for name in names))) == names


@pytest.mark.parametrize("name", list(trackers.SERVICES))
def test_a_package_that_is_missing_is_named_with_its_extra(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=rf'`--{name}` .*install "seg_tf\[{name}\]"'):
        chosen(f"--{name}")
