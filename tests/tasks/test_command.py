"""`python -m seg_tf.tasks`: what it says of a task's files."""

import pytest

import seg_tf.tasks.__main__ as command
from seg_tf import tasks
from tests import command_calls
from tests.sample_data import sample_data
from tests.tasks.test_glue import write


def shown(capsys, *arguments):
    command_calls.run(command, *arguments)
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def folder(tmp_path):
    header = "index\tsentence1\tsentence2"
    write(
        tmp_path / "WNLI" / "train.tsv",
        f"{header}\tlabel",
        "0\ta b c d\tx\t1",
        "1\ta b c\ty z\t0",
        "2\ta\t\t1",
        "3\ta b\tz\t1",
    )
    write(tmp_path / "WNLI" / "test.tsv", header, "7\ta\tb")
    return tmp_path


def test_counts_labels_and_lengths_are_shown(capsys, folder):
    lines = shown(capsys, "--task=glue/wnli", f"--data_dir={folder}", "--split=train")
    assert lines == [
        "glue/wnli, train: 4 examples (published: 635)",
        "  label 0: 1 (25.0%)",
        "  label 1: 3 (75.0%)",
        "  words of text 1: shortest 1, half 2, 95 % 4, longest 4",
        "  words of text 2: shortest 0, half 1, 95 % 2, longest 2; 1 empty",
    ]


def test_splits_without_a_file_are_named(capsys, folder):
    lines = shown(capsys, "--task=glue/wnli", f"--data_dir={folder}")
    assert [line for line in lines if "examples" in line] == [
        "glue/wnli, train: 4 examples (published: 635)",
        "glue/wnli, test: 1 examples (published: 146)",
    ]
    assert "  no labels" in lines
    assert lines[-1].startswith("Not shown: ")
    assert str(folder / "WNLI" / "dev.tsv") in lines[-1]


def test_examples_are_drawn_by_the_seed(capsys, folder):
    flags = ("--task=glue/wnli", f"--data_dir={folder}", "--split=train")
    whole = shown(capsys, *flags, "--show=9")
    assert whole[5:11] == [
        "  0: 1",
        "    a b c d",
        "    x",
        "  1: 0",
        "    a b c",
        "    y z",
    ]
    assert len(whole) == 5 + 4 * 3
    drawn = {
        seed: shown(capsys, *flags, "--show=1", f"--seed={seed}")[5:]
        for seed in range(8)
    }
    assert all(len(lines) == 3 for lines in drawn.values())
    assert len({tuple(lines) for lines in drawn.values()}) > 1
    assert drawn[3] == shown(capsys, *flags, "--show=1", "--seed=3")[5:]


def test_real_scores_are_as_published(capsys):
    lines = shown(
        capsys, "--task=glue/sts-b", f"--data_dir={sample_data('glue')}", "--split=dev"
    )
    assert lines[0] == "glue/sts-b, dev: 1,500 examples (as published)"
    assert lines[1].startswith("  scores: 0 to 5, half below 2.")


def test_without_a_task_all_are_listed(capsys):
    lines = shown(capsys)
    squad = ["squad/v1.1", "squad/v2.0"]
    assert [line.split()[0] for line in lines] == [*tasks.names(), *squad]
    (line,) = (line for line in lines if line.startswith("glue/sts-b"))
    assert "2 texts, a score; spearman/pearson; train 5,749, dev 1,500" in line


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (["--task=wnli"], ValueError, "`task` must be one of"),
        (["--task=glue/wnli"], ValueError, "`--data_dir` must name the folder"),
        (["--task=glue/wnli", "--data_dir=/no"], FileNotFoundError, "WNLI/train.tsv"),
        (
            ["--task=glue/wnli", "--data_dir=/no", "--split=x"],
            ValueError,
            "`split` of glue/wnli must be one of train, dev, test",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        command_calls.run(command, *arguments)
