"""The run config that a foreign model is put into, given or its own."""

import dataclasses
from typing import Any

from seg_tf.config import EncoderConfig, RunConfig
from seg_tf.data.configs import WindowInputsConfig
from seg_tf.interop import own_checkpoints
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel

_SEGABERT_FEATURES = ("paragraph_index", "sentence_index", "token_index")
_LONGEST_WINDOW = 512
# Settings that no weight depends on, and outputs do.
_OUTPUT_SETTINGS = ("layer_norm_epsilon", "approximate_gelu")


def own_config(foreign: ForeignModel) -> RunConfig:
    """The config of a model that is the foreign one: a BERT, or a SegaBERT.

    Raises:
        ForeignWeightsError: if it lacks a table of theirs, or is a checkpoint of this
            package, which needs no import to be what it is.
    """
    if foreign.format == own_checkpoints.SEG_TF:
        raise ForeignWeightsError(
            "`--config` must name the model that is to start from the weights, where "
            f"--from is a checkpoint of this package. Received: {foreign.store.source} "
            "alone, which can be used as it is"
        )
    tables = ("position_index",)
    if foreign.is_segabert:
        tables = _SEGABERT_FEATURES
    rows = foreign.table_rows
    missing = [name for name in tables if name not in rows]
    if missing:
        raise ForeignWeightsError(
            f"{foreign.store.source}: must have tables for {', '.join(tables)}. It "
            f"lacks: {', '.join(missing)}"
        )
    family = "segabert" if foreign.is_segabert else "bert"
    size = "large" if foreign.sizes.num_layers >= 24 else "base"
    window_length = min(rows.get("position_index", _LONGEST_WINDOW), _LONGEST_WINDOW)
    return RunConfig(
        name=f"{family}_from_{foreign.format}",
        paper=f"{family}_{size}",
        model=EncoderConfig(
            index_tables={name: rows[name] for name in tables},
            **dataclasses.asdict(foreign.sizes),
            dropout=foreign.dropout,
            layer_norm_epsilon=foreign.layer_norm_epsilon,
            initializer_range=foreign.initializer_range,
            approximate_gelu=foreign.approximate_gelu,
            num_token_types=rows.get("token_type", 0),
        ),
        inputs=WindowInputsConfig(window_length=window_length),
    )


def settings_of(foreign: ForeignModel) -> dict[str, Any]:
    """Fields of an `EncoderConfig` that describe the source, for `follow_source`."""
    tables = dict(foreign.table_rows)
    return {
        "num_token_types": tables.pop("token_type", 0),
        "index_tables": tables,
        **{name: getattr(foreign, name) for name in _OUTPUT_SETTINGS},
    }


def check_config(config: RunConfig, foreign: ForeignModel) -> None:
    """Makes sure that a config is of a model that the weights may fit.

    Raises:
        ForeignWeightsError: if it is of no encoder, or has other layers or heads. What
            shapes tell is left to them.
    """
    model = config.model
    if not getattr(model, "has_bert_layers", False):
        raise ForeignWeightsError(
            "`--config` must be of an encoder with BERT's layers and without rotary "
            f"positions, to take up weights of one. Received: {config.name!r}, of a "
            f"{type(model).__name__}, model.trunk={getattr(model, 'trunk', None)!r}"
        )
    for name in ("num_layers", "num_heads"):
        ours, theirs = getattr(model, name), getattr(foreign.sizes, name)
        if ours != theirs:
            extra = ""
            query = foreign.layout.get(f"layers/{ours}/query/kernel")
            if name == "num_layers" and query is not None:
                extra = f", with tensors such as {query.name!r}"
            raise ForeignWeightsError(
                f"`model.{name}` must be {theirs}, as in {foreign.store.source}"
                f"{extra}. Received: {config.name!r}, model.{name}={ours}"
            )


def differing_settings(
    model: EncoderConfig, foreign: ForeignModel
) -> dict[str, tuple[Any, Any]]:
    """Settings that make outputs differ whatever the weights: name -> ours, theirs."""
    pairs = {
        name: (getattr(model, name), getattr(foreign, name))
        for name in _OUTPUT_SETTINGS
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
