"""Tables of a paper's settings: those that its runs are compared with anyway."""

from seg_tf import fidelity
from seg_tf.paper_tables.table import ConfigValue, Row, Table


def table(number: int, title: str, name: str, run: str, source: str) -> Table:
    """A table of settings of one run.

    Args:
        number: its number in the paper.
        title: what it shows.
        name: what to call the run.
        run: name of its config, and of its column in `seg_tf.fidelity`.
        source: how the sources of its values end, as in "table 7".
    """
    paper = {
        value.setting: value.value
        for value in fidelity.COLUMNS[run]
        if value.source.endswith(source) and not callable(value.value)
    }
    columns = {setting: ConfigValue(setting) for setting in paper}
    return Table(number, title, columns, (Row(name, run, paper),))
