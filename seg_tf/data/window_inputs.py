"""Rows of `[CLS] window [SEP]` with their indices, masked for masked LM.

Shape key: B batch, L row length.
"""

import logging
import pathlib
import types
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from seg_tf.config import build_from, configured_by
from seg_tf.data import mirrors, randomness, sample_order
from seg_tf.data.configs import MaskingConfig, WindowInputsConfig
from seg_tf.data.manifest import Manifest, text_preparation
from seg_tf.data.window_records import OneWindowRows, RowReader, WindowRecords
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.windows import WINDOW_INDICES, WindowLayout
from seg_tf.text import encoding

MakeRows = Callable[[tf.Tensor], dict[str, tf.Tensor]]


class RecordInputs:
    """Records and their vocabulary, of which every form of `Inputs` reads its rows.

    Attributes:
        manifest: that of the records.
        text_preparation: how text became ids; None without the records' `vocab.txt`.
        sources: none, for they are no mixture.
    """

    sources: Mapping[str, Any] = types.MappingProxyType({})

    def __init__(self, records_dir: str | pathlib.Path, vocab_size: int | None):
        self._records_dir = mirrors.local_records(records_dir)
        self.manifest = Manifest.load(self._records_dir)
        self._check_records()
        if vocab_size not in (None, self.vocab_size):
            raise ValueError(
                f"{self._records_dir}: the records were made with a vocabulary of "
                f"{self.vocab_size} {self.manifest.tokens_name} (sha256 "
                f"{self.vocab_checksum[:12]}…), the config has "
                f"model.vocab_size={vocab_size}. Build the records with the model's "
                f"vocabulary, or set --config.model.vocab_size={self.vocab_size}"
            )
        self.text_preparation = text_preparation(self.manifest, self._records_dir)

    def _check_records(self) -> None:
        """Checks that rows of this form can be read from the records."""
        raise NotImplementedError

    @property
    def vocab_size(self) -> int:
        return self.manifest.vocabulary["size"]

    @property
    def vocab_checksum(self) -> str:
        return self.manifest.vocabulary["sha256"]


@configured_by(WindowInputsConfig)
class WindowInputs(RecordInputs):
    """Reads windows and gives the features of BERT-family models.

    Sample k of epoch e, its masking included, is a pure function of
    (seed, e, k): not of the batch size, the ranks, or where a run was resumed.
    Subclasses make other rows of the windows: they override `read_rows` and name the
    features of their rows.

    Args:
        window_length, masking, block_rows, blocks_at_once: see `WindowInputsConfig`.
        records_dir: what `data_pipelines.build_records` made.
        index_tables: index features that the model embeds, and their tables' rows,
            which cap the indices.
        seed: seed of the run.
        vocab_size: rows of the model's token table; None accepts the records'.

    Raises:
        ValueError: if the records do not fit the settings, saying which differs and
            what to do.
    """

    # Rows of whoever uses the model on texts.
    layout: type[Layout] = WindowLayout
    # Features that a window alone does not have.
    row_features: tuple[str, ...] = ()
    # Indices that the rows can have.
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
        self._opened: dict[str, RowReader] = {}
        self._traced: dict[str, MakeRows] = {}

    def read_rows(self, windows: WindowRecords) -> RowReader:
        """The rows that the windows of a split make; ValueError if they cannot."""
        return OneWindowRows(windows)

    def _check_records(self) -> None:
        manifest, folder = self.manifest, self._records_dir
        if manifest.tokenizer != encoding.WORD_PIECES:
            raise ValueError(
                f"{folder}: expected windows of word pieces, found {manifest.kind} of "
                "words. They are for models that read a stream of words "
                "(LaneInputsConfig); build records with `python -m "
                "data_pipelines.build_records`"
            )
        if manifest.kind != "windows":
            raise ValueError(
                f"{folder}: expected windows, found {manifest.kind}. Cut them with "
                f"`python -m data_pipelines.build_windows --documents_dir={folder} "
                f"--window_length={self._window_length}`"
            )
        if manifest.window_length != self._window_length:
            raise ValueError(
                f"{folder}: the records have window_length={manifest.window_length}, "
                f"the config has inputs.window_length={self._window_length}. Cut "
                "windows of that length with `python -m data_pipelines.build_windows "
                f"--documents_dir={folder}/documents --window_length="
                f"{self._window_length}`, or set --config.inputs.window_length="
                f"{manifest.window_length}"
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
        return len(self._rows("train"))

    @property
    def num_validation_samples(self) -> int:
        return len(self._rows("validation"))

    @property
    def parts(self) -> str:
        return self._rows("train").parts

    @property
    def parts_per_row(self) -> float:
        rows = self._rows("train")
        return rows.num_parts / max(len(rows), 1)

    @property
    def fill(self) -> float:
        rows = self._rows("train")
        return rows.num_tokens / max(len(rows) * rows.row_length, 1)

    def train_dataset(
        self,
        batch_size: int,
        first_sample: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        micro_batch_size: int | None = None,
    ) -> tf.data.Dataset:
        """Endless batches, each epoch in another order; see `Inputs`."""
        share = sample_order.share_of_rank(
            batch_size, rank, num_ranks, micro_batch_size
        )
        return train_batches(self.train_rows(), first_sample, share)

    def train_rows(self) -> MakeRows:
        """Function in the graph from numbers of training samples to their features."""
        reader = self._reader("train")
        stream = randomness.key(self._seed, randomness.TRAINING_SAMPLES)
        self._warn_of_thrashing(len(reader))

        def make_rows(samples: tf.Tensor) -> dict[str, tf.Tensor]:
            blocks = self._blocks
            if blocks is None:
                return self._make_features(samples, reader, stream)
            # Those of the next group are fetched while those of this one are read.
            _, later = sample_order.epochs_and_records(
                samples + blocks.group_size, len(reader), self._seed, blocks
            )
            with tf.control_dependencies(reader.prefetch(later)):
                return self._make_features(samples, reader, stream, blocks)

        return self._traced_once("train", make_rows)

    def _warn_of_thrashing(self, num_rows: int) -> None:
        """Warns if shards that are read together do not fit their local folder."""
        mirror = mirrors.mirror_of(self._records_dir)
        if mirror is None:
            return
        total = sum(shard.bytes for shard in self.manifest.splits["train"])
        # A group is read while the next one comes.
        rows = num_rows if self._blocks is None else 2 * self._blocks.group_size
        if total * min(rows / num_rows, 1) > mirror.max_bytes:
            logging.warning(
                "%s: the shards that are read together take about %.1f GB, more than "
                "the %.1f GB that may lie on this machine, so that shards are fetched "
                "over and over. Raise --cache_gigabytes, or set "
                "--config.inputs.block_rows=8192, or lower "
                "--config.inputs.blocks_at_once",
                mirror.url,
                total * min(rows / num_rows, 1) / 1e9,
                mirror.max_bytes / 1e9,
            )

    def validation_dataset(
        self,
        batch_size: int,
        max_samples: int | None = None,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> tf.data.Dataset:
        """Held-out batches, the same samples and masks each time; see `Inputs`.

        Ranks get equally many batches; in the last one they may have fewer rows, or
        none. `max_samples` takes a fixed random choice of the samples.
        """
        share = sample_order.share_of_rank(batch_size, rank, num_ranks)
        reader = self._reader("validation")
        stream = randomness.key(self._seed, randomness.VALIDATION_SAMPLES)
        num_samples = len(reader)
        if max_samples is not None:
            num_samples = min(num_samples, max_samples)
        make_rows = self._traced_once(
            "validation",
            lambda samples: self._make_features(samples, reader, stream),
        )

        def make_batch(step: tf.Tensor) -> dict[str, tf.Tensor]:
            samples = sample_order.rank_samples(step, 0, share)
            return make_rows(tf.boolean_mask(samples, samples < num_samples))

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

    def _reader(self, split: str) -> RowReader:
        reader = self._rows(split)
        if not len(reader):
            without = (
                " or --validation_input, or train without validation: "
                "--config.training.validation_interval=0"
            )
            raise ValueError(
                f"{self._records_dir}: the {split} split holds no record. Build the "
                "records from more documents or with a larger --validation_fraction"
                + (without if split == "validation" else "")
            )
        return reader

    def _rows(self, split: str) -> RowReader:
        if split not in self._opened:
            windows = WindowRecords(
                self.manifest,
                self._records_dir,
                split,
                window_length=self._window_length,
                index_tables=self._index_tables,
                masking=self._masking,
            )
            self._opened[split] = self.read_rows(windows)
        return self._opened[split]

    def _traced_once(self, split: str, make_rows: MakeRows) -> MakeRows:
        """The function, traced once for all datasets of a run, which takes a second."""
        return self._traced.setdefault(split, tf.function(make_rows, autograph=False))

    def _make_features(
        self,
        samples: tf.Tensor,
        reader: RowReader,
        stream: int,
        blocks: sample_order.Blocks | None = None,
    ) -> dict[str, tf.Tensor]:
        epochs, numbers = sample_order.epochs_and_records(
            samples, len(reader), self._seed, blocks
        )
        epoch_streams = randomness.extend_key(stream, epochs)
        rows = reader(numbers, samples % len(reader), epoch_streams)
        rows["sample_number"] = samples
        return {name: rows[name] for name in self.feature_names}


def train_batches(
    make_rows: MakeRows, first_sample: int, share: sample_order.Share
) -> tf.data.Dataset:
    """Endless batches of a rank's share of the samples from `first_sample` on."""

    def make_batch(step: tf.Tensor) -> dict[str, tf.Tensor]:
        return make_rows(sample_order.rank_samples(step, first_sample, share))

    return _pipelined(tf.data.Dataset.counter(), make_batch)


def _pipelined(dataset: tf.data.Dataset, make_batch: MakeRows) -> tf.data.Dataset:
    # Batches are computed whole, several at a time, and stay in order. To read the
    # source for `if` and `for` on tensors, of which it has none, takes seconds.
    dataset = dataset.map(
        tf.autograph.experimental.do_not_convert(make_batch),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return dataset.prefetch(tf.data.AUTOTUNE)
