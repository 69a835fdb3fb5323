"""Implementations of the public contracts, which mypy compares with them here."""

import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from seg_tf.configuration import inputs, masking, objectives
from seg_tf.data.lane_inputs import LaneInputs
from seg_tf.data.masking import Masking, TokenMasking
from seg_tf.data.mixture_inputs import MixtureInputs
from seg_tf.data.packed_window_inputs import packed_window_inputs
from seg_tf.data.reat_inputs import reat_inputs
from seg_tf.data.sentence_inputs import (
    sentence_inputs,
    shuffled_window_inputs,
)
from seg_tf.data.span_masking import SpanMasking
from seg_tf.data.window_inputs import WindowInputs
from seg_tf.layouts.blocks import BlockLayout
from seg_tf.layouts.layout import Layout
from seg_tf.layouts.sentences import SentenceLayout
from seg_tf.layouts.windows import WindowLayout
from seg_tf.objectives.base import Objective
from seg_tf.objectives.causal_lm import CausalLM
from seg_tf.objectives.exchange_sentence import ExchangeSentence
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.objectives.sentence_unshuffling import SentenceUnshuffling
from seg_tf.training.inputs import Inputs

INPUTS: list[Callable[..., Inputs]] = [
    LaneInputs,
    WindowInputs,
    packed_window_inputs,
    reat_inputs,
    sentence_inputs,
    shuffled_window_inputs,
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


@pytest.mark.parametrize(
    "configs, reference, listed",
    [
        (inputs, "implementation", INPUTS),
        (inputs, "layout", LAYOUTS),
        (inputs, "mixture", MIXTURES),
        (masking, "implementation", MASKINGS),
        (objectives, "implementation", OBJECTIVES),
    ],
)
def test_mypy_compares_all_that_configs_name(
    configs: types.ModuleType, reference: str, listed: Sequence[Any]
) -> None:
    named = {
        getattr(config, reference)
        for config in vars(configs).values()
        if getattr(config, "__module__", None) == configs.__name__
        and getattr(config, reference, None) is not None
    }
    assert named == {f"{one.__module__}:{one.__qualname__}" for one in listed}
