r"""Trains and evaluates the models of docs/study.md, at equal data and parameters.

  python -m benchmarks.study --workers=2
  python -m benchmarks.study_report

The first command builds the records from the Wikipedia and book text in `SEG_TF_DATA`,
then trains and evaluates every run of the plan that `study_runs.jsonl` lacks, on one
thread each. It can be interrupted and resumes. The second command prints the tables.

This file is also a config: `run_pretraining.py --config=benchmarks/study.py:rotary`.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from absl import flags

from benchmarks import sample_data
from benchmarks.study_objectives import (
    NextWindowConfig,
    PairInputsConfig,
    SentenceOrderConfig,
)
from seg_tf import command_line
from seg_tf.config import (
    EncoderConfig,
    MaskedLMConfig,
    RunConfig,
    StableAdamWConfig,
    config_getter,
    named_runs,
)
from seg_tf.configs import reat, segabert, segabert_slm
from seg_tf.data.configs import (
    MaskingConfig,
    PackedWindowInputsConfig,
    SentenceInputsConfig,
    ShuffledWindowInputsConfig,
)

RESULTS = pathlib.Path(__file__).with_name("study_runs.jsonl")
# Flags of the windows in each folder, and the folder that an arm is trained on.
_WINDOWS = {
    **{length: (f"--window_length={length}",) for length in ("128", "256", "512")},
    "64": ("--window_length=64",),
    "short": ("--window_length=128", "--short_window_rate=0.5"),
    "16384": ("--window_length=16384",),
}
_FOLDERS = {
    "conpono": "64",
    **dict.fromkeys(("short", "packed"), "short"),
    **dict.fromkeys(("reat", "reat_exchange"), "16384"),
}
# Rows of one window each that contain the word pieces of 32 packed rows.
_SHORT_ROWS = 45

# === Arms ===

# 128 rows, like BERT's table of positions.
_TABLES = {"paragraph_index": 16, "sentence_index": 32, "token_index": 80}
_OLD = segabert.RUNS["tiny"]
_MODERN = segabert.RUNS["modern_tiny"].model
# An encoder without tables gets their weights in wider feed-forward blocks.
_WITHOUT_TABLES: dict[str, Any] = {"index_tables": {}, "intermediate_size": 544}
_LEVELS = replace(
    _MODERN,
    rotary_shares=segabert.RUNS["included"].model.rotary_shares,
    **_WITHOUT_TABLES,
)


def _run(model: EncoderConfig, learning_rate: float, **parts: Any) -> RunConfig:
    run = replace(
        _OLD,
        paper="segabert_base",
        model=model,
        optimizer=StableAdamWConfig(
            learning_rate=learning_rate, warmup_updates=100, decay_share=0.2
        ),
        training=replace(
            _OLD.training,
            num_updates=3_000,
            log_interval=50,
            validation_interval=250,
            validation_batches=20,
            dtype_policy="mixed_bfloat16",
            checkpoint_interval=250,
            keep_checkpoints=1,
        ),
    )
    return replace(run, **parts)


def _old(**tables: int) -> RunConfig:
    return _run(replace(_OLD.model, index_tables=tables), 2e-3)


def _with_objective(config: Any, inputs: Any) -> RunConfig:
    objectives = {"masked_lm": MaskedLMConfig(), "sentences": config}
    return _run(_LEVELS, 4e-3, inputs=inputs, objectives=objectives)


def _sized(run: RunConfig, batch_size: int) -> RunConfig:
    return replace(run, training=replace(run.training, batch_size=batch_size))


_SLM, _REAT = segabert_slm.RUNS["included"], reat.RUNS["tiny"]
_MASKING = _OLD.inputs.masking
# The middle one of the learning rates that are tried.
RUNS = named_runs(
    "study",
    bert=_old(position_index=128),
    segabert=_old(**_TABLES),
    rotary=_run(replace(_MODERN, **_WITHOUT_TABLES), 4e-3),
    tables=_run(replace(_MODERN, index_tables=_TABLES), 4e-3),
    levels=_run(_LEVELS, 4e-3),
    slm=_run(
        replace(_LEVELS, index_tables={"sentence_id": 22}),
        4e-3,
        inputs=SentenceInputsConfig(
            window_length=128, max_sentences=20, shuffle_rate=1.0, masking=_MASKING
        ),
        objectives=_SLM.objectives,
    ),
    bert_ps=_old(position_index=128, paragraph_index=16, sentence_index=32),
    order=_with_objective(
        SentenceOrderConfig(),
        ShuffledWindowInputsConfig(
            window_length=128, max_sentences=2, shuffle_rate=1.0, masking=_MASKING
        ),
    ),
    conpono=_sized(
        _with_objective(
            NextWindowConfig(),
            PairInputsConfig(
                window_length=64, masking=MaskingConfig(max_predictions=10)
            ),
        ),
        35,
    ),
    short=_sized(_run(_LEVELS, 4e-3), _SHORT_ROWS),
    packed=_run(
        _LEVELS,
        4e-3,
        inputs=PackedWindowInputsConfig(window_length=128, masking=_MASKING),
    ),
    reat=_sized(
        _run(
            _REAT.model,
            2e-3,
            inputs=_REAT.inputs,
            objectives={"masked_lm": MaskedLMConfig()},
        ),
        _REAT.training.batch_size,
    ),
    reat_exchange=_sized(
        _run(_REAT.model, 2e-3, inputs=_REAT.inputs, objectives=_REAT.objectives),
        _REAT.training.batch_size,
    ),
)
get_config = config_getter(RUNS)


class Stage(NamedTuple):
    """Arms whose runs are due at the same time, and the number of rates and seeds."""

    arms: tuple[str, ...]
    num_rates: int = 3
    num_seeds: int = 5


STAGES = (
    Stage(("bert", "segabert", "rotary", "tables")),
    Stage(("levels", "slm")),
    Stage(("bert_ps", "order", "conpono")),
    Stage(("short", "packed", "reat", "reat_exchange"), num_rates=1, num_seeds=3),
)


# === Plan ===


@dataclasses.dataclass(frozen=True, order=True)
class Run:
    """One training of an arm with a learning rate and a seed."""

    arm: str
    learning_rate: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.arm}_{self.learning_rate:g}_{self.seed}"


# The results of each run, nested by name.
Known = Mapping[Run, Mapping[str, Any]]


def results() -> dict[Run, dict[str, Any]]:
    """Reads the losses of each run and, once it is measured, its measures."""
    known: dict[Run, dict[str, Any]] = {}
    for line in RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else ():
        values = json.loads(line)
        run = Run(*(values.pop(field.name) for field in dataclasses.fields(Run)))
        known.setdefault(run, {}).update(values)
    return known


def last_loss(values: Mapping[str, Any]) -> float:
    """Returns the masked-LM loss of the last validation of a run."""
    return float(values["validation_losses"][-1][1])


def best_rate(arm: str, known: Known) -> float:
    """Returns the rate whose run with seed 0 ended with the lowest loss."""
    losses = {
        run.learning_rate: last_loss(values)
        for run, values in known.items()
        if run.arm == arm and run.seed == 0
    }
    return min(losses, key=losses.__getitem__)


def rates(arm: str, count: int = 3) -> list[float]:
    """Returns the first `count` learning rates to try, the middle one first."""
    middle: float = RUNS[arm].optimizer.learning_rate
    return [middle, middle / 2, middle * 2][:count]


def missing(known: Known) -> Iterator[tuple[Run, bool]]:
    """Yields each run that is left, and whether it is only to be measured.

    All rates are tried with seed 0. The best is measured, and trained with more seeds.
    """
    for stage in STAGES:
        tried = {
            arm: [Run(arm, rate, 0) for rate in rates(arm, stage.num_rates)]
            for arm in stage.arms
        }
        for runs in tried.values():
            yield from ((run, False) for run in runs if run not in known)
        for seed in range(stage.num_seeds):
            for arm, runs in tried.items():
                if all(run in known for run in runs):
                    run = Run(arm, best_rate(arm, known), seed)
                    if run not in known:
                        yield run, False
                    elif "loss_at" not in known[run]:
                        yield run, True


# === Training ===


def _command(*arguments: str) -> None:
    threads = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **dict.fromkeys(threads, "1")},
        check=True,
    )


def build_records(folder: pathlib.Path) -> None:
    """Builds the missing records, one folder for each entry of `_WINDOWS`."""
    text, documents = folder / "text", folder / "documents"
    sample_data.write_text(text)
    if not (documents / "manifest.json").exists():
        _command(
            *("-m", "seg_tf", "build-documents", "--format=json_lines"),
            *(f"--input={text}", f"--vocab_file={sample_data.SMALL_VOCABULARY}"),
            *(f"--output_dir={documents}", "--num_workers=2"),
        )
    for name, options in _WINDOWS.items():
        if not (folder / name / "manifest.json").exists():
            _command(
                *("-m", "seg_tf", "build-windows", f"--documents_dir={documents}"),
                *(*options, f"--output_dir={folder / name}", "--num_workers=2"),
            )


def _train(run: Run, records: pathlib.Path, folder: pathlib.Path) -> None:
    _command(
        "run_pretraining.py",
        f"--config={__file__}:{run.arm}",
        f"--records_dir={records}",
        f"--output_dir={folder}",
        f"--config.optimizer.learning_rate={run.learning_rate}",
        f"--config.training.seed={run.seed}",
    )


def _losses(folder: pathlib.Path) -> dict[str, Any]:
    """Reads the validations, the last of them whole, and the speed from a log."""
    with (folder / "log.jsonl").open(encoding="utf-8") as file:
        rows = list(map(json.loads, file))
    validations = [row for row in rows if row["kind"] == "validation"]
    speeds = [row["tokens_per_second"] for row in rows if row["kind"] == "train"]
    return {
        "validation_losses": [
            [row["updates"], row.get("masked_lm_loss", row["loss"])]
            for row in validations
        ],
        "last_validation": validations[-1],
        "tokens_per_second": statistics.median(speeds),
    }


def _work(lock: threading.Lock, started: set[tuple[Run, bool]]) -> None:
    records, output_dir = (
        pathlib.Path(flag.value) for flag in (_RECORDS_DIR, _OUTPUT_DIR)
    )
    while True:
        with lock:
            tasks = [task for task in missing(results()) if task not in started]
            if not tasks:
                return
            run, is_trained = tasks[0]
            started.add(tasks[0])
        folder = output_dir / run.name
        if is_trained:
            output = folder / "measures.json"
            _command(
                *("-m", "benchmarks.study_measures", f"--run={folder}"),
                *(f"--records_dir={records}", f"--output={output}"),
            )
            values = json.loads(output.read_text("utf-8"))
        else:
            _train(run, records / _FOLDERS.get(run.arm, "128"), folder)
            values = _losses(folder)
        line = json.dumps(dataclasses.asdict(run) | values)
        with lock, RESULTS.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def main(_: Sequence[str]) -> None:
    if not sample_data.BOOKS.exists():
        print(f"Skipped: {sample_data.SAMPLE_DATA} has no text; set SEG_TF_DATA")
        return
    build_records(pathlib.Path(_RECORDS_DIR.value))
    lock, started = threading.Lock(), set[tuple[Run, bool]]()
    with concurrent.futures.ThreadPoolExecutor(_WORKERS.value) as pool:
        futures = [pool.submit(_work, lock, started) for _ in range(_WORKERS.value)]
    for future in futures:
        future.result()  # raises the error of a worker


if __name__ == "__main__":
    _RECORDS_DIR = flags.DEFINE_string("records_dir", "records/study", "Records.")
    _OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/study", "Folder of the runs.")
    _WORKERS = flags.DEFINE_integer("workers", 1, "Number of runs at a time.", 1)
    command_line.run(main)
