"""Runs a command of `seg_tf` in this process, as its script would."""

from absl import flags


def run(module, *arguments):
    """Parses the arguments of a command's module, runs it, and forgets its flags."""
    before = set(flags.FLAGS)
    module.define_flags()
    try:
        flags.FLAGS([module.__name__, *map(str, arguments)])
        module.main([module.__name__])
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()
