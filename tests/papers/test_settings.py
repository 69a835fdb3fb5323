"""The papers' settings: configs and defaults against them, and deviations of runs."""

import dataclasses
import importlib
import pathlib

import pytest

import configs
from seg_tf import papers
from seg_tf.config import (
    AdamWConfig,
    CausalLMConfig,
    CosineAdamWConfig,
    EncoderConfig,
    ExchangeSentenceConfig,
    LambConfig,
    MaskedLMConfig,
    ReATConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    TrainingConfig,
    TransformerXLConfig,
)
from seg_tf.data.inputs import (
    LaneInputsConfig,
    MaskingConfig,
    ReATInputsConfig,
    SentenceInputsConfig,
    WindowInputsConfig,
)
from seg_tf.papers.settings import ABSENT, COLUMNS, read_setting

RUNS = {
    run.name: run
    for path in sorted(pathlib.Path(configs.__file__).parent.glob("[!_]*.py"))
    for run in importlib.import_module(f"configs.{path.stem}").RUNS.values()
}
# Runs at a paper's size, and the settings in which they deviate all the same.
ROWS, PRECISION = {"inputs.row_length"}, {"training.dtype_policy"}
PAPER_RUNS = {
    name: set()
    for name in RUNS
    if not {"tiny", "mini", "modern", "included"}.intersection(name.split("_"))
} | {
    # Without positions for [SENT], so that the text stays the same.
    "slm_base_plain": ROWS,
    "slm_base_plain_shuffled": ROWS,
    "sega_transformer_xl_base": PRECISION,
    "sega_transformer_xl_base_no_sentence": PRECISION,
    "sega_transformer_xl_base_no_paragraph": PRECISION,
    "sega_transformer_xl_large": PRECISION,
    "transformer_xl_base": PRECISION,
}


def changed(name, **parts):
    """A run with fields of its parts replaced: `model={"num_layers": 3}`."""
    run = RUNS[name]
    return dataclasses.replace(
        run,
        **{
            part: dataclasses.replace(getattr(run, part), **fields)
            if isinstance(fields, dict) and part != "objectives"
            else fields
            for part, fields in parts.items()
        },
    )


def differences(config):
    """(the paper's, the run's) value of each setting that deviates."""
    return {one.setting: (one.paper, one.run) for one in papers.deviations(config)}


@pytest.mark.parametrize("name", PAPER_RUNS)
def test_configs_have_the_values_of_their_papers(name):
    assert set(differences(RUNS[name])) == PAPER_RUNS[name]
    # A misspelt path would compare nothing for ever.
    values = [read_setting(RUNS[name], one) for one in COLUMNS[RUNS[name].paper]]
    assert ABSENT not in values


def objectives(**others):
    return {"masked_lm": MaskedLMConfig(), **others}


# Default parts, and the settings that have no default.
DEFAULTS = {
    "segabert_base": ({}, ""),
    "segabert_large_nvidia_phase1": (
        {"optimizer": LambConfig()},
        "model.num_layers model.hidden_size model.num_heads model.intermediate_size "
        "inputs.window_length inputs.masking.max_predictions optimizer.warmup_updates "
        "training.batch_size training.num_updates",
    ),
    "slm_base": (
        {
            "inputs": SentenceInputsConfig(),
            "objectives": objectives(sentence_unshuffling=SentenceUnshufflingConfig()),
        },
        "model.index_tables model.num_token_types optimizer.learning_rate "
        "optimizer.warmup_updates training.num_updates training.dtype_policy",
    ),
    "reat_base": (
        {
            "model": ReATConfig(),
            "inputs": ReATInputsConfig(),
            "objectives": objectives(exchange_sentence=ExchangeSentenceConfig()),
        },
        "optimizer.learning_rate optimizer.warmup_updates training.batch_size "
        "training.num_updates",
    ),
    "sega_transformer_xl_base": (
        {
            "model": TransformerXLConfig(),
            "inputs": LaneInputsConfig(),
            "objectives": {"causal_lm": CausalLMConfig()},
            "optimizer": CosineAdamWConfig(),
        },
        "training.batch_size training.clip_norm training.dtype_policy "
        "training.num_updates",
    ),
}


@pytest.mark.parametrize("paper", DEFAULTS)
def test_defaults_have_the_values_of_their_paper(paper):
    parts, expected = DEFAULTS[paper]
    values = {
        "model": EncoderConfig(),
        "inputs": WindowInputsConfig(),
        "objectives": objectives(),
        "optimizer": AdamWConfig(),
        "training": TrainingConfig(),
    }
    run = RunConfig(name="defaults", paper=paper, **(values | parts))
    assert set(differences(run)) == set(expected.split())


SEGMENTS = {"paragraph_index": 50, "sentence_index": 100}
POSITIONS = {"position_index": 512}


@pytest.mark.parametrize(
    ("name", "parts", "expected"),
    [
        # Warm-up and decay are relative to the run, predictions to the window.
        (
            "segabert_base",
            {
                "model": {"index_tables": POSITIONS},
                "training": {"num_updates": 1_000, "clip_norm": None},
                "optimizer": {"warmup_updates": 10, "decay_updates": 1_000},
                "inputs": {
                    "window_length": 128,
                    "masking": MaskingConfig(max_predictions=20),
                },
            },
            {
                "model.index_tables": ({**SEGMENTS, "token_index": 256}, POSITIONS),
                "inputs.window_length": (512, 128),
                "training.num_updates": (500_000, 1_000),
                "training.clip_norm": (1.0, None),
            },
        ),
        (
            "slm_base",
            {"inputs": {"max_sentences": 10, "masking": MaskingConfig()}},
            {
                "inputs.max_sentences": (20, 10),
                "inputs.row_length": (512, 502),
                "inputs.masking": ("SpanMaskingConfig", "MaskingConfig"),
                "inputs.masking.max_span_length": (3, ABSENT),
                "inputs.masking.span_end_rate": (0.2, ABSENT),
            },
        ),
        # The paper does not name the half-precision type of base models.
        ("transformer_xl_base", {"training": {"dtype_policy": "mixed_bfloat16"}}, {}),
    ],
)
def test_departures_are_reported(name, parts, expected):
    assert differences(changed(name, **parts)) == expected


def test_other_optimizers_and_objectives_deviate():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class OtherConfig:
        learning_rate: float = 1e-4

    two = objectives(next_sentence=MaskedLMConfig())
    deviating = differences(
        changed("segabert_base", optimizer=OtherConfig(), objectives=two)
    )
    assert deviating["optimizer"] == ("AdamWConfig", "OtherConfig")
    assert deviating["optimizer.weight_decay"] == (0.01, ABSENT)
    assert deviating["objectives"] == (("masked_lm",), ("masked_lm", "next_sentence"))
    assert "optimizer.learning_rate" not in deviating


def test_deviations_towards_the_released_code_are_marked():
    released = changed(
        "segabert_large",
        model={"layer_norm_epsilon": 1e-5, "num_token_types": 2},
        optimizer={"end_learning_rate": 2e-6, "decay_updates": 900_000},
    )
    marked = papers.deviations(released)
    assert [deviation.released for deviation in marked] == [True] * 4
    assert "(as in the authors' code)" in str(marked[0])
    (other,) = papers.deviations(
        changed("segabert_large", model={"num_token_types": 1})
    )
    assert not other.released


def test_what_a_run_prints():
    lines = papers.describe(changed("segabert_base", model={"num_layers": 3}))
    first, second, third, *points = lines.splitlines()
    assert first == "Deviations from the paper (segabert_base): 1"
    assert second == (
        "  model.num_layers: 3; paper 12 [SegaBERT (arXiv:2004.14996), section 2]"
    )
    assert third == "Not compared, because no config field holds it:"
    assert any("BookCorpus" in line for line in points)
    assert not any("[SENT]" in line for line in points)


def test_unknown_column_is_refused():
    with pytest.raises(ValueError, match=r"`paper` must be one of .*Received: paper="):
        papers.deviations(changed("segabert_base", paper="xlnet"))
