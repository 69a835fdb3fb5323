"""Frozen dataclasses, one per component, and how a run's config is overridden.

A run is one `RunConfig`. Its parts say in `implementation` which class they
configure; `build` imports that class and unpacks the fields into plain
arguments, so layers, models and pipelines never see a config. A new model,
objective, optimizer or input view is a new dataclass here (or anywhere, once
`register`ed) and a new file: nothing that reads configs changes.
"""

from seg_tf.configuration.inputs import (
    LaneInputsConfig,
    PackedWindowInputsConfig,
    ReATInputsConfig,
    SentenceInputsConfig,
    ShuffledWindowInputsConfig,
    WindowInputsConfig,
)
from seg_tf.configuration.masking import MaskingConfig, SpanMaskingConfig
from seg_tf.configuration.models import (
    EncoderConfig,
    ReATConfig,
    TransformerXLConfig,
    attention_rate,
)
from seg_tf.configuration.objectives import (
    CausalLMConfig,
    ExchangeSentenceConfig,
    MaskedLMConfig,
    SentenceUnshufflingConfig,
)
from seg_tf.configuration.optimizers import (
    AdamWConfig,
    CosineAdamWConfig,
    LambConfig,
    MuonConfig,
    StableAdamWConfig,
)
from seg_tf.configuration.registry import (
    build,
    find,
    from_config_dict,
    register,
    to_config_dict,
    to_dict,
)
from seg_tf.configuration.run import RunConfig, get_variant
from seg_tf.configuration.training import LossScaleConfig, TrainingConfig

__all__ = [
    "AdamWConfig",
    "CausalLMConfig",
    "CosineAdamWConfig",
    "EncoderConfig",
    "ExchangeSentenceConfig",
    "LambConfig",
    "LaneInputsConfig",
    "LossScaleConfig",
    "MaskedLMConfig",
    "MaskingConfig",
    "MuonConfig",
    "PackedWindowInputsConfig",
    "ReATConfig",
    "ReATInputsConfig",
    "RunConfig",
    "SentenceInputsConfig",
    "SentenceUnshufflingConfig",
    "ShuffledWindowInputsConfig",
    "SpanMaskingConfig",
    "StableAdamWConfig",
    "TrainingConfig",
    "TransformerXLConfig",
    "WindowInputsConfig",
    "attention_rate",
    "build",
    "find",
    "from_config_dict",
    "get_variant",
    "register",
    "to_config_dict",
    "to_dict",
]
