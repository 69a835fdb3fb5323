import dataclasses
import importlib
import re
from typing import ClassVar

import pytest

from seg_tf import configuration, fidelity
from seg_tf.fidelity import comparison

PAPER_CONFIGS = [
    "segabert_base",
    "segabert_large",
    "bert_base",
    "bert_ps_base",
    "bert_large_phase1",
    "bert_large_phase2",
    "segabert_large_phase1",
    "segabert_large_phase2",
    "slm_base",
    "slm_base_shuffle_all",
    "slm_base_shuffle_all_no_reconstructor",
    "slm_base_no_shuffle",
    "segabert_slm_base",
    "reat_base",
    "reat_small",
]


def load(name):
    """The run called so: `bert_ps_base` is that of `configs/bert_ps.py:base`."""
    family, variant = re.fullmatch(
        r"(.+?)_((?:tiny|small|base|large).*)", name
    ).groups()
    config = importlib.import_module(f"configs.{family}").get_config(variant)
    return configuration.from_config_dict(config)


def changed(config, **parts):
    """`config` with fields of its parts replaced: `model={"num_layers": 3}`."""
    return dataclasses.replace(
        config,
        **{
            part: dataclasses.replace(getattr(config, part), **fields)
            for part, fields in parts.items()
        },
    )


def by_setting(config):
    return {one.setting: one for one in fidelity.deviations(config)}


@pytest.mark.parametrize("name", PAPER_CONFIGS)
def test_configs_of_the_paper_do_not_deviate(name):
    config = load(name)
    assert fidelity.deviations(config) == []
    assert fidelity.describe(config).startswith(
        f"Deviations from the paper ({config.paper}): none"
    )


@pytest.mark.parametrize(
    "parts, setting, paper, run",
    [
        ({"model": {"num_layers": 3}}, "model.num_layers", 12, 3),
        ({"model": {"dropout": 0.0}}, "model.dropout", 0.1, 0.0),
        ({"model": {"attention_dropout": 0.0}}, "model.attention_dropout", 0.1, 0.0),
        ({"training": {"batch_size": 32}}, "training.batch_size", 256, 32),
        ({"inputs": {"window_length": 128}}, "inputs.window_length", 512, 128),
        ({"training": {"clip_norm": None}}, "training.clip_norm", 1.0, None),
        ({"optimizer": {"learning_rate": 2e-4}}, "optimizer.learning_rate", 1e-4, 2e-4),
        (
            {"optimizer": {"warmup_updates": 10_000}},
            "optimizer.warmup_updates",
            5000,
            10_000,
        ),
        (
            {"model": {"index_tables": {"position_index": 512}}},
            "model.index_tables",
            {"paragraph_index": 50, "sentence_index": 100, "token_index": 256},
            {"position_index": 512},
        ),
    ],
)
def test_each_departure_is_found(parts, setting, paper, run):
    found = by_setting(changed(load("segabert_base"), **parts))
    assert found[setting].paper == paper
    assert found[setting].run == run
    assert not found[setting].released
    assert found[setting].source
    assert setting in str(found[setting])


@pytest.mark.parametrize("name", ["segabert_base", "slm_base", "reat_base"])
def test_a_rate_for_attention_weights_is_compared_where_it_is_given(name):
    for rate, deviates in ((None, False), (0.1, False), (0.0, True)):
        changes = {"attention_dropout": rate}
        assert bool(by_setting(changed(load(name), model=changes))) == deviates


def test_every_setting_of_a_column_exists_and_is_compared():
    """A misspelt path in the table would compare nothing for ever."""
    for name in (*PAPER_CONFIGS, "slm_base_plain", "slm_base_plain_shuffled"):
        config = load(name)
        for value in fidelity.COLUMNS[config.paper]:
            assert comparison.read_setting(config, value.setting) != "absent", (
                value.setting
            )


def test_warmup_and_decay_are_relative_to_the_run():
    config = changed(
        load("segabert_base"),
        training={"num_updates": 1_000},
        optimizer={"warmup_updates": 10, "decay_updates": 1_000},
    )
    assert set(by_setting(config)) == {"training.num_updates"}


def test_predictions_are_in_proportion_to_the_window():
    config = changed(
        load("segabert_base"),
        inputs={
            "window_length": 128,
            "masking": configuration.MaskingConfig(max_predictions=20),
        },
    )
    assert set(by_setting(config)) == {"inputs.window_length"}


@pytest.mark.parametrize(
    "parts, setting, paper, run",
    [
        ({"training": {"batch_size": 256}}, "training.batch_size", 65_536, 256),
        ({"training": {"clip_norm": None}}, "training.clip_norm", 1.0, None),
        ({"model": {"num_layers": 12}}, "model.num_layers", 24, 12),
        ({"inputs": {"window_length": 512}}, "inputs.window_length", 128, 512),
        ({"optimizer": {"learning_rate": 1e-4}}, "optimizer.learning_rate", 6e-3, 1e-4),
        # None is 1 % of the run.
        ({"optimizer": {"warmup_updates": None}}, "optimizer.warmup_updates", 2000, 70),
        ({"optimizer": {"decay_power": 1.0}}, "optimizer.decay_power", 0.5, 1.0),
        (
            {"optimizer": {"decay_from_start": False}},
            "optimizer.decay_from_start",
            True,
            False,
        ),
        (
            {"optimizer": {"adapt_excluded": False}},
            "optimizer.adapt_excluded",
            True,
            False,
        ),
    ],
)
def test_departures_from_nvidia_s_recipe_are_found(parts, setting, paper, run):
    config = changed(load("segabert_large_phase1"), **parts)
    found = by_setting(config)
    assert (found[setting].paper, found[setting].run) == (paper, run)
    assert len(found) == 1


def test_tables_of_another_model_deviate_in_a_phase_too():
    config = dataclasses.replace(
        load("bert_large_phase2"), paper="segabert_large_nvidia_phase2"
    )
    assert set(by_setting(config)) == {"model.index_tables"}


def test_adam_is_not_nvidia_s_recipe():
    config = dataclasses.replace(
        load("bert_large_phase2"), optimizer=configuration.AdamWConfig()
    )
    found = by_setting(config)
    assert found["optimizer"].paper == "LambConfig"
    assert found["optimizer.adapt_excluded"].run == "absent"
    assert "NVIDIA" in found["optimizer"].source


def test_several_windows_a_row_are_a_deviation():
    packed = dataclasses.replace(
        load("segabert_base"), inputs=configuration.PackedWindowInputsConfig()
    )
    (found,) = fidelity.deviations(packed)
    assert found.setting == "inputs.max_windows_per_row"
    assert (found.paper, found.run) == (1, 8)


def test_spans_are_a_deviation_of_segabert():
    spans = configuration.WindowInputsConfig(masking=configuration.SpanMaskingConfig())
    run = dataclasses.replace(load("segabert_base"), inputs=spans)
    (found,) = fidelity.deviations(run)
    assert found.setting == "inputs.masking"
    assert (found.paper, found.run) == ("MaskingConfig", "SpanMaskingConfig")


@pytest.mark.parametrize("name", ["slm_base_plain", "slm_base_plain_shuffled"])
def test_slm_without_sentences_has_shorter_rows_than_the_paper(name):
    """They leave out the positions for [SENT], so that the text stays the same."""
    (found,) = fidelity.deviations(load(name))
    assert (found.setting, found.paper, found.run) == ("inputs.row_length", 512, 492)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"inputs": {"shuffle_rate": 1.0}}, {"inputs.shuffle_rate": (0.5, 1.0)}),
        (
            {"inputs": {"max_sentences": 10}},
            {"inputs.max_sentences": (20, 10), "inputs.row_length": (512, 502)},
        ),
        (
            {"inputs": {"window_length": 384}},
            {"inputs.row_length": (512, 404)},
        ),
        (
            {"inputs": {"masking": configuration.MaskingConfig()}},
            {
                "inputs.masking": ("SpanMaskingConfig", "MaskingConfig"),
                "inputs.masking.max_span_length": (3, "absent"),
                "inputs.masking.span_end_rate": (0.2, "absent"),
            },
        ),
        (
            {"inputs": {"masking": configuration.SpanMaskingConfig(max_span_length=9)}},
            {"inputs.masking.max_span_length": (3, 9)},
        ),
        (
            {"model": {"num_token_types": 0}},
            {"model.num_token_types": (2, 0)},
        ),
        (
            {"optimizer": {"warmup_updates": None, "learning_rate": 2e-4}},
            {"optimizer.learning_rate": (1.5e-4, 2e-4)},
        ),
        (
            {"training": {"dtype_policy": "mixed_bfloat16"}},
            {"training.dtype_policy": ("mixed_float16", "mixed_bfloat16")},
        ),
    ],
)
def test_departures_from_slm_are_found(parts, expected):
    found = by_setting(changed(load("slm_base"), **parts))
    assert {name: (one.paper, one.run) for name, one in found.items()} == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"inputs": {"long_rate": 0.0}}, {"inputs.long_rate": (0.1, 0.0)}),
        ({"inputs": {"exchange_rate": 0.5}}, {"inputs.exchange_rate": (0.2, 0.5)}),
        (
            {"inputs": {"row_length": 1024}},
            # As many predictions as before are more than 15 % now.
            {
                "inputs.row_length": (7168, 1024),
                "inputs.masking.max_predictions": (154, 1076),
            },
        ),
        ({"model": {"num_alpha_layers": 2}}, {"model.num_alpha_layers": (4, 2)}),
        ({"training": {"batch_size": 2}}, {"training.batch_size": (1, 2)}),
        (
            {"optimizer": {"warmup_updates": None}},
            {"optimizer.warmup_updates": (10_000, 250_000)},
        ),
    ],
)
def test_departures_from_reat_are_found(parts, expected):
    found = by_setting(changed(load("reat_base"), **parts))
    assert {name: (one.paper, one.run) for name, one in found.items()} == expected


def test_bert_deviates_from_reat_in_its_objectives_and_rows():
    found = by_setting(dataclasses.replace(load("bert_base"), paper="reat_base"))
    assert found["inputs"].run == "WindowInputsConfig"
    assert found["objectives"].run == ("masked_lm",)
    assert found["model.alpha_hidden_size"].run == "absent"


def test_other_reconstructors_deviate_from_slm():
    def with_objectives(**objectives):
        return by_setting(dataclasses.replace(load("slm_base"), objectives=objectives))

    masked_lm = configuration.MaskedLMConfig()
    found = with_objectives(
        masked_lm=masked_lm,
        sentence_unshuffling=configuration.SentenceUnshufflingConfig(
            num_layers=2,
            scale_pointers=True,
            normalize_first=True,
            loss_weight=0.5,
        ),
    )
    prefix = "objectives.sentence_unshuffling"
    assert set(found) == {
        f"{prefix}.{name}"
        for name in (
            "num_layers",
            "scale_pointers",
            "normalize_first",
            "loss_weight",
        )
    }
    assert found[f"{prefix}.num_layers"].run == 2
    assert with_objectives(masked_lm=masked_lm)["objectives"].run == ("masked_lm",)


def test_bert_s_rows_deviate_from_slm():
    found = by_setting(dataclasses.replace(load("bert_base"), paper="slm_base"))
    assert found["inputs"].paper == "SentenceInputsConfig"
    assert found["inputs"].run == "WindowInputsConfig"
    assert (found["inputs.shuffle_rate"].paper, found["inputs.shuffle_rate"].run) == (
        0.5,
        "absent",
    )
    assert "inputs.row_length" not in found  # 512 as well


def test_plain_windows_are_no_shuffled_ones():
    run = dataclasses.replace(load("slm_base_plain"), paper="slm_base_plain_shuffled")
    found = by_setting(run)
    assert set(found) == {
        "inputs",
        "inputs.max_sentences",
        "inputs.row_length",
        "inputs.shuffle_rate",
    }
    assert found["inputs"].run == "WindowInputsConfig"


LANGUAGE_MODELS = [
    *(f"sega_transformer_xl_{one}" for one in ("base", "base_no_sentence", "large")),
    "transformer_xl_base",
]


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_segatron_s_language_models_are_of_mixed_precision(name):
    (found,) = fidelity.deviations(load(name))
    assert found.setting == "training.dtype_policy"
    assert (found.paper, found.run) == ("mixed_float16", "float32")
    # The paper does not say of which kind.
    for policy in ("mixed_float16", "mixed_bfloat16"):
        config = changed(load(name), training={"dtype_policy": policy})
        assert fidelity.deviations(config) == []


def test_the_large_transformer_xl_is_of_full_precision():
    config = load("transformer_xl_large")
    assert fidelity.deviations(config) == []
    found = by_setting(changed(config, training={"dtype_policy": "mixed_float16"}))
    assert found["training.dtype_policy"].paper == "float32"


@pytest.mark.parametrize("name", ["segabert_base", "bert_large", "reat_small"])
def test_mixed_precision_is_said_where_the_paper_is_silent(name):
    config = changed(load(name), training={"dtype_policy": "mixed_bfloat16"})
    (found,) = fidelity.deviations(config)
    assert (found.paper, found.run) == ("float32", "mixed_bfloat16")
    assert "BERT's published code" in found.source


def test_nvidia_s_recipe_takes_any_precision():
    config = changed(
        load("bert_large_phase1"), training={"dtype_policy": "mixed_float16"}
    )
    assert fidelity.deviations(config) == []
    assert "the precision of NVIDIA's recipe" in fidelity.describe(config)


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        # tests/data_pipelines/loading/test_span_masking.py tries these two,
        ("slm_base", "a span may begin and end inside a word"),
        ("slm_base", "whether spans of a sentence may touch"),
        # tests/ops/test_sinusoids.py this one,
        ("sega_transformer_xl_base", "the exponents of equation 2"),
        # and tests/objectives/test_exchange_sentence.py this.
        ("reat_base", "which vectors tell of an exchange"),
    ],
)
def test_readings_of_a_paper_are_listed(name, statement):
    assert statement in fidelity.describe(load(name)).partition("Not compared")[2]


def test_what_no_config_holds_is_that_of_the_paper():
    slm, segabert = (
        fidelity.describe(load(name)).partition("Not compared")[2]
        for name in ("slm_base", "segabert_base")
    )
    assert "[SENT]" in slm
    assert "BookCorpus" in slm
    assert "[SENT]" not in segabert
    assert "NVIDIA" in segabert


def test_deviations_towards_the_released_code_are_marked():
    config = changed(
        load("segabert_large"),
        model={
            "index_tables": {
                "paragraph_index": 50,
                "sentence_index": 100,
                "token_index": 512,
            },
            "layer_norm_epsilon": 1e-5,
            "num_token_types": 2,
        },
        optimizer={"end_learning_rate": 2e-6, "decay_updates": 900_000},
    )
    found = by_setting(config)
    assert set(found) == {
        "model.index_tables",
        "model.layer_norm_epsilon",
        "model.num_token_types",
        "optimizer.end_learning_rate",
        "optimizer.decay_updates",
    }
    assert all(one.released for one in found.values())
    assert "(as the authors' code)" in str(found["model.layer_norm_epsilon"])


def test_other_optimizers_and_objectives_deviate():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class OtherConfig:
        implementation: ClassVar[str] = "some.module:build"
        learning_rate: float = 1e-4

    config = dataclasses.replace(
        load("segabert_base"),
        optimizer=OtherConfig(),
        objectives={
            "masked_lm": configuration.MaskedLMConfig(),
            "next_sentence": configuration.MaskedLMConfig(),
        },
    )
    found = by_setting(config)
    assert found["optimizer"].run == "OtherConfig"
    assert found["optimizer.weight_decay"].run == "absent"
    assert found["objectives"].run == ("masked_lm", "next_sentence")
    assert "optimizer.learning_rate" not in found


def test_tiny_run_is_measured_against_the_base_model():
    found = by_setting(load("segabert_tiny"))
    assert found["model.hidden_size"].paper == 768
    assert found["training.num_updates"].paper == 500_000


def test_unknown_column_is_refused():
    config = dataclasses.replace(load("segabert_base"), paper="xlnet")
    with pytest.raises(ValueError, match=r"`paper` must be one of .*Received: paper="):
        fidelity.deviations(config)
