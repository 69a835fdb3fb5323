"""A Sphinx directive: the `--help` of every command, under headings."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from seg_tf.command_table import COMMANDS
from tests import command_calls


class CommandHelp(SphinxDirective):
    """Sections of groups, with a section for each command."""

    def run(self) -> list[nodes.Node]:
        return [
            self._section(
                heading,
                [self._section(name, [_help(name)]) for name in group],
            )
            for heading, group in COMMANDS.items()
        ]

    def _section(self, title: str, content: list[nodes.Node]) -> nodes.section:
        section = nodes.section("", nodes.title(title, title), *content, names=[title])
        self.state.document.note_implicit_target(section)
        return section


def _help(name: str) -> nodes.literal_block:
    """The help of a command, with the paths of its modules in the repository."""
    text = command_calls.call(name, "--help").stdout
    text = text.replace(f"{command_calls.REPOSITORY}/", "")
    return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
