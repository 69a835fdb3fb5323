"""Imports all input classes, which registers them, and defines mixtures of sources."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

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
from seg_tf.data.window_inputs import ReadSamples, SampledInputs, WindowInputs
from seg_tf.text.encoding import TextPreparation


@dataclasses.dataclass(frozen=True)
class MixtureSource:
    """One source of a mixture. See `sources` of `seg_tf.training.build.Inputs`."""

    weight: int
    inputs: WindowInputs
    num_samples: Callable[[int], int]


class MixtureInputs(SampledInputs):
    """Reads several sources as one, each in proportion to its weight.

    Sample n of a source, including its masking, equals sample n of a run with only this
    source. An epoch ends when every source has been read completely at least once.
    `folders` and `weights` map the name of each source to its folder and its weight.
    `read` creates the inputs of a folder. Raises a ValueError if the records differ in
    vocabulary, sentence splitter or window length.
    """

    def __init__(
        self,
        *,
        folders: Mapping[str, pathlib.Path],
        weights: Mapping[str, int],
        read: Callable[[pathlib.Path], WindowInputs],
    ):
        _check_agreement(folders)
        self._order = sample_order.MixtureOrder([weights[name] for name in folders])
        self.sources = {
            name: MixtureSource(
                weights[name], read(folder), functools.partial(self._count, number)
            )
            for number, (name, folder) in enumerate(folders.items())
        }
        self._inputs = [source.inputs for source in self.sources.values()]
        self._train_functions = [inputs.train_function() for inputs in self._inputs]
        self.vocab_size = self._inputs[0].vocab_size
        self.vocab_checksum = self._inputs[0].vocab_checksum

    def _count(self, number: int, samples: int) -> int:
        return self._order.counts(samples)[number]

    @property
    def text_preparation(self) -> TextPreparation | None:
        """Text preparation of all sources, or None if none has a vocabulary file."""
        known = (inputs.text_preparation for inputs in self._inputs)
        return next((preparation for preparation in known if preparation), None)

    @property
    def num_train_samples(self) -> int:
        return self._order.epoch([inputs.num_train_samples for inputs in self._inputs])

    @property
    def num_validation_samples(self) -> int:
        return sum(inputs.num_validation_samples for inputs in self._inputs)

    @property
    def fill(self) -> float:
        sources = self.sources.values()
        total = sum(source.weight * source.inputs.fill for source in sources)
        return total / sum(source.weight for source in sources)

    def validation_dataset(
        self, batch_size: int, max_samples: int | None = None, **rank: Any
    ) -> tf.data.Dataset:
        """Returns all sources' held-out batches. `max_samples` limits each source."""
        datasets = (
            inputs.validation_dataset(batch_size, max_samples, **rank)
            for inputs in self._inputs
        )
        return functools.reduce(tf.data.Dataset.concatenate, datasets)

    def describe_sample(self, sample: int) -> str:
        sources, numbers = self._order(tf.constant([sample], tf.int64))
        name = list(self.sources)[int(sources[0])]
        in_source = self.sources[name].inputs.describe_sample(int(numbers[0]))
        return f"sample {sample} ({name}: {in_source})"

    def train_function(self) -> ReadSamples:
        return self._read

    def _read(self, samples: tf.Tensor) -> dict[str, tf.Tensor]:
        sources, numbers = self._order(samples)
        places, parts = [], []
        for number, read in enumerate(self._train_functions):
            (place,) = tf.unstack(tf.where(sources == number), axis=1)
            places.append(tf.cast(place, tf.int32))
            parts.append(read(tf.gather(numbers, place)))
        rows = {}
        for name in parts[0]:
            values = [part[name] for part in parts]
            if values[0].shape.rank == 2:
                # Packed rows may have a different number of predictions per source.
                width = max(value.shape[1] for value in values)
                values = [
                    tf.pad(value, [[0, 0], [0, width - value.shape[1]]])
                    for value in values
                ]
            merged = tf.dynamic_stitch(places, values)
            rows[name] = tf.ensure_shape(merged, [*samples.shape, *values[0].shape[1:]])
        return {**rows, "sample_number": samples}


def _check_agreement(folders: Mapping[str, pathlib.Path]) -> None:
    expected: dict[str, object] = {}
    for folder in folders.values():
        manifest = Manifest.load(folder)
        for field, value in {
            "vocabulary": {**manifest.vocabulary, "file": None},
            "sentence_splitter": manifest.sentence_splitter,
            "window_length": manifest.window_length,
        }.items():
            if expected.setdefault(field, value) != value:
                raise ValueError(
                    f"The records of a mixture must agree in `{field}`. Received: "
                    f"{expected[field]}, and {folder} with {value}. Build all with the "
                    "same vocabulary, sentence splitter and window length"
                )
