"""No package has more lines than its budget."""

from tools import budgets


def test_packages_are_within_their_budgets(capsys):
    assert budgets.main() == 0, capsys.readouterr().out


def test_a_package_above_its_budget_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(budgets, "REPOSITORY", tmp_path)
    for name in ("configs/a.py", "seg_tf/b.py", "seg_tf/layers/c.py", "tests/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\n")
    (tmp_path / "tools").mkdir()
    table = tmp_path / "tools" / "budgets.toml"
    totals = "[total]\nfiles = 3\nlines = 6\ntests = 2\n[packages]\n"
    table.write_text(totals + 'configs = 2\nseg_tf = 2\n"seg_tf/layers" = 2\n')
    assert budgets.main() == 0
    table.write_text(totals + 'configs = 2\nseg_tf = 2\n"seg_tf/layers" = 1\n')
    assert budgets.main() == 1
    assert "2       1  over its budget" in capsys.readouterr().out
    table.write_text(totals + 'configs = 2\nseg_tf = 2\n"seg_tf/ops" = 2\n')
    assert budgets.main() == 1
    assert "no such package: seg_tf/ops" in capsys.readouterr().out
