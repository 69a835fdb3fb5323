"""`seg-tf tasks`: the list of tasks."""

from seg_tf import tasks
from seg_tf.commands import tasks as command


def test_all_tasks_are_listed(capsys):
    command.main([])
    lines = capsys.readouterr().out.splitlines()
    squad = ["squad/v1.1", "squad/v2.0"]
    assert [line.split()[0] for line in lines] == [*tasks.names(), *squad]
    (line,) = (line for line in lines if line.startswith("glue/sts-b"))
    assert "2 texts, a score; spearman/pearson; train 5,749, dev 1,500" in line
