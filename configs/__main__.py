"""Lists all runs, for `--config=NAME`: `python -m configs`."""

import importlib
import pathlib
import re


def descriptions(family: str) -> dict[str, str]:
    """The first line of each variant in the docstring of `configs/<family>.py`."""
    module = importlib.import_module(f"{__package__}.{family}")
    entries = re.findall(r"^(\w+): (.+)$", module.__doc__, re.MULTILINE)
    return {variant: line for variant, line in entries if variant in module.RUNS}


def main() -> None:
    for path in sorted(pathlib.Path(__file__).parent.glob("[!_]*.py")):
        for variant, line in descriptions(path.stem).items():
            print(f"{f'{path.stem}_{variant}':40} {line}")


if __name__ == "__main__":
    main()
