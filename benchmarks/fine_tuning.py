r"""Compares fine-tuning scores with those of a plain PyTorch and transformers loop.

  python -m benchmarks.fine_tuning --model_dir=all-MiniLM-L6-v2 --data_dir=glue \
      --peer_python=torch/bin/python --output_dir=parity
  python -m benchmarks.fine_tuning … --tasks=rte --seeds=2 --limit=200 --epochs=1
  taskset -c 0 python -m benchmarks.fine_tuning … --side=ours &
  taskset -c 1 python -m benchmarks.fine_tuning … --side=peer --threads=1

Both sides start from the same weights, those of a Hugging Face BERT with its pooler,
and use the same recipe: AdamW with warmup over a tenth of the updates and linear decay,
no weight decay for LayerNorm and biases, gradients clipped to a norm of 1, batches of
32, three epochs. Seeds determine the new layers, dropout and the order of examples,
which differ between the sides. For each task, prints the mean over seeds with its
standard error, and the difference between the sides in standard errors.

--peer_python is the Python of an environment with torch and transformers. Results are
stored in --output_dir. If the command was interrupted, run it again: it runs only the
missing trainings and then prints the table.
"""

import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from absl import flags

from seg_tf import command_line, files, tasks
from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.finetuning.classification import ClassificationRunner
from seg_tf.finetuning.trials import Trial
from seg_tf.interop import convert
from seg_tf.tasks.finetuning_settings import OptimizerSettings, Setting
from seg_tf.tasks.task import compute

_PEER = pathlib.Path(__file__).with_name("hugging_face_fine_tuning.py")
_RECIPE = OptimizerSettings()

_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Folder of a Hugging Face BERT.", required=True
)
_DATA_DIR = flags.DEFINE_string("data_dir", None, "Folder of GLUE.", required=True)
_PEER_PYTHON = flags.DEFINE_string(
    "peer_python", None, "Python with torch and transformers.", required=True
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder of the trainings.", required=True
)
_TASKS = flags.DEFINE_list("tasks", ["mrpc", "rte", "sts-b"], "Tasks of GLUE.")
_SEEDS = flags.DEFINE_integer("seeds", 5, "Trainings of each task and side.")
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Passes over the training examples.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 3e-5, "The highest rate.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Examples of an update.")
_MAX_LENGTH = flags.DEFINE_integer("max_length", 128, "Positions of a row.")
_LIMIT = flags.DEFINE_integer("limit", None, "Train on the first examples alone.")
_THREADS = flags.DEFINE_integer("threads", 0, "Of PyTorch; 0 is all.")
_SIDES = flags.DEFINE_multi_enum(
    "side",
    ["ours", "peer"],
    ["ours", "peer"],
    "Train this side alone and print no table; a process for each may run at once.",
)


def main(_: Sequence[str]) -> None:
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    output_dir.mkdir(parents=True, exist_ok=True)
    checkpoint = output_dir / "checkpoint"
    _check_settings(output_dir / "settings.json")
    chosen = {name: tasks.get(f"glue/{name}") for name in _TASKS.value}
    for name, task in chosen.items():
        sides = {"ours": _Ours(task, checkpoint), "peer": _Peer(task)}
        results: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for seed in range(1, _SEEDS.value + 1):
            for side in _SIDES.value:
                file = output_dir / f"{name}-{side}-{seed}.json"
                if not file.exists():
                    started = time.monotonic()
                    scores = sides[side](seed)
                    scores["seconds"] = time.monotonic() - started
                    files.write_text(file, files.to_json(scores))
                results[side].append(json.loads(file.read_text()))
                print(
                    f"{name} seed {seed} {side}: {_line(results[side][-1])}", flush=True
                )
        if all(results.values()):
            _print_table(name, results)


def _check_settings(file: pathlib.Path) -> None:
    """Writes the settings to a new `file`. Raises ValueError if it contains others."""
    recipe = (_MODEL_DIR, _LIMIT, _EPOCHS, _LEARNING_RATE, _BATCH_SIZE, _MAX_LENGTH)
    settings = {flag.name: flag.value for flag in recipe}
    if not file.exists():
        files.write_text(file, files.to_json(settings))
    known = files.read_json(file)
    if known != settings:
        raise ValueError(
            f"`--output_dir` must be of the same settings. Received: {settings}; those "
            f"of {file} are {known}"
        )


class _Ours:
    """Fine-tunes with this project. The first call encodes the texts."""

    def __init__(self, task: tasks.Task, checkpoint: pathlib.Path):
        self._task = task
        self._checkpoint = checkpoint
        self._runner: ClassificationRunner | None = None

    def __call__(self, seed: int) -> dict[str, float]:
        if self._runner is None:
            if not self._checkpoint.exists():
                source = convert.open_model(pathlib.Path(_MODEL_DIR.value))
                convert.convert(source, self._checkpoint)
            self._runner = ClassificationRunner(
                load_pretrained(self._checkpoint),
                self._task,
                _DATA_DIR.value,
                limit=_LIMIT.value,
                max_length=_MAX_LENGTH.value,
                optimizer=_RECIPE,
            )
        setting = Setting(_LEARNING_RATE.value, _BATCH_SIZE.value, _EPOCHS.value)
        with tempfile.TemporaryDirectory() as folder:
            return self._runner.run(Trial(setting, seed), pathlib.Path(folder))[0]


class _Peer:
    """Fine-tunes with PyTorch and transformers, each time in a separate process."""

    def __init__(self, task: tasks.Task):
        self._task = task
        self._train = tasks.read(task, _DATA_DIR.value, "train")[: _LIMIT.value]
        self._dev = tasks.read(task, _DATA_DIR.value, "dev")

    def __call__(self, seed: int) -> dict[str, float]:
        job = {
            "model_dir": _MODEL_DIR.value,
            "num_outputs": self._task.num_outputs,
            "seed": seed,
            "learning_rate": _LEARNING_RATE.value,
            "batch_size": _BATCH_SIZE.value,
            "epochs": _EPOCHS.value,
            "max_length": _MAX_LENGTH.value,
            "num_threads": _THREADS.value,
            **dataclasses.asdict(_RECIPE),
            "train": _plain(self._train),
            "dev": _plain(self._dev),
        }
        done = subprocess.run(
            [_PEER_PYTHON.value, _PEER],
            input=json.dumps(job),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        outputs = np.array(json.loads(done.stdout)["outputs"])
        is_score = self._task.is_regression
        predictions = outputs[:, 0] if is_score else outputs.argmax(axis=1)
        labels = [example.label for example in self._dev]
        return compute(self._task, labels, predictions.tolist())


def _plain(examples: Sequence[tasks.Example]) -> list[dict[str, Any]]:
    return [
        {"texts": list(example.texts), "label": example.label} for example in examples
    ]


def _line(scores: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in scores.items())


def _print_table(name: str, results: dict[str, list[dict[str, float]]]) -> None:
    for metric in results["ours"][0]:
        means, errors = {}, {}
        for side, seed_scores in results.items():
            values = [scores[metric] for scores in seed_scores]
            means[side] = statistics.fmean(values)
            spread = statistics.stdev(values) if len(values) > 1 else math.nan
            errors[side] = spread / math.sqrt(len(values))
        difference = means["ours"] - means["peer"]
        # Of trainings that all end alike there is none.
        error = math.hypot(*errors.values()) or math.nan
        print(
            f"{name} {metric:10} ours {means['ours']:.4f} ± {errors['ours']:.4f}  "
            f"peer {means['peer']:.4f} ± {errors['peer']:.4f}  "
            f"difference {difference:+.4f} ({difference / error:+.1f} errors)",
            flush=True,
        )


if __name__ == "__main__":
    keras.config.disable_interactive_logging()
    command_line.run(main)
