"""Checks an installation and says what to do: `python -m seg_tf.doctor`.

It has to work where nothing else does. So modules here import the standard library
alone at their top, and what may not import, crash or hang runs in a child process
(`children`). A check is two functions: `probe`, which reports facts from the child,
and `judge`, which turns facts into findings and touches nothing.
"""
