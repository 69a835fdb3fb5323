import dataclasses
import importlib

import pytest

from seg_tf import configuration, fidelity

PAPER_CONFIGS = ["segabert_base", "segabert_large", "bert_base", "bert_ps_base"]


def load(name):
    config = importlib.import_module(f"configs.{name}").get_config()
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
        ({"training": {"batch_size": 32}}, "training.batch_size", 256, 32),
        ({"inputs": {"window_length": 128}}, "inputs.window_length", 512, 128),
        ({"optimizer": {"clip_norm": None}}, "optimizer.clip_norm", 1.0, None),
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


def test_every_setting_of_a_column_exists_and_is_compared():
    """A misspelt path in the table would compare nothing for ever."""
    for name in PAPER_CONFIGS:
        config = load(name)
        for value in fidelity.COLUMNS[config.paper]:
            assert fidelity._read(config, value.setting) != "absent", value.setting


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


def test_several_windows_a_row_are_a_deviation():
    packed = dataclasses.replace(
        load("segabert_base"), inputs=configuration.PackedWindowInputsConfig()
    )
    (found,) = fidelity.deviations(packed)
    assert found.setting == "inputs.max_windows_per_row"
    assert (found.paper, found.run) == (1, 8)


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
