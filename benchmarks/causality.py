r"""Causality of a language model: no probability depends on later sentence breaks.

  python -m benchmarks.causality --records_dir=records/wikipedia_words \
    --checkpoints=runs/sega_transformer_xl_tiny,runs/sega_transformer_xl_tiny_released

Held-out segments are read twice, with memory: as they are, and as if one more sentence
began at a word in their middle. Before that word nothing may change. The report is of
the change of the log-probabilities of the words before it.
"""

import os
from collections.abc import Iterator, Sequence

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import paired
from seg_tf import command_line, configuration
from seg_tf.checkpoints.pretrained import Pretrained, load_pretrained

_RECORDS_DIR = flags.DEFINE_string(
    "records_dir", None, "Documents of words.", required=True
)
_CHECKPOINTS = flags.DEFINE_list(
    "checkpoints", None, "Checkpoints or runs, comma-separated.", required=True
)
_SEGMENTS = flags.DEFINE_integer("segments", 20, "Segments of every lane.")


def _segments(pretrained: Pretrained) -> Iterator[dict[str, tf.Tensor]]:
    """Held-out segments in order, all lanes at once."""
    config = pretrained.config
    inputs = configuration.build(config.inputs, records_dir=_RECORDS_DIR.value, seed=0)
    lanes = config.inputs.validation_lanes
    return iter(inputs.validation_dataset(lanes, _SEGMENTS.value * lanes))


def _differences(pretrained: Pretrained) -> np.ndarray:
    """Changes of log-probabilities of words before a break that is added."""
    encoder, objective = pretrained.encoder, pretrained.objectives["causal_lm"]

    @tf.function(reduce_retracing=True)
    def read(features: dict[str, tf.Tensor]) -> tuple[tf.Tensor, dict]:
        output, memory = encoder(features)
        losses = objective.softmax(
            output, features["target_ids"], features["padding_mask"]
        )
        return losses, memory

    found, memory = [], {}
    for features in _segments(pretrained):
        features = {**features, **memory}
        length = features["token_ids"].shape[1]
        middle = length // 2
        losses, memory = read(features)
        is_behind = tf.range(length) >= middle
        counters = features["stream_sentence"] + tf.cast(is_behind, tf.int32)
        changed, _ = read({**features, "stream_sentence": counters})
        found.append((changed - losses)[:, :middle].numpy())
    return np.concatenate(found)


def main(argv: Sequence[str]) -> None:
    del argv
    paired.print_machine()
    print("change of log-probabilities before one more break, in nats")
    for checkpoint in _CHECKPOINTS.value:
        differences = np.abs(_differences(load_pretrained(checkpoint)))
        by_place = differences.mean(axis=0)
        print(
            f"  {checkpoint}: {differences.size:,} words, mean {differences.mean():.4g}"
            f", largest {differences.max():.4g}; the ten words before it "
            f"{by_place[-10:].mean():.4g}, none of it in "
            f"{(differences == 0).mean():.1%} of the words"
        )


if __name__ == "__main__":
    command_line.run(main)
