r"""Measures the CPU time that recipes need to reach a validation loss of masked LM.

  python -m benchmarks.speedrun --record=modern
  python -m benchmarks.speedrun --record=muon --seeds=0,1,2 --output_dir=runs/speedrun

The first call builds the data from the Wikipedia and book text in `SEG_TF_DATA`.

Each recipe trains a mini model (4 layers of width 256) on batches of 16 packed rows of
128 tokens, 30 % of them masked. Each run uses one thread. Interrupted runs resume. The
results, and the recipes that were tried, are in docs/speedrun.md.

This file is also a config: `run_pretraining.py --config=benchmarks/speedrun.py:modern`.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ml_collections
import numpy as np
from absl import flags

from benchmarks import sample_data
from seg_tf import command_line
from seg_tf.config import (
    MuonConfig,
    RunConfig,
    StableAdamWConfig,
    config_getter,
)
from seg_tf.configs import bert, segabert

_TARGET = 4.4
_TOKENS = {"position_index": 1}
_LEVELS = {
    "position_index": 4,
    "token_index": 2,
    "sentence_index": 1,
    "paragraph_index": 1,
}


def _record(
    run: RunConfig,
    learning_rate: float,
    model: Mapping[str, Any] | None = None,
    optimizer: type = StableAdamWConfig,
    **settings: Any,
) -> RunConfig:
    settings = {"warmup_updates": 100, "decay_share": 0.2, **settings}
    return replace(
        run,
        model=replace(run.model, **(model or {})),
        optimizer=optimizer(learning_rate=learning_rate, **settings),
        training=replace(
            run.training,
            num_updates=1_500,
            validation_interval=50,
            validation_batches=10,
        ),
    )


_BERT, _MODERN = bert.RUNS["mini"], bert.RUNS["modern_mini"]
RECORDS = {
    "bert": _record(_BERT, 1e-3, warmup_updates=250),
    "rotary": _record(_BERT, 1e-3, {"index_tables": {}, "rotary_shares": _TOKENS}),
    "modern": _record(_MODERN, 2e-3),
    "muon": _record(_MODERN, 2e-3, None, MuonConfig, matrix_learning_rate=0.02),
    "tables": _record(segabert.RUNS["modern_mini"], 2e-3),
    "levels": _record(_MODERN, 2e-3, {"rotary_shares": _LEVELS}),
}


def get_config(variant: str = "modern") -> ml_collections.ConfigDict:
    """Returns the run of a recipe. `--config.…` flags can override every field."""
    return config_getter(RECORDS)(variant)


def _build_records(folder: pathlib.Path) -> None:
    """Builds windows of 128 positions from Wikipedia and books, if they are missing."""
    if (folder / "manifest.json").exists():
        return
    text = folder.parent / "wikibooks_text"
    sample_data.write_text(text)
    arguments = (
        *(
            "--format=json_lines",
            f"--input={text}",
            f"--vocab_file={sample_data.SMALL_VOCABULARY}",
        ),
        *("--window_length=128", f"--output_dir={folder}", "--num_workers=2"),
    )
    subprocess.run(
        [sys.executable, "-m", "seg_tf", "build-records", *arguments], check=True
    )


def _train(record: str, seed: int, records_dir: str, output_dir: pathlib.Path) -> None:
    """Trains a recipe to its end and adds the CPU time to `cpu_seconds.json`."""
    folder = output_dir / f"{record}_{seed}"
    spent = folder / "cpu_seconds.json"
    if spent.exists() and json.loads(spent.read_text())["done"]:
        return
    threads = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [
            sys.executable,
            "run_pretraining.py",
            f"--config={__file__}:{record}",
            f"--records_dir={records_dir}",
            f"--output_dir={folder}",
            f"--config.training.seed={seed}",
        ],
        env={**os.environ, **dict.fromkeys(threads, "1")},
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = sum(
        getattr(after, name) - getattr(before, name)
        for name in ("ru_utime", "ru_stime")
    )
    if spent.exists():
        seconds += json.loads(spent.read_text())["seconds"]
    if folder.exists():
        done = result.returncode == 0
        spent.write_text(json.dumps({"seconds": seconds, "done": done}))
    if result.returncode:
        raise SystemExit(result.returncode)


def _results(folder: pathlib.Path) -> tuple[float, float | None, float]:
    """Returns last loss, updates to the target or None, and CPU seconds per update."""
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    losses = {
        line["updates"]: line["loss"] for line in lines if line["kind"] == "validation"
    }
    reached = [updates for updates, loss in losses.items() if loss <= _TARGET]
    seconds = json.loads((folder / "cpu_seconds.json").read_text())["seconds"]
    return losses[max(losses)], min(reached, default=None), seconds / max(losses)


def _summary(values: list[float], digits: int) -> str:
    """Formats the mean and the standard error."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}"


def main(_: list[str]) -> None:
    if not sample_data.BOOKS.exists():
        print(f"Skipped: {sample_data.SAMPLE_DATA} has no text; set SEG_TF_DATA")
        return
    record, output_dir = _RECORD.value, pathlib.Path(_OUTPUT_DIR.value)
    _build_records(pathlib.Path(_RECORDS_DIR.value))
    seeds = [int(seed) for seed in _SEEDS.value]
    for seed in seeds:
        _train(record, seed, _RECORDS_DIR.value, output_dir)
    results = [_results(output_dir / f"{record}_{seed}") for seed in seeds]
    losses, updates, seconds = zip(*results, strict=True)
    print(f"{record}, seeds {seeds}: mean and standard error")
    print(f"  validation loss at the end      {_summary(losses, 3)}")
    print(f"  CPU seconds of an update        {_summary(seconds, 3)}")
    if None in updates:
        print(f"  validation loss of {_TARGET}: not reached by every seed: {updates}")
        return
    times = [count * cost for count, cost in zip(updates, seconds, strict=True)]
    print(f"  updates to a loss of {_TARGET}        {_summary(updates, 0)}")
    print(f"  CPU seconds to a loss of {_TARGET}    {_summary(times, 0)}")


if __name__ == "__main__":
    _RECORD = flags.DEFINE_enum("record", "modern", list(RECORDS), "Recipe to run.")
    _RECORDS_DIR = flags.DEFINE_string(
        "records_dir", "records/wikibooks_128", "Records of windows of 128."
    )
    _OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/speedrun", "Folder of runs.")
    _SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "A run for each.")
    command_line.run(main)
