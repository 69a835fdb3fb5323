"""Implementations of the public contracts, which mypy compares with them here."""

from collections.abc import Callable
from typing import Any

import seg_tf.models  # noqa: F401  Of what the configs of models build.
from seg_tf.config.base import _REGISTRY
from seg_tf.data.inputs import (
    LaneInputs,
    MixtureInputs,
    PackedWindowInputs,
    ReATInputs,
    SentenceInputs,
    ShuffledWindowInputs,
    SpanMasking,
    TokenMasking,
    WindowInputs,
)
from seg_tf.data.masking import Masking
from seg_tf.layouts.blocks import BlockLayout
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.sentences import SentenceLayout
from seg_tf.layouts.windows import WindowLayout
from seg_tf.objectives import (
    CausalLM,
    ExchangeSentence,
    MaskedLM,
    SentenceUnshuffling,
)
from seg_tf.objectives.base import Objective
from seg_tf.training.build import Inputs

INPUTS: list[Callable[..., Inputs]] = [
    LaneInputs,
    PackedWindowInputs,
    ReATInputs,
    SentenceInputs,
    ShuffledWindowInputs,
    WindowInputs,
]
MIXTURES: list[Callable[..., Inputs]] = [MixtureInputs]
LAYOUTS: list[type[Layout]] = [BlockLayout, SentenceLayout, WindowLayout]
MASKINGS: list[type[Masking]] = [SpanMasking, TokenMasking]
OBJECTIVES: list[Callable[..., Objective]] = [
    CausalLM,
    ExchangeSentence,
    MaskedLM,
    SentenceUnshuffling,
]


def test_mypy_compares_all_that_configs_build() -> None:
    configs = [
        config
        for config in _REGISTRY.values()
        if config.__module__.startswith(("seg_tf.data.", "seg_tf.config.models"))
    ]
    listed = {*INPUTS, *MASKINGS, *OBJECTIVES}
    built = {config.__dict__["implementation"] for config in configs}
    assert {one for one in built if not one.__module__.startswith("seg_tf.models")} == (
        listed
    )
    classes: list[Any] = [*INPUTS]
    assert {inputs.layout for inputs in classes} == {*LAYOUTS, None}
