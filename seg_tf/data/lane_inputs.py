"""Batches whose rows are lanes of one stream of words (Transformer-XL).

Shape key: B lanes, L target length, T words of a split.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from seg_tf.config import configured_by
from seg_tf.data import sample_order
from seg_tf.data.configs import LaneInputsConfig
from seg_tf.data.window_inputs import RecordInputs
from seg_tf.data.word_stream import WordStream
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


@configured_by(LaneInputsConfig)
class LaneInputs(RecordInputs):
    """Reads documents of words as one stream, in lanes side by side.

    A batch holds the next segment of each lane. Counters of words, sentences and
    paragraphs go through the whole stream and never start anew (Segatron, section 3.1).

    Args:
        target_length: L.
        validation_lanes: lanes that held-out text is read in.
        records_dir: what `data_pipelines.build_documents --tokenizer=words` made.
        seed: the run's; nothing here is random.
        vocab_size: words that the model knows; None accepts the records'.

    Raises:
        ValueError: if the records do not fit the settings, saying which differs and
            what to do.
    """

    layout: type[Layout] | None = None
    feature_names = (*_WORD_FEATURES, "lane", "sample_number")
    fill = 1.0
    parts = None
    parts_per_row = 1.0

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
        self._train_lanes: Lanes | None = None

    def _check_records(self) -> None:
        manifest, folder = self.manifest, self._records_dir
        build = (
            "`python -m data_pipelines.build_documents --tokenizer=words` (or "
            "whitespace)"
        )
        if manifest.kind != "documents":
            raise ValueError(
                f"{folder}: expected documents of words, found {manifest.kind}. Build "
                f"them with {build}"
            )
        if manifest.tokenizer == encoding.WORD_PIECES:
            raise ValueError(
                f"{folder}: expected documents of words, found documents of word "
                f"pieces. Build them with {build} and a vocabulary of `python -m "
                "data_pipelines.build_word_vocab`"
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
        self,
        batch_size: int,
        first_sample: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        micro_batch_size: int | None = None,
    ) -> tf.data.Dataset:
        """Endless batches, a row a lane; each batch continues the lanes of the last.

        Raises:
            ValueError: if there are too few words for so many lanes, or
                `first_sample` is in the middle of a batch.
        """
        share = sample_order.share_of_rank(
            batch_size, rank, num_ranks, micro_batch_size
        )
        if first_sample % batch_size:
            raise ValueError(
                "`first_sample` must be a multiple of `batch_size`: all lanes have "
                f"come equally far. Received: first_sample={first_sample}, "
                f"batch_size={batch_size}"
            )
        stream = self._stream("train", share.num_rows)
        lanes = Lanes(
            number=batch_size,
            length=stream.num_tokens // batch_size,
            target_length=self._target_length,
        )
        if lanes.length < self._target_length:
            raise ValueError(
                f"{self._records_dir}: every lane must have a segment of its own, "
                f"{self._target_length} words. Received: {stream.num_tokens} words for "
                f"{batch_size} lanes. Take more text, or a smaller "
                "--config.training.batch_size or --config.inputs.target_length"
            )
        self._train_lanes = lanes
        rows = np.arange(share.first_row, share.first_row + share.num_rows)
        first_step = first_sample // batch_size
        return self._pipelined(
            tf.data.Dataset.counter(first_step),
            lambda step: lanes.batch(stream, step, rows),
            num_rows=len(rows),
        )

    def validation_dataset(
        self,
        batch_size: int,
        max_samples: int | None = None,
        rank: int = 0,
        num_ranks: int = 1,
        split: str = "validation",
    ) -> tf.data.Dataset:
        """Every held-out word once (but the first, which nothing predicts).

        A batch has no two segments of one lane. All lanes make a time step, which
        takes several batches where there are more of them than `batch_size`.
        Ranks get equally many batches, and each has the same lanes in each time step.

        Args:
            batch_size: the most rows of a batch of all ranks together.
            max_samples: take only so many, in whole time steps, but at least one.
            rank: this rank, which may have fewer rows than another, or none.
            num_ranks: number of ranks.
            split: what is read so.

        Raises:
            ValueError: if there are too few words for the lanes.
        """
        sample_order.share_of_rank(batch_size, rank, num_ranks)
        num_lanes = self._validation_lanes
        stream = self._stream(split, _divide_up(num_lanes, num_ranks))
        num_targets = stream.num_tokens - 1
        if num_targets < num_lanes:
            raise ValueError(
                f"{self._records_dir}: every validation lane must have a word to "
                f"predict. Received: {stream.num_tokens} words for {num_lanes} lanes. "
                "Build the documents with a larger --validation_fraction or "
                "--validation_input, set a smaller --config.inputs.validation_lanes, "
                "or train without validation: --config.training.validation_interval=0"
            )
        lanes = Lanes(
            number=num_lanes,
            length=_divide_up(num_targets, num_lanes),
            target_length=self._target_length,
            num_targets=num_targets,
        )
        num_steps = _divide_up(lanes.length, self._target_length)
        if max_samples is not None:
            num_steps = min(num_steps, max(max_samples // num_lanes, 1))
        num_groups = _divide_up(num_lanes, batch_size)
        # Each group of lanes, which is a batch, is cut into equal parts for the ranks.
        parts = np.array_split(np.arange(num_lanes), num_groups * num_ranks)
        return self._pipelined(
            tf.data.Dataset.range(num_steps * num_groups),
            lambda number: lanes.batch(
                stream,
                number // num_groups,
                parts[number % num_groups * num_ranks + rank],
            ),
            num_rows=None,
        )

    def describe_sample(self, sample: int) -> str:
        if self._train_lanes is None:
            return f"sample {sample}"
        stream = self._stream("train", 1)
        step, lane = divmod(sample, self._train_lanes.number)
        epoch, begin = divmod(self._train_lanes.begin(step, lane), stream.num_tokens)
        return (
            f"sample {sample} (lane {lane}, words {begin} to "
            f"{begin + self._target_length} of the training split in epoch {epoch}, "
            f"{stream.locate(begin)})"
        )

    def _stream(self, split: str, num_places: int) -> WordStream:
        return WordStream(self.manifest, self._records_dir, split, num_places)

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

        # One after the other: lanes find the documents that they were in.
        return numbers.map(load).prefetch(tf.data.AUTOTUNE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lanes:
    """Division of a stream into lanes, each of which is read segment by segment.

    Attributes:
        number: B.
        length: words between the begins of two lanes.
        target_length: L.
        num_targets: words to predict, each by one lane; None makes the lanes endless.
    """

    number: int
    length: int
    target_length: int
    num_targets: int | None = None

    def begin(self, step: int, lane: int) -> int:
        return lane * self.length + step * self.target_length

    def batch(
        self, stream: WordStream, step: int, lanes: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The segments of some lanes `(b,)` at one time step, from 0.

        Returns:
            `{feature name: array (b, …)}`; padding has ids 0, its counters continue.
        """
        shape = (len(lanes), self.target_length)
        batch = {name: np.zeros(shape, FEATURES[name].dtype) for name in _WORD_FEATURES}
        for row, lane in enumerate(lanes.tolist()):
            begin = self.begin(step, lane)
            words, sentences, paragraphs = stream.read(begin, self.target_length + 1)
            batch["token_ids"][row] = words[:-1]
            batch["target_ids"][row] = words[1:]
            batch["padding_mask"][row] = self._is_target(step, begin)
            # Counters wrap around where they leave int32: differences stay right.
            batch["stream_token"][row] = (begin + self._positions).astype(np.int32)
            batch["stream_sentence"][row] = sentences[:-1].astype(np.int32)
            batch["stream_paragraph"][row] = paragraphs[:-1].astype(np.int32)
        for name in ("token_ids", "target_ids"):
            batch[name][~batch["padding_mask"]] = 0
        batch["lane"] = lanes.astype(np.int32)
        batch["sample_number"] = (step * self.number + lanes).astype(np.int64)
        return batch

    @functools.cached_property
    def _positions(self) -> np.ndarray:
        return np.arange(self.target_length)

    def _is_target(self, step: int, begin: int) -> np.ndarray | bool:
        if self.num_targets is None:
            return True
        in_lane = step * self.target_length + self._positions < self.length
        return in_lane & (begin + self._positions < self.num_targets)


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)
