"""Every form of inputs, imported and so registered; and mixtures of windows.

Shape key: B batch.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping

import tensorflow as tf

from seg_tf.config.base import flat
from seg_tf.data import sample_order
from seg_tf.data.configs import (
    LaneInputsConfig,
    MaskingConfig,
    PackedWindowInputsConfig,
    ReATInputsConfig,
    SentenceInputsConfig,
    ShuffledWindowInputsConfig,
    SpanMaskingConfig,
    WindowInputsConfig,
)
from seg_tf.data.lane_inputs import LaneInputs
from seg_tf.data.manifest import Manifest
from seg_tf.data.masking import SpanMasking, TokenMasking
from seg_tf.data.packed_window_inputs import PackedWindowInputs
from seg_tf.data.reat_inputs import ReATInputs
from seg_tf.data.sentence_inputs import SentenceInputs, ShuffledWindowInputs
from seg_tf.data.window_inputs import WindowInputs, train_batches
from seg_tf.text.encoding import TextPreparation

__all__ = [
    "LaneInputs",
    "LaneInputsConfig",
    "MaskingConfig",
    "MixtureInputs",
    "PackedWindowInputs",
    "PackedWindowInputsConfig",
    "ReATInputs",
    "ReATInputsConfig",
    "SentenceInputs",
    "SentenceInputsConfig",
    "ShuffledWindowInputs",
    "ShuffledWindowInputsConfig",
    "SpanMasking",
    "SpanMaskingConfig",
    "TokenMasking",
    "WindowInputs",
    "WindowInputsConfig",
]


@dataclasses.dataclass(frozen=True)
class MixtureSource:
    """One of the sources of a mixture: `seg_tf.training.inputs.WeightedSource`."""

    weight: int
    inputs: WindowInputs
    num_samples: Callable[[int], int]


class MixtureInputs:
    """Reads several sources as if they were one, each as often as its weight says.

    Sample n of a source, its masking included, is that of a run on this source only.
    An epoch ends when every source has been read to its end at least once.

    Args:
        folders: the records of each source, by its name.
        weights: positive integers by the same names.
        read: makes the inputs of a folder.

    Raises:
        ValueError: if sources differ in vocabulary, sentence splitter or window length,
            naming two of them and the field, or one has no training records.
    """

    def __init__(
        self,
        *,
        folders: Mapping[str, pathlib.Path],
        weights: Mapping[str, int],
        read: Callable[[pathlib.Path], WindowInputs],
    ):
        _check_agreement(folders)
        inputs = {name: read(folder) for name, folder in folders.items()}
        self._order = sample_order.MixtureOrder([weights[name] for name in inputs])
        self.sources = {
            name: MixtureSource(
                weights[name],
                of_source,
                functools.partial(self._num_samples, number),
            )
            for number, (name, of_source) in enumerate(inputs.items())
        }
        self._inputs = list(inputs.values())
        self._train_rows = [source.train_rows() for source in self._inputs]
        first = self._inputs[0]
        self.vocab_size = first.vocab_size
        self.vocab_checksum = first.vocab_checksum
        self.parts: str | None = first.parts

    @property
    def text_preparation(self) -> TextPreparation | None:
        """That of the first source that has its vocabulary; it is that of all."""
        known = (source.text_preparation for source in self._inputs)
        return next((preparation for preparation in known if preparation), None)

    @property
    def num_train_samples(self) -> int:
        """Samples until every source has been read to its end at least once."""
        return self._order.epoch([source.num_train_samples for source in self._inputs])

    @property
    def num_validation_samples(self) -> int:
        return sum(source.num_validation_samples for source in self._inputs)

    @property
    def fill(self) -> float:
        return self._mean(lambda inputs: inputs.fill)

    @property
    def parts_per_row(self) -> float:
        return self._mean(lambda inputs: inputs.parts_per_row)

    def train_dataset(
        self,
        batch_size: int,
        first_sample: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        micro_batch_size: int | None = None,
    ) -> tf.data.Dataset:
        share = sample_order.share_of_rank(
            batch_size, rank, num_ranks, micro_batch_size
        )
        return train_batches(self._make_rows, first_sample, share)

    def validation_dataset(
        self,
        batch_size: int,
        max_samples: int | None = None,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> tf.data.Dataset:
        """The held-out batches of one source after the other, `max_samples` of each."""
        datasets = (
            source.validation_dataset(batch_size, max_samples, rank, num_ranks)
            for source in self._inputs
        )
        return functools.reduce(tf.data.Dataset.concatenate, datasets)

    def describe_sample(self, sample: int) -> str:
        sources, numbers = self._order(tf.constant([sample], tf.int64))
        name = list(self.sources)[int(sources[0])]
        in_source = self.sources[name].inputs.describe_sample(int(numbers[0]))
        return f"sample {sample} ({name}: {in_source})"

    def _num_samples(self, number: int, in_mixture: int) -> int:
        return self._order.counts(in_mixture)[number]

    def _mean(self, measure: Callable[[WindowInputs], float]) -> float:
        sources = self.sources.values()
        total = sum(source.weight * measure(source.inputs) for source in sources)
        return total / sum(source.weight for source in sources)

    def _make_rows(self, samples: tf.Tensor) -> dict[str, tf.Tensor]:
        sources, numbers = self._order(samples)
        places, parts = [], []
        for number, make_rows in enumerate(self._train_rows):
            (place,) = tf.unstack(tf.where(sources == number), axis=1)
            places.append(tf.cast(place, tf.int32))
            parts.append(make_rows(tf.gather(numbers, place)))
        rows = {}
        for name in parts[0]:
            # Sources whose rows hold several windows may have unlike numbers of
            # predictions.
            values = _padded([part[name] for part in parts])
            merged = tf.dynamic_stitch(places, values)
            rows[name] = tf.ensure_shape(merged, [*samples.shape, *values[0].shape[1:]])
        return {**rows, "sample_number": samples}


def _padded(values: list[tf.Tensor]) -> list[tf.Tensor]:
    """Tensors `(B, …)`; those with a width are padded to the greatest."""
    if values[0].shape.rank < 2:
        return values
    width = max(value.shape[1] for value in values)
    return [tf.pad(value, [[0, 0], [0, width - value.shape[1]]]) for value in values]


def _check_agreement(folders: Mapping[str, pathlib.Path]) -> None:
    known: dict[str, dict[str, object]] = {}
    for name, folder in folders.items():
        manifest = Manifest.load(folder)
        vocabulary = {**manifest.vocabulary, "file": None}
        known[name] = flat(
            {
                "vocabulary": vocabulary,
                "sentence_splitter": manifest.sentence_splitter,
                "window_length": manifest.window_length,
            }
        )
        first = next(iter(known))
        for field in {**known[first], **known[name]}:
            values = [known[one].get(field) for one in (first, name)]
            if values[0] != values[1]:
                raise ValueError(
                    f"The records of a mixture must agree in `{field}`. Received: "
                    f"{folders[first]} with {values[0]}, {folder} with {values[1]}. "
                    "Build both with the same vocabulary, sentence splitter and window "
                    "length"
                )
