"""Reads a stream of words in parallel lanes, one per batch row (Transformer-XL)."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.config import configured_by
from seg_tf.data import examples, sample_order, shards
from seg_tf.data.configs import LaneInputsConfig
from seg_tf.data.manifest import Manifest, shard_paths
from seg_tf.data.window_inputs import RecordInputs, prefetched
from seg_tf.features import FEATURES, tensor_specs
from seg_tf.layouts.layout import Layout
from seg_tf.text import encoding

_WORD_FEATURES = (
    "token_ids",
    "target_ids",
    "padding_mask",
    "stream_token",
    "stream_sentence",
    "stream_paragraph",
)


class WordStream:
    """All words of a split, one document after another, repeated endlessly.

    Shards and documents are cached for reading from `num_places` positions in turn.
    """

    def __init__(
        self, manifest: Manifest, folder: pathlib.Path, split: str, num_places: int = 1
    ):
        self._paths = shard_paths(manifest, folder, split)
        self._reader = shards.RecordReader(self._paths, in_order=True)
        self._widths = manifest.number_widths
        sizes = [
            (shard.pieces, shard.sentences, shard.paragraphs)
            for shard in manifest.splits[split]
        ]
        self._first_counts = np.cumsum([(0, 0, 0), *sizes], axis=0, dtype=np.int64)
        self.num_tokens = int(self._first_counts[-1, 0])
        # Twice as many, because a lane moves from one shard or document to the next.
        self._counts = functools.lru_cache(2 * num_places)(self._count_shard)
        self._document = functools.lru_cache(2 * num_places)(self._read_document)

    def read(self, begin: int, length: int) -> np.ndarray:
        """Reads `length` words, starting at position `begin`.

        Returns int64 `(3, length)`: the id, the sentence number and the paragraph
        number of each word. Both numbers continue across documents and epochs. Raises a
        DamagedShardError if the shards contradict the manifest.
        """
        parts = []
        while length > 0:
            epoch, place = divmod(begin, self.num_tokens)
            # The shard, and the record in it, that contain the word.
            firsts = self._first_counts[:, 0]
            shard = int(np.searchsorted(firsts, place, side="right")) - 1
            firsts = self._counts(shard)[:, 0]
            record = int(np.searchsorted(firsts, place, side="right")) - 1
            first_counts, token_ids, sentence_ends, paragraph_ends = self._document(
                shard, record
            )
            _, first_sentence, first_paragraph = (
                first_counts + epoch * self._first_counts[-1]
            )
            start = place - first_counts[0]
            ids = token_ids[start : start + length]
            positions = np.arange(start, start + len(ids))
            sentences = np.searchsorted(sentence_ends, positions, side="right")
            paragraphs = np.searchsorted(paragraph_ends, sentences, side="right")
            counts = (sentences + first_sentence, paragraphs + first_paragraph)
            parts.append(np.stack([ids, *counts]))
            begin += len(ids)
            length -= len(ids)
        return np.concatenate(parts, axis=1)

    def _count_shard(self, number: int) -> np.ndarray:
        """Counts tokens, sentences and paragraphs before each document of a shard."""
        records = self._reader.records_of(number)
        counts = np.zeros((len(records) + 1, 3), np.int64)
        for row, record in enumerate(records):
            tree, _, _ = examples.decode(self._reader[record], self._widths)
            lists = (tree.token_ids, tree.sentence_lengths, tree.paragraph_lengths)
            counts[row + 1] = counts[row] + list(map(len, lists))
        expected = self._first_counts[number + 1] - self._first_counts[number]
        if not np.array_equal(counts[-1], expected):
            raise shards.DamagedShardError(
                f"{self._paths[number]}: expected {expected.tolist()} words, sentences "
                f"and paragraphs, from the manifest, found {counts[-1].tolist()}. The "
                "file was replaced; build the documents again"
            )
        return self._first_counts[number] + counts

    def _read_document(self, shard: int, record: int) -> tuple[np.ndarray, ...]:
        data = self._reader[self._reader.records_of(shard)[record]]
        tree, _, _ = examples.decode(data, self._widths)
        return (
            self._counts(shard)[record],
            tree.token_ids,
            np.cumsum(tree.sentence_lengths),
            np.cumsum(tree.paragraph_lengths),
        )


@configured_by(LaneInputsConfig)
class LaneInputs(RecordInputs):
    """Reads documents of words as one stream, in parallel lanes.

    A batch contains the next segment of each lane. Word, sentence and paragraph indices
    are counted through the whole stream and never restart (Segatron, section 3.1). The
    order does not depend on `seed`. See `LaneInputsConfig` and `WindowInputs` for the
    other arguments. Raises a ValueError for other records or another vocabulary size.
    """

    layout: type[Layout] | None = None
    feature_names = (*_WORD_FEATURES, "lane", "sample_number")
    fill = 1.0

    def __init__(
        self,
        *,
        target_length: int,
        validation_lanes: int,
        records_dir: str | pathlib.Path,
        seed: int,
        vocab_size: int | None = None,
    ):
        del seed
        super().__init__(records_dir, vocab_size)
        self._target_length = target_length
        self._validation_lanes = validation_lanes

    def _check_records(self) -> None:
        kind, tokenizer = self.manifest.kind, self.manifest.tokenizer
        if kind != "documents" or tokenizer == encoding.WORD_PIECES:
            raise ValueError(
                f"{self._records_dir}: expected documents of words, found {kind} of "
                f"{tokenizer}. Build them with "
                "`seg-tf build-documents --tokenizer=words` (or whitespace)"
            )

    @property
    def num_train_samples(self) -> int:
        return _divide_up(self.manifest.count("pieces", "train"), self._target_length)

    @property
    def num_validation_samples(self) -> int:
        lanes = self._validation_lanes
        num_targets = max(self.manifest.count("pieces", "validation") - 1, 0)
        return lanes * _divide_up(_divide_up(num_targets, lanes), self._target_length)

    def train_dataset(
        self, batch_size: int, first_sample: int = 0, **rank: Any
    ) -> tf.data.Dataset:
        """Returns an infinite dataset of consecutive batches with one row per lane.

        Raises a ValueError if `batch_size` cannot be shared among ranks or does not
        divide `first_sample`, or if lanes are shorter than `target_length`.
        """
        share = sample_order.share_of_rank(batch_size, **rank)
        if first_sample % batch_size:
            raise ValueError(
                "`first_sample` must be a multiple of `batch_size`, because all lanes "
                f"advance together. Received: first_sample={first_sample}, "
                f"batch_size={batch_size}"
            )
        stream = WordStream(self.manifest, self._records_dir, "train", share.num_rows)
        length = stream.num_tokens // batch_size
        if length < self._target_length:
            raise ValueError(
                f"{self._records_dir}: every lane needs {self._target_length} words. "
                f"Received: {stream.num_tokens} words for {batch_size} lanes. Use more "
                "text, or a smaller --config.training.batch_size"
            )
        rows = np.arange(share.first_row, share.first_row + share.num_rows)
        return self._pipelined(
            tf.data.Dataset.counter(first_sample // batch_size),
            lambda step: self._batch(stream, batch_size, length, step, rows),
            num_rows=len(rows),
        )

    def validation_dataset(
        self,
        batch_size: int,
        max_samples: int | None = None,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> tf.data.Dataset:
        """Returns a dataset in which each held-out word but the first is a target once.

        A time step covers all lanes, in several batches if there are more lanes than
        `batch_size`. All ranks get the same number of batches. `max_samples` is rounded
        down to a whole number of time steps, at least one. Raises a ValueError if there
        are fewer targets than lanes, or if the ranks cannot share a batch.
        """
        sample_order.share_of_rank(batch_size, rank, num_ranks)
        num_lanes = self._validation_lanes
        num_places = _divide_up(num_lanes, num_ranks)
        stream = WordStream(self.manifest, self._records_dir, "validation", num_places)
        num_targets = stream.num_tokens - 1
        if num_targets < num_lanes:
            raise ValueError(
                f"{self._records_dir}: every validation lane must have a word to "
                f"predict. Received: {stream.num_tokens} words for {num_lanes} lanes. "
                "Build the documents with a larger --validation_fraction, set a "
                "smaller --config.inputs.validation_lanes, or train without "
                "validation: --config.training.validation_interval=0"
            )
        length = _divide_up(num_targets, num_lanes)
        num_steps = _divide_up(length, self._target_length)
        if max_samples is not None:
            num_steps = min(num_steps, max(max_samples // num_lanes, 1))
        num_groups = _divide_up(num_lanes, batch_size)
        # A batch is a group of lanes, split as evenly as possible among the ranks.
        parts = np.array_split(np.arange(num_lanes), num_groups * num_ranks)
        return self._pipelined(
            tf.data.Dataset.range(num_steps * num_groups),
            lambda number: self._batch(
                stream,
                num_lanes,
                length,
                number // num_groups,
                parts[number % num_groups * num_ranks + rank],
                num_targets,
            ),
            num_rows=None,
        )

    def describe_sample(self, sample: int) -> str:
        return f"sample {sample}, a segment of {self._target_length} words"

    def _batch(
        self,
        stream: WordStream,
        num_lanes: int,
        length: int,
        step: int,
        lanes: np.ndarray,
        num_targets: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Reads segment number `step` of each of the `lanes`, as features by name.

        Lanes start `length` words apart. If `num_targets` is None, they are endless.
        Otherwise, lanes end after `length` targets, and the stream after `num_targets`.
        """
        shape = len(lanes), self._target_length
        positions = np.arange(self._target_length)
        batch = {name: np.zeros(shape, FEATURES[name].dtype) for name in _WORD_FEATURES}
        for row, lane in enumerate(lanes.tolist()):
            begin = lane * length + step * self._target_length
            words, sentences, paragraphs = stream.read(begin, self._target_length + 1)
            batch["token_ids"][row] = words[:-1]
            batch["target_ids"][row] = words[1:]
            batch["padding_mask"][row] = True
            if num_targets is not None:
                in_lane = step * self._target_length + positions < length
                batch["padding_mask"][row] = in_lane & (begin + positions < num_targets)
            # Indices wrap around at the end of int32. Differences remain correct.
            batch["stream_token"][row] = (begin + positions).astype(np.int32)
            batch["stream_sentence"][row] = sentences[:-1].astype(np.int32)
            batch["stream_paragraph"][row] = paragraphs[:-1].astype(np.int32)
        for name in ("token_ids", "target_ids"):
            batch[name][~batch["padding_mask"]] = 0
        batch["lane"] = lanes.astype(np.int32)
        batch["sample_number"] = (step * num_lanes + lanes).astype(np.int64)
        return batch

    def _pipelined(
        self,
        numbers: tf.data.Dataset,
        make_batch: Callable[[int], dict[str, np.ndarray]],
        num_rows: int | None,
    ) -> tf.data.Dataset:
        specs = tensor_specs(
            self.feature_names, {"B": num_rows, "L": self._target_length}
        )

        def arrays(number: np.ndarray) -> list[np.ndarray]:
            batch = make_batch(int(number))
            return [batch[name] for name in self.feature_names]

        def load(number: tf.Tensor) -> dict[str, tf.Tensor]:
            types = [FEATURES[name].dtype for name in self.feature_names]
            loaded = tf.numpy_function(arrays, [number], types, stateful=False)
            return {
                name: tf.ensure_shape(tensor, specs[name][0])
                for name, tensor in zip(self.feature_names, loaded, strict=True)
            }

        # Sequential, so that lanes find their documents in the cache.
        return prefetched(numbers.map(load))


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)
