import dataclasses
import json

import pytest
from absl import flags
from ml_collections import config_flags

from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    MaskedLMConfig,
    RunConfig,
    SentenceUnshufflingConfig,
    StableAdamWConfig,
    TrainingConfig,
    build_from,
    configured_by,
    from_config_dict,
    register_config,
    to_config_dict,
    to_dict,
)
from seg_tf.data.inputs import (
    MaskingConfig,
    ReATInputsConfig,
    SentenceInputsConfig,
    SpanMaskingConfig,
    WindowInputsConfig,
)

# Every value another than the default's.
RUN = RunConfig(
    name="odd",
    paper="segabert_base",
    model=EncoderConfig(
        vocab_size=77,
        index_tables={"position_index": 64, "paragraph_index": 3},
        num_layers=3,
        hidden_size=60,
        num_heads=5,
        intermediate_size=90,
        dropout=0.2,
        layer_norm_epsilon=1e-5,
        initializer_range=0.1,
        approximate_gelu=True,
        num_token_types=2,
        attention_dropout=0.25,
    ),
    inputs=WindowInputsConfig(
        window_length=64, masking=MaskingConfig(mask_rate=0.2, max_predictions=9)
    ),
    objectives={"masked_lm": MaskedLMConfig(loss_weight=0.5)},
    optimizer=AdamWConfig(learning_rate=0.01, warmup_updates=5),
    training=TrainingConfig(
        num_updates=50,
        batch_size=8,
        micro_batch_size=2,
        clip_norm=None,
        jit_compile=True,
    ),
)


def read_flags(*arguments):
    """The config that a command line with these overrides describes."""
    flag_values = flags.FlagValues()
    argv = ["program", *(f"--config.{argument}" for argument in arguments)]
    holder = config_flags.DEFINE_config_dict(
        "config", to_config_dict(RUN), flag_values=flag_values, sys_argv=argv
    )
    flag_values(argv)
    return from_config_dict(holder.value)


SENTENCES = RunConfig(
    name="sentences",
    paper="slm_base",
    model=EncoderConfig(index_tables={"position_index": 67, "sentence_id": 5}),
    inputs=SentenceInputsConfig(
        window_length=64,
        max_sentences=3,
        shuffle_rate=0.25,
        masking=SpanMaskingConfig(max_span_length=4, span_end_rate=0.5),
    ),
    objectives={
        "masked_lm": MaskedLMConfig(),
        "sentence_unshuffling": SentenceUnshufflingConfig(
            num_layers=2, scale_pointers=True, normalize_first=True, loss_weight=0.5
        ),
    },
)


@pytest.mark.parametrize(
    "config",
    [
        RUN,
        SENTENCES,
        RunConfig(name="plain", paper="bert_base", inputs=WindowInputsConfig()),
    ],
)
def test_config_dict_round_trip(config):
    assert from_config_dict(to_config_dict(config)) == config
    assert from_config_dict(json.loads(json.dumps(to_dict(config)))) == config


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (["model.num_layers=4"], {"model": {"num_layers": 4}}),
        (["training.clip_norm=2"], {"training": {"clip_norm": 2.0}}),
        (["optimizer.warmup_updates=None"], {"optimizer": {"warmup_updates": None}}),
        (
            ["training.callbacks=('a:b', 'c:d')"],
            {"training": {"callbacks": ("a:b", "c:d")}},
        ),
        (
            ["model.index_tables.paragraph_index=8"],
            {"model": {"index_tables": {"position_index": 64, "paragraph_index": 8}}},
        ),
        (
            ["model.index_tables={'token_index': 256}"],
            {"model": {"index_tables": {"token_index": 256}}},
        ),
    ],
)
def test_flags_override_one_field_and_leave_the_rest(arguments, changed):
    parts = {
        name: dataclasses.replace(getattr(RUN, name), **fields)
        for name, fields in changed.items()
    }
    read, expected = read_flags(*arguments), dataclasses.replace(RUN, **parts)
    assert read == expected
    assert as_text(read) == as_text(expected)  # which tells 2 from 2.0


def as_text(config):
    return json.dumps(to_dict(config), sort_keys=True)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("model.vocab_size=many", "`vocab_size` must be int or None.*'many'"),
        ("model.num_heads=0", "`num_heads` must be at least 1.*num_heads=0"),
        ("training={}", "`training` must be a TrainingConfig.*Received: training="),
        ("objectives.masked_lm={}", "`objectives.masked_lm` must be a config"),
        ("model.index_tables.paragraph_index=0", r"\['paragraph_index'\]=0"),
        ("model.index_tables={'token_index': 'all'}", "at least one row.*all"),
        ("inputs.window_length=65", "row for every position.*64 rows.*=65"),
        ("inputs.masking.mask_rate=1.5", "`mask_rate`.*Received: mask_rate=1.5"),
        ("training.batch_size=9", "divide `batch_size`.*micro_batch_size=2.*size=9"),
    ],
)
def test_contradictory_overrides_are_refused(argument, message):
    with pytest.raises(ValueError, match=message):
        read_flags(argument)


@pytest.mark.parametrize(
    ("config", "fields", "message"),
    [
        (SpanMaskingConfig, {"span_end_rate": 0.0}, "`span_end_rate`.*above 0.*=0.0"),
        (AdamWConfig, {"warmup_share": 1.5}, "`warmup_share` must be above 0"),
        (StableAdamWConfig, {"decay_share": 0.0}, "`decay_share` must be above 0"),
        (TrainingConfig, {"callbacks": "a:b"}, "`callbacks` must be a tuple of names"),
        (ReATInputsConfig, {"short_sentence_length": 3}, "at least 4.*length=3"),
        (ReATInputsConfig, {"exchange_within": "book"}, "text, row.*'book'"),
    ],
)
def test_impossible_settings_are_refused(config, fields, message):
    with pytest.raises(ValueError, match=message):
        config(**fields)


def test_unknown_field_is_named_with_those_there_are():
    values = to_dict(RUN)
    values["model"]["num_layer"] = 4
    with pytest.raises(ValueError, match=r"no field \['num_layer'\].*num_layers"):
        from_config_dict(values)


def test_components_are_built_from_the_fields_of_their_configs():
    @register_config
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class RangeConfig:
        start: int = 2
        stop: int | None = None

    with pytest.raises(ValueError, match=r"`configured_by`.*Received: RangeConfig"):
        build_from(RangeConfig())
    configured_by(RangeConfig)(dict)
    # Further arguments replace fields.
    expected = {"start": 2, "stop": 5, "step": 1}
    assert build_from(RangeConfig(), stop=5, step=1) == expected


@pytest.mark.parametrize(
    "optimizer, num_updates, expected",
    [
        (
            AdamWConfig(warmup_updates=300),
            20,
            r"warmup_updates=300, --config\.training\.num_updates=20",
        ),
        (
            StableAdamWConfig(warmup_updates=19),
            20,
            r"warmup_updates=19, --config\.training\.num_updates=20 of which .*=0.1 "
            "leaves 18",
        ),
    ],
)
def test_warm_up_that_is_longer_than_the_run_is_refused_by_its_flags(
    optimizer, num_updates, expected
):
    with pytest.raises(ValueError, match=f"`warmup_updates` must be.*{expected}"):
        RunConfig(
            name="short",
            paper="bert_base",
            inputs=WindowInputsConfig(),
            optimizer=optimizer,
            training=TrainingConfig(num_updates=num_updates),
        )
