"""No package has more lines than its budget."""

from tools import budgets


def test_packages_are_within_their_budgets(capsys):
    assert budgets.main() == 0, capsys.readouterr().out
