"""Building records: 2 worker processes against 1, and memory against the corpus.

  python -m benchmarks.corpus_scaling --rounds=3
  python -m benchmarks.corpus_scaling --rounds=0 --memory_megabytes=10,100,1000

The text is a sample's files, repeated under other names as often as it takes. Memory is
the largest resident set of any process of a build, read from the system while it runs.
"""

import itertools
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import psutil
from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line

_INPUT = flags.DEFINE_string(
    "input", str(sample_data.WIKIPEDIA), "WikiExtractor files."
)
_VOCAB = flags.DEFINE_string(
    "vocabulary", str(sample_data.VOCABULARY), "A BERT vocab.txt."
)
_MEGABYTES = flags.DEFINE_integer("megabytes", 99, "Text to time, in MB.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Counted rounds; 0 times nothing.")
_MEMORY = flags.DEFINE_list(
    "memory_megabytes", [], "Sizes to measure memory at, in MB."
)
_WORKERS = flags.DEFINE_integer("num_workers", 2, "Workers of the faster side.")
_POLL_SECONDS = 0.2
_COMMAND = "data_pipelines.build_records"


def _link_text(folder: pathlib.Path, megabytes: float) -> int:
    """Fills a folder with links to files of the sample; returns their bytes."""
    paths = sorted(p for p in pathlib.Path(_INPUT.value).rglob("*") if p.is_file())
    total = 0
    for number, path in enumerate(itertools.cycle(paths)):
        if total >= megabytes * 1e6:
            return total
        (folder / f"{number:06d}").symlink_to(path.resolve())
        total += path.stat().st_size
    raise ValueError(f"`input` must hold files. Received: {_INPUT.value}")


def _start(text: pathlib.Path, output: pathlib.Path, workers: int) -> subprocess.Popen:
    shutil.rmtree(output, ignore_errors=True)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", _COMMAND, "--format=wikiextractor"),
            *(f"--input={text}", f"--output_dir={output}"),
            *(f"--vocab_file={_VOCAB.value}", f"--num_workers={workers}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _finish(build: subprocess.Popen) -> None:
    if build.wait():
        raise RuntimeError(f"a build failed: {build.args}")


def _peaks(build: subprocess.Popen) -> tuple[int, int]:
    """Largest resident set of the first process, and of any other one, in bytes."""
    parent = psutil.Process(build.pid)
    own = others = 0
    while build.poll() is None:
        try:
            own = max(own, parent.memory_info().rss)
            for child in parent.children(recursive=True):
                others = max(others, child.memory_info().rss)
        except psutil.NoSuchProcess:
            pass  # One ended just now.
        time.sleep(_POLL_SECONDS)
    return own, others


def main(_: Sequence[str]) -> None:
    paired.print_machine()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if _ROUNDS.value:
            text = work / "text"
            text.mkdir()
            size = _link_text(text, _MEGABYTES.value)

            def side(workers: int) -> float:
                _finish(_start(text, work / "records", workers))
                return size

            many = f"{_WORKERS.value} workers"
            rates = paired.interleave(
                {"1 worker": lambda: side(1), many: lambda: side(_WORKERS.value)},
                _ROUNDS.value,
            )
            paired.report(
                rates,
                of=many,
                against="1 worker",
                unit="MB/s",
                scale=1e-6,
                target=0.9 * _WORKERS.value,
            )
        for megabytes in map(float, _MEMORY.value):
            text = work / f"text-{megabytes:g}"
            text.mkdir()
            size = _link_text(text, megabytes)
            build = _start(text, work / "records", _WORKERS.value)
            own, others = _peaks(build)
            _finish(build)
            print(
                f"  {size / 1e6:7.0f} MB of text: {own / 1e6:.0f} MB the first "
                f"process, {others / 1e6:.0f} MB the largest worker"
            )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
