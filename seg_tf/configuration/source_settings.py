"""Model settings that follow the weights a run starts from.

Weights of another program were trained with an epsilon of LayerNorm, a form of GELU,
token types and as many rows in each table. No tensor's shape has to tell that a config
says otherwise, and the outputs differ. So these settings are the source's, except those
that the user asked for by a flag.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from seg_tf.configuration.models import EncoderConfig
from seg_tf.configuration.run import RunConfig

_OUTPUT_SETTINGS = ("layer_norm_epsilon", "approximate_gelu")
_TABLES, _TYPES = "index_tables", "num_token_types"


def follow_source(
    config: RunConfig, source: Mapping[str, Any], asked: Collection[str]
) -> tuple[RunConfig, dict[str, tuple[Any, Any]]]:
    """Takes over the settings of the source that the config leaves open.

    Epsilon and GELU are the source's. Token types and the tables that both have get
    the source's rows if it has more, so that no row of it is lost.

    Args:
        config: the run's; one of no `EncoderConfig` is returned as it is.
        source: fields of an `EncoderConfig` that describe the source.
        asked: paths of the fields that the user set, such as
            `model.layer_norm_epsilon`; these stay.

    Returns:
        The config, and path -> (value of the config, value of the source) of every
        setting that was taken over.
    """
    model = config.model
    if not isinstance(model, EncoderConfig):
        return config, {}
    taken: dict[str, tuple[Any, Any]] = {}

    def take(path: str, ours: Any, theirs: Any) -> Any:
        if path in asked or path.rpartition(".")[0] in asked:
            return ours
        if ours != theirs:
            taken[path] = (ours, theirs)
        return theirs

    changes = {
        name: take(f"model.{name}", getattr(model, name), source[name])
        for name in _OUTPUT_SETTINGS
    }
    changes[_TYPES] = take(
        f"model.{_TYPES}",
        model.num_token_types,
        max(source[_TYPES], model.num_token_types),
    )
    changes[_TABLES] = {
        name: take(
            f"model.{_TABLES}.{name}", rows, max(source[_TABLES].get(name, 0), rows)
        )
        for name, rows in model.index_tables.items()
    }
    if not taken:
        return config, {}
    model = dataclasses.replace(model, **changes)
    return dataclasses.replace(config, model=model), taken


def describe_taken(taken: Mapping[str, tuple[Any, Any]]) -> str:
    """The settings taken over, on one line: `model.approximate_gelu=True (False)`."""
    return "; ".join(
        f"{path}={theirs} (the config says {ours})"
        for path, (ours, theirs) in taken.items()
    )
