"""Frozen config dataclasses, one for each component of a run.

A `RunConfig` describes a run. `build_from` unpacks each of its parts into arguments of
the configured class, so layers, models and pipelines never see a config. To add
a model, objective, optimizer or input pipeline, register a new dataclass and decorate a
class with `configured_by`. Input configs are in `seg_tf.data.configs`.
"""

from seg_tf.config.base import (
    build_from,
    configured_by,
    differing_settings,
    from_config_dict,
    register_config,
    to_config_dict,
    to_dict,
)
from seg_tf.config.models import (
    CausalLMConfig,
    EncoderConfig,
    ExchangeSentenceConfig,
    MaskedLMConfig,
    ReATConfig,
    SentenceUnshufflingConfig,
    TransformerXLConfig,
    attention_rate,
)
from seg_tf.config.optimizers import (
    AdamWConfig,
    CosineAdamWConfig,
    LambConfig,
    MuonConfig,
    StableAdamWConfig,
)
from seg_tf.config.run import (
    LossScaleConfig,
    RunConfig,
    TrainingConfig,
    config_getter,
    describe_taken,
    follow_source,
    named_runs,
)
