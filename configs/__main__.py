"""Lists all run configs with their names for `--config=NAME`."""

import importlib
import pathlib
import re


def main() -> None:
    for path in sorted(pathlib.Path(__file__).parent.glob("[!_]*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        lines = dict(re.findall(r"^(\w+): (.+)$", module.__doc__ or "", re.MULTILINE))
        for variant in module.RUNS:
            print(f"{f'{path.stem}_{variant}':40} {lines[variant]}")


if __name__ == "__main__":
    main()
