"""Checks an installation and says what to do: `python -m seg_tf.doctor`.

It has to work where nothing else does. So modules here import the standard library
alone at their top, and an import that may fail, crash or hang happens in a process of
its own (`probes`). A `check` gathers facts; a `judge` turns facts into findings and
touches nothing.
"""

import sys

# The modules of this package need it themselves, so it is checked before them.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        f"problem  Python {'.'.join(map(str, sys.version_info[:2]))}: {sys.executable}"
        "\n         cause: 3.11 to 3.13 is needed"
        "\n         cure:  make setup PYTHON=python3.12"
    )
