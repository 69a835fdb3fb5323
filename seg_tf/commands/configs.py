"""Lists all run configs with their names for `--config=NAME`."""

import importlib
import re
from collections.abc import Sequence

from seg_tf.commands.run_flags import CONFIGS


def main(_: Sequence[str]) -> None:
    for path in sorted(CONFIGS.glob("[!_]*.py")):
        module = importlib.import_module(f"seg_tf.configs.{path.stem}")
        lines = dict(re.findall(r"^(\w+): (.+)$", module.__doc__ or "", re.MULTILINE))
        for variant in module.RUNS:
            print(f"{f'{path.stem}_{variant}':40} {lines[variant]}")
