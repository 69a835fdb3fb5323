"""Reads windows as rows `[CLS] window [SEP]` with their indices and masking."""

import pathlib
import types
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from seg_tf.config import build_from, configured_by
from seg_tf.data import mirrors, randomness, sample_order
from seg_tf.data.configs import MaskingConfig, WindowInputsConfig
from seg_tf.data.manifest import Manifest, text_preparation
from seg_tf.data.window_records import Features, Rows, WindowRecords
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.windows import WINDOW_INDICES, WindowLayout
from seg_tf.text import encoding

ReadSamples = Callable[[tf.Tensor], Features]


class SampledInputs:
    """Base class for implementations of `Inputs` that read rows by sample number."""

    def train_function(self) -> ReadSamples:
        """Returns a function of sample numbers, int64 `(B,)`, that returns features."""
        raise NotImplementedError

    def train_dataset(
        self, batch_size: int, first_sample: int = 0, **rank: Any
    ) -> tf.data.Dataset:
        """Returns an infinite dataset, reshuffled in every epoch. See `Inputs`."""
        make_features = self.train_function()
        share = sample_order.share_of_rank(batch_size, **rank)

        def make_batch(step: tf.Tensor) -> Features:
            return make_features(sample_order.rank_samples(step, first_sample, share))

        return _pipelined(tf.data.Dataset.counter(), make_batch)


class RecordInputs:
    """Base class of inputs that read one folder of records and its vocabulary."""

    sources: Mapping[str, Any] = types.MappingProxyType({})

    def __init__(self, records_dir: str | pathlib.Path, vocab_size: int | None):
        self._records_dir = mirrors.local_records(records_dir)
        self.manifest = Manifest.load(self._records_dir)
        self._check_records()
        if vocab_size not in (None, self.vocab_size):
            raise ValueError(
                f"{self._records_dir}: the records were made with a vocabulary of "
                f"{self.vocab_size} {self.manifest.tokens_name}, the config has "
                f"model.vocab_size={vocab_size}. Build the records with the model's "
                f"vocabulary, or set --config.model.vocab_size={self.vocab_size}"
            )
        self.text_preparation = text_preparation(self.manifest, self._records_dir)

    def _check_records(self) -> None:
        """Raises a ValueError if these inputs cannot read the records."""
        raise NotImplementedError

    @property
    def vocab_size(self) -> int:
        return self.manifest.vocabulary["size"]

    @property
    def vocab_checksum(self) -> str:
        return self.manifest.vocabulary["sha256"]


@configured_by(WindowInputsConfig)
class WindowInputs(SampledInputs, RecordInputs):
    """Reads windows as batches of features for BERT-like models.

    Sample k of epoch e, including its masking, is a pure function of (seed, e, k).
    Subclasses that build other rows override `build_rows` and list the additional
    features in `row_features`. Raises a ValueError for unsuitable records or indices.

    Args:
        window_length, masking, block_rows, blocks_at_once: see `WindowInputsConfig`.
        records_dir: str or path. Output folder or URL of `seg-tf build-records`.
        index_tables: dict. Maps each index feature of the model to the size of its
            embedding table. Indices beyond the table are clipped.
        seed: int. Seed of the run.
        vocab_size: int. Vocabulary size of the model, or None to accept any.
    """

    # The layout of rows in inference and fine-tuning.
    layout: type[Layout] = WindowLayout
    # Additional features, which single windows lack.
    row_features: tuple[str, ...] = ()
    # Index features that rows can have.
    index_features: tuple[str, ...] = WINDOW_INDICES

    def __init__(
        self,
        *,
        window_length: int,
        masking: MaskingConfig,
        records_dir: str | pathlib.Path,
        index_tables: Mapping[str, int],
        seed: int,
        vocab_size: int | None = None,
        block_rows: int | None = None,
        blocks_at_once: int = 1,
    ):
        self._window_length = window_length
        self._blocks = (
            sample_order.Blocks(block_rows, blocks_at_once) if block_rows else None
        )
        super().__init__(records_dir, vocab_size)
        for name in index_tables:
            if name not in self.index_features:
                raise ValueError(
                    "`index_tables` and `rotary_shares` must name indices that the "
                    f"inputs have, {self.index_features}. Received: {name!r}"
                )
        self._index_tables = dict(index_tables)
        self._masking = build_from(
            masking,
            mask_id=self.manifest.vocabulary["special_ids"]["mask"],
            vocab_size=self.manifest.vocabulary["size"],
        )
        self._seed = seed
        self._rows: dict[str, Rows] = {}
        self._functions: dict[str, ReadSamples] = {}

    def build_rows(self, windows: WindowRecords) -> Rows:
        """Builds the rows of a split. Raises a ValueError for unsuitable windows."""

        def read(
            numbers: tf.Tensor, epoch_places: tf.Tensor, epoch_streams: tf.Tensor
        ) -> Features:
            streams = randomness.extend_key(epoch_streams, epoch_places)
            return windows.read_masked(numbers, streams)

        return Rows(
            count=len(windows),
            length=windows.window_length,
            num_tokens=windows.num_tokens,
            read=read,
            prefetch=windows.prefetch,
        )

    def _check_records(self) -> None:
        manifest, folder = self.manifest, self._records_dir
        if manifest.tokenizer != encoding.WORD_PIECES:
            raise ValueError(
                f"{folder}: expected windows of word pieces, found {manifest.kind} of "
                "words. Build records with `seg-tf build-records`"
            )
        if manifest.kind != "windows":
            raise ValueError(
                f"{folder}: expected windows, found {manifest.kind}. Build them with "
                f"`seg-tf build-windows --documents_dir={folder} "
                f"--window_length={self._window_length}`"
            )
        if manifest.window_length != self._window_length:
            raise ValueError(
                f"{folder}: the records have window_length={manifest.window_length}, "
                f"the config has inputs.window_length={self._window_length}. Set "
                f"--config.inputs.window_length={manifest.window_length}, or build "
                "windows with `seg-tf build-windows`"
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (
            "token_ids",
            "padding_mask",
            *self.row_features,
            *self._index_tables,
            *self._masking.feature_names,
            "sample_number",
        )

    @property
    def num_train_samples(self) -> int:
        return self._split("train").count

    @property
    def num_validation_samples(self) -> int:
        return self._split("validation").count

    @property
    def fill(self) -> float:
        rows = self._split("train")
        return rows.num_tokens / max(rows.count * rows.length, 1)

    def train_function(self) -> ReadSamples:
        rows = self._nonempty_split("train")
        stream = randomness.key(self._seed, randomness.TRAINING_SAMPLES)

        def make_features(samples: tf.Tensor) -> Features:
            blocks = self._blocks
            if blocks is None:
                return self._features(samples, rows, stream)
            # The next group is fetched while this one is read.
            _, later = sample_order.epochs_and_records(
                samples + blocks.group_size, rows.count, self._seed, blocks
            )
            with tf.control_dependencies(rows.prefetch(later)):
                return self._features(samples, rows, stream, blocks)

        return self._traced_once("train", make_features)

    def validation_dataset(
        self, batch_size: int, max_samples: int | None = None, **rank: Any
    ) -> tf.data.Dataset:
        """Returns a dataset of held-out rows with a fixed order and fixed masks.

        Ranks may have fewer or no rows in the last batch. `max_samples` selects a fixed
        random subset. Raises a ValueError for an empty split or an indivisible batch.
        """
        share = sample_order.share_of_rank(batch_size, **rank)
        rows = self._nonempty_split("validation")
        stream = randomness.key(self._seed, randomness.VALIDATION_SAMPLES)
        num_samples = (
            rows.count if max_samples is None else min(rows.count, max_samples)
        )
        make_features = self._traced_once(
            "validation", lambda samples: self._features(samples, rows, stream)
        )

        def make_batch(step: tf.Tensor) -> Features:
            samples = sample_order.rank_samples(step, 0, share)
            return make_features(tf.boolean_mask(samples, samples < num_samples))

        num_batches = -(-num_samples // batch_size)
        return _pipelined(tf.data.Dataset.range(num_batches), make_batch)

    def describe_sample(self, sample: int) -> str:
        num_rows = self.num_train_samples
        _, rows = sample_order.epochs_and_records(
            tf.constant([sample], tf.int64), num_rows, self._seed, self._blocks
        )
        return (
            f"sample {sample} (epoch {sample // num_rows}, row {int(rows[0])} of the "
            "training split)"
        )

    def _split(self, split: str) -> Rows:
        if split not in self._rows:
            windows = WindowRecords(
                self.manifest,
                self._records_dir,
                split,
                window_length=self._window_length,
                index_tables=self._index_tables,
                masking=self._masking,
            )
            self._rows[split] = self.build_rows(windows)
        return self._rows[split]

    def _nonempty_split(self, split: str) -> Rows:
        rows = self._split(split)
        if not rows.count:
            raise ValueError(
                f"{self._records_dir}: the {split} split is empty. Build the "
                "records from more documents, with a larger --validation_fraction or "
                "with --validation_input, or train without validation: "
                "--config.training.validation_interval=0"
            )
        return rows

    def _traced_once(self, split: str, function: ReadSamples) -> ReadSamples:
        """Returns one `tf.function` for all datasets of a split, traced only once."""
        return self._functions.setdefault(split, tf.function(function, autograph=False))

    def _features(
        self,
        samples: tf.Tensor,
        rows: Rows,
        stream: int,
        blocks: sample_order.Blocks | None = None,
    ) -> Features:
        epochs, numbers = sample_order.epochs_and_records(
            samples, rows.count, self._seed, blocks
        )
        epoch_streams = randomness.extend_key(stream, epochs)
        features = rows.read(numbers, samples % rows.count, epoch_streams)
        features["sample_number"] = samples
        return {name: features[name] for name in self.feature_names}


def _pipelined(dataset: tf.data.Dataset, make_batch: ReadSamples) -> tf.data.Dataset:
    # AutoGraph has nothing to convert and takes seconds.
    dataset = dataset.map(
        tf.autograph.experimental.do_not_convert(make_batch),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return prefetched(dataset)


def prefetched(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Prefetches two batches. Turns off autotuning, which delays exit by up to 60 s."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(2).with_options(options)
