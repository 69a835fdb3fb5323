"""Measures loading: tokens per second on one core from records, and record size.

  python -m benchmarks.loading

Ours computes the three indices and the masking while loading. The other side only
parses the same windows in the usual form: int64 lists of fixed length with all features
precomputed (ids, mask, type ids, the three indices, predictions), in file order. Tokens
are positions of the batch. Record sizes are compared too.
"""

import pathlib
import sys
import tempfile
from collections.abc import Iterator, Sequence

from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line

_RECORDS = flags.DEFINE_string(
    "records_dir", None, "Window records. Default: made from some of the sample text."
)
_BATCH = flags.DEFINE_integer("batch_size", 32, "Rows of a batch.")
_BATCHES = flags.DEFINE_integer("batches", 200, "Batches of a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Counted rounds.")
_CONVERTED = flags.DEFINE_integer("converted", 2_000, "Windows in the other form.")
_TABLES = {"paragraph_index": 50, "sentence_index": 100, "token_index": 256}


def _write_fixed_length(inputs, path: pathlib.Path) -> None:
    """Writes rows of `inputs` as int64 lists of fixed length."""
    import tensorflow as tf

    num_batches = _CONVERTED.value // _BATCH.value
    with tf.io.TFRecordWriter(str(path)) as writer:
        for batch in inputs.train_dataset(_BATCH.value).take(num_batches):
            columns = {name: value.numpy() for name, value in batch.items()}
            columns["input_type_ids"] = 0 * columns["token_ids"]
            del columns["sample_number"]
            for row in range(_BATCH.value):
                feature = {
                    name: tf.train.Feature(
                        int64_list=tf.train.Int64List(
                            value=values[row].astype("int64").tolist()
                        )
                    )
                    for name, values in columns.items()
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())


def _read_fixed_length(path: pathlib.Path, length: int, predictions: int):
    import tensorflow as tf

    wide = ("token_ids", "padding_mask", "input_type_ids", *_TABLES)
    narrow = ("masked_positions", "masked_ids", "masked_weights")
    spec = {name: tf.io.FixedLenFeature([length], tf.int64) for name in wide}
    spec |= {name: tf.io.FixedLenFeature([predictions], tf.int64) for name in narrow}

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(serialized, spec)
        return {name: tf.cast(value, tf.int32) for name, value in parsed.items()}

    dataset = tf.data.TFRecordDataset(str(path)).repeat().batch(_BATCH.value)
    return dataset.map(parse).prefetch(2)


def main(_: Sequence[str]) -> None:
    paired.pin_to_one_core()
    import tensorflow as tf

    from seg_tf.config import build_from
    from seg_tf.data.inputs import WindowInputsConfig
    from seg_tf.data.manifest import Manifest

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    scratch = tempfile.TemporaryDirectory()
    folder = pathlib.Path(_RECORDS.value or scratch.name)
    if not _RECORDS.value:
        sample_data.build_wikipedia_windows(folder)
    manifest = Manifest.load(folder)
    length = manifest.window_length
    config = WindowInputsConfig(window_length=length)
    inputs = build_from(config, records_dir=folder, index_tables=_TABLES, seed=0)
    with scratch:
        path = pathlib.Path(scratch.name) / "fixed_length_int64"
        _write_fixed_length(inputs, path)
        num_converted = _CONVERTED.value // _BATCH.value * _BATCH.value
        fixed_size = path.stat().st_size / num_converted
        train = manifest.splits["train"]
        own_size = sum(shard.bytes for shard in train) / sum(s.records for s in train)
        paired.print_machine()
        print(f"loading, batch {_BATCH.value} x {length}, fill {inputs.fill:.2f}")

        def consumer(batches: Iterator):
            def work() -> float:
                for _ in range(_BATCHES.value):
                    next(batches)
                return _BATCHES.value * _BATCH.value * length

            return work

        fixed = _read_fixed_length(path, length, config.masking.max_predictions)
        rates = paired.interleave(
            {
                "ours": consumer(iter(inputs.train_dataset(_BATCH.value))),
                "fixed-length int64, parsed only": consumer(iter(fixed)),
            },
            _ROUNDS.value,
        )
        paired.report(
            rates,
            of="ours",
            against="fixed-length int64, parsed only",
            unit="M tokens/s",
            scale=1e-6,
        )
        print("  target of ours: 5 M tokens/s")
        print(
            f"  bytes a record: ours {own_size:.0f}, fixed-length int64 "
            f"{fixed_size:.0f}, share {own_size / fixed_size:.3f} (target 0.25)"
        )


if __name__ == "__main__":
    sys.exit(command_line.run(main))
