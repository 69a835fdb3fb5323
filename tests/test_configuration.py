import dataclasses
import json

import pytest
from absl import flags
from ml_collections import config_flags

from seg_tf.config import (
    AdamWConfig,
    EncoderConfig,
    LambConfig,
    MaskedLMConfig,
    MuonConfig,
    ReATConfig,
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
    PackedWindowInputsConfig,
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
            num_layers=2,
            scale_pointers=True,
            normalize_first=True,
            loss_weight=0.5,
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
        (["model.vocab_size=99"], {"model": {"vocab_size": 99}}),
        (["training.clip_norm=0.5"], {"training": {"clip_norm": 0.5}}),
        (["training.clip_norm=2"], {"training": {"clip_norm": 2.0}}),
        (["optimizer.warmup_updates=None"], {"optimizer": {"warmup_updates": None}}),
        (["training.callbacks=a.b:c"], {"training": {"callbacks": ("a.b:c",)}}),
        (
            ["training.callbacks=('a:b', 'c:d')"],
            {"training": {"callbacks": ("a:b", "c:d")}},
        ),
        (["training.jit_compile=false"], {"training": {"jit_compile": False}}),
        (
            ["model.index_tables.paragraph_index=8"],
            {"model": {"index_tables": {"position_index": 64, "paragraph_index": 8}}},
        ),
        (
            ["model.index_tables={'token_index': 256}"],
            {"model": {"index_tables": {"token_index": 256}}},
        ),
        (
            ["training.seed=3", "training.batch_size=16"],
            {"training": {"seed": 3, "batch_size": 16}},
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


def test_flag_replaces_an_optimizer_by_one_with_more_settings():
    optimizer = StableAdamWConfig(learning_rate=0.1, warmup_updates=7)
    values = to_config_dict(dataclasses.replace(RUN, optimizer=optimizer))
    values.optimizer.type = "MuonConfig"
    assert from_config_dict(values).optimizer == MuonConfig(
        learning_rate=0.1, warmup_updates=7
    )


def as_text(config):
    return json.dumps(to_dict(config), sort_keys=True)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("model.vocab_size=many", "`vocab_size` must be int or None.*'many'"),
        ("model.num_heads=0", "`num_heads` must be at least 1.*num_heads=0"),
        ("inputs.masking.max_predictions=0", "`max_predictions` must be at least 1"),
        ("training={}", "`training` must be a TrainingConfig.*Received: training="),
        ("inputs.masking={}", "`masking` must be a MaskingConfig"),
        ("model={}", "`model` must be a config.*Received: model="),
        ("objectives.masked_lm={}", "`objectives.masked_lm` must be a config"),
        ("model.hidden_size=61", "multiple of `num_heads`.*hidden_size=61"),
        ("model.index_tables.paragraph_index=0", r"\['paragraph_index'\]=0"),
        ("model.index_tables={'token_index': 'all'}", "at least one row.*all"),
        ("model.rotary_shares={'token_index': 'all'}", "a positive number.*'all'"),
        ("inputs.window_length=65", "row for every position.*64 rows.*=65"),
        ("inputs.masking.mask_rate=1.5", "`mask_rate`.*Received: mask_rate=1.5"),
        ("inputs.masking.mask_token_rate=0.95", "`random_token_rate` must not exceed"),
        ("training.batch_size=9", "divide `batch_size`.*micro_batch_size=2.*size=9"),
        ("training.clip_norm=0", "`clip_norm` must be above 0.*clip_norm=0"),
    ],
)
def test_contradictory_overrides_are_refused(argument, message):
    with pytest.raises(ValueError, match=message):
        read_flags(argument)


@pytest.mark.parametrize(
    ("config", "fields", "message"),
    [
        (PackedWindowInputsConfig, {"max_windows_per_row": 0}, "at least 1.*=0"),
        (SentenceInputsConfig, {"shuffle_rate": 1.1}, "between 0 and 1.*rate=1.1"),
        (SpanMaskingConfig, {"span_end_rate": 0.0}, "`span_end_rate`.*above 0.*=0.0"),
        # What `MaskingConfig` refuses is refused here too.
        (SpanMaskingConfig, {"mask_rate": 0.0}, "`mask_rate`.*mask_rate=0.0"),
        (ReATInputsConfig, {"short_sentence_length": 3}, "at least 4.*length=3"),
        (ReATInputsConfig, {"exchange_within": "book"}, "text, row.*'book'"),
        (ReATConfig, {"alpha_num_heads": 3}, "of `alpha_num_heads`.*_num_heads=3"),
    ],
)
def test_impossible_settings_are_refused(config, fields, message):
    with pytest.raises(ValueError, match=message):
        config(**fields)


@pytest.mark.parametrize(
    ("table", "rows", "message"),
    [
        ("position_index", 66, r"\['position_index'\].*position of a row.*length=67"),
        ("sentence_id", 4, r"\['sentence_id'\].*sentence, .*4 rows.*candidates=5"),
    ],
)
def test_tables_too_small_for_rows_of_sentences_are_refused(table, rows, message):
    tables = {**SENTENCES.model.index_tables, table: rows}
    model = dataclasses.replace(SENTENCES.model, index_tables=tables)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SENTENCES, model=model)


def test_unknown_field_is_named_with_those_there_are():
    values = to_dict(RUN)
    values["model"]["num_layer"] = 4
    with pytest.raises(ValueError, match=r"no field \['num_layer'\].*num_layers"):
        from_config_dict(values)


@pytest.mark.parametrize("cutoffs", [("x",), (True,), 5])
def test_items_of_another_type_are_refused(cutoffs):
    values = {"type": "TransformerXLConfig", "cutoffs": cutoffs}
    with pytest.raises(ValueError, match=r"`cutoffs.* must be (int|tuple)\."):
        from_config_dict(values)


def test_unknown_type_is_named_with_those_there_are():
    values = to_dict(RUN)
    values["model"]["type"] = "RecurrentConfig"
    with pytest.raises(ValueError, match=r"EncoderConfig.*Received: 'RecurrentConfig'"):
        from_config_dict(values)


@register_config
@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeConfig:
    """A component that this file adds, as a later model would."""

    start: int = 2
    stop: int | None = None


def test_config_of_what_was_not_imported_is_named():
    @dataclasses.dataclass(frozen=True)
    class UnknownConfig:
        start: int = 2

    with pytest.raises(ValueError, match=r"`configured_by`.*Received: UnknownConfig"):
        build_from(UnknownConfig())


def test_build_unpacks_fields_and_extra_arguments_win():
    @configured_by(RangeConfig)
    def keep(**arguments):
        return arguments

    assert build_from(RangeConfig(), stop=5, step=1) == {
        "start": 2,
        "stop": 5,
        "step": 1,
    }


@pytest.mark.parametrize(
    "optimizer, num_updates, expected",
    [
        (
            AdamWConfig(warmup_updates=300),
            20,
            r"warmup_updates=300, --config\.training\.num_updates=20",
        ),
        (
            LambConfig(warmup_updates=300, decay_updates=40),
            1_000,
            r"warmup_updates=300, --config\.optimizer\.decay_updates=40",
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


@pytest.mark.parametrize(
    "callbacks", ["package:function", ("function",), ("a:b", 3), ("a:b,c:d",), None]
)
def test_callbacks_that_are_no_names_of_functions_are_refused(callbacks):
    with pytest.raises(ValueError, match="`callbacks` must be a tuple of names"):
        TrainingConfig(callbacks=callbacks)


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_shares_of_a_run_lie_between_nothing_and_all(share):
    with pytest.raises(ValueError, match="`warmup_share` must be above 0"):
        AdamWConfig(warmup_share=share)
    with pytest.raises(ValueError, match="`decay_share` must be above 0"):
        StableAdamWConfig(decay_share=share)
