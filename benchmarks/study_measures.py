"""Measures a run of docs/study.md: loss by place, grammar, similarity and probes.

  python -m benchmarks.study_measures --run=runs/study/bert_0.002_0 …

`benchmarks.study` runs this command, in a process of its own.
"""

import hashlib
import json
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags

import benchmarks.study_objectives  # noqa: F401  registers the configs of its classes
from benchmarks.sample_data import SAMPLE_DATA
from seg_tf import command_line
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained
from seg_tf.config import EncoderConfig, RunConfig, build_from
from seg_tf.data.configs import (
    MaskingConfig,
    SentenceInputsConfig,
    WindowInputsConfig,
)
from seg_tf.finetuning.probing import ProbeRunner, probe_recipe
from seg_tf.finetuning.trials import Trial
from seg_tf.inference.masked_lm import SentenceScorer, evaluate_minimal_pairs
from seg_tf.inference.probes import evaluate_similarity
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.layouts.windows import WINDOW_INDICES
from seg_tf.objectives import MaskedLM
from seg_tf.ops.losses import cross_entropy
from seg_tf.tasks import blimp, similarity

# Masked pieces by their distance to the end of the sentence or paragraph.
DISTANCES = {"0": (0, 1), "1": (1, 2), "2–4": (2, 5), "5–9": (5, 10), "10+": (10, 999)}
SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "sick-r")
PROBES = ("discoeval/sp/rocstory", "discoeval/bso/wiki")
_NUM_WINDOWS = 1_600
_PAIRS_PER_FILE = 20


def distances_to_ends(groups: np.ndarray) -> np.ndarray:
    """Returns the number of later positions of the same group, `(B, L)`.

    A group is a stretch of equal numbers in a row of `groups`, int `(B, L)`.
    """
    distances = np.zeros_like(groups)
    for place in range(groups.shape[1] - 2, -1, -1):
        is_same = groups[:, place] == groups[:, place + 1]
        distances[:, place] = np.where(is_same, distances[:, place + 1] + 1, 0)
    return distances


def _batches(
    config: RunConfig, length: int, records_dir: pathlib.Path
) -> Iterator[dict[str, np.ndarray]]:
    """Yields held-out rows in order, whose masks are the same for all models."""
    masking = MaskingConfig(max_predictions=20 * length // 128)
    inputs: Any = WindowInputsConfig(window_length=length, masking=masking)
    if isinstance(config.inputs, SentenceInputsConfig):
        inputs = replace(
            config.inputs, window_length=length, masking=masking, shuffle_rate=0.0
        )
    caps = {**dict.fromkeys(WINDOW_INDICES, 2**30), **config.model.index_tables}
    implementation = build_from(
        inputs, records_dir=records_dir / str(length), seed=0, index_tables=caps
    )
    num_windows = _NUM_WINDOWS * 128 // length
    yield from implementation.validation_dataset(32, num_windows).as_numpy_iterator()


def _losses(
    pretrained: Pretrained, length: int, records_dir: pathlib.Path
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns each prediction's loss `(N,)` and its distances to the two ends."""
    objective = pretrained.objective(MaskedLM, "a masked language model")
    encoder = pretrained.encoder

    @tf.function(reduce_retracing=True)
    def run(features: dict[str, tf.Tensor]) -> tf.Tensor:
        sequence = encoder({name: features[name] for name in encoder.feature_names})
        logits = objective.logits(sequence, features["masked_positions"])
        return cross_entropy(features["masked_ids"], tf.cast(logits, tf.float32))

    losses: list[np.ndarray] = []
    distances: dict[str, list[np.ndarray]] = {"sentence": [], "paragraph": []}
    for batch in _batches(pretrained.config, length, records_dir):
        is_prediction = batch["masked_weights"] > 0
        losses.append(run(batch).numpy()[is_prediction])
        paragraph = batch["paragraph_index"]
        sentence = 1_000 * paragraph + batch["sentence_index"]
        for name, groups in (("sentence", sentence), ("paragraph", paragraph)):
            places = distances_to_ends(np.where(batch["padding_mask"], groups, -1))
            at_masks = np.take_along_axis(places, batch["masked_positions"], axis=1)
            distances[name].append(at_masks[is_prediction])
    return np.concatenate(losses), {
        name: np.concatenate(places) for name, places in distances.items()
    }


def _measure(run: pathlib.Path, records: pathlib.Path) -> dict[str, Any]:
    pretrained = load_pretrained(run)
    config = pretrained.config
    manifest = (records / "128" / "manifest.json").read_bytes()
    result: dict[str, Any] = {
        "records": hashlib.sha256(manifest).hexdigest(),
        "num_weights": pretrained.encoder.count_params(),
        "loss_at": {},
    }
    if isinstance(config.model, EncoderConfig):
        has_positions = "position_index" in config.model.index_tables
        for length in (128,) if has_positions else (128, 256, 512):
            losses, distances = _losses(pretrained, length, records)
            result["loss_at"][length] = float(losses.mean())
            if length == 128:
                result["loss_before_end"] = {
                    end: {
                        name: float(losses[(low <= places) & (places < high)].mean())
                        for name, (low, high) in DISTANCES.items()
                    }
                    for end, places in distances.items()
                }
        pairs = blimp.read(SAMPLE_DATA / "blimp", _PAIRS_PER_FILE)
        grammar = evaluate_minimal_pairs(SentenceScorer(pretrained), pairs)
        fields = sorted({pair.field for pair in pairs})
        result["blimp"] = {name: grammar[name] for name in ("accuracy", *fields)}
    sets = {name: similarity.read(name, SAMPLE_DATA / "sts") for name in SETS}
    scores, _ = evaluate_similarity(SentenceEncoder(pretrained), sets)
    result["similarity"] = {name: scores[name]["spearman"] for name in SETS}
    result["probes"] = {}
    for task in PROBES:
        runner = ProbeRunner(pretrained, task, SAMPLE_DATA / "discoeval", report=bool)
        (setting,) = probe_recipe(task).settings
        with tempfile.TemporaryDirectory() as folder:
            probe, _ = runner.run(Trial(setting, 0), pathlib.Path(folder))
        result["probes"][task] = probe["accuracy"]
    return result


def main(_: Sequence[str]) -> None:
    result = _measure(pathlib.Path(_RUN.value), pathlib.Path(_RECORDS_DIR.value))
    pathlib.Path(_OUTPUT.value).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    _RUN = flags.DEFINE_string("run", None, "Folder of the run.", required=True)
    _RECORDS_DIR = flags.DEFINE_string("records_dir", None, "Records.", required=True)
    _OUTPUT = flags.DEFINE_string("output", None, "File to write.", required=True)
    command_line.run(main)
