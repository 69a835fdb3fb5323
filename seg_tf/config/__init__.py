"""Frozen dataclasses, one per component, and how a run's config is overridden.

A run is one `RunConfig`. `build_from` unpacks a part of it into plain arguments of the
class that it configures, so layers, models and pipelines never see a config. A new
model, objective, optimizer or form of inputs is a new, registered dataclass, and a
class that is `configured_by` it: readers of configs do not change. Configs of inputs
and maskings are in `seg_tf.data.configs`.
"""

from seg_tf.config.base import (
    build_from as build_from,
)
from seg_tf.config.base import (
    configured_by as configured_by,
)
from seg_tf.config.base import (
    differing_settings as differing_settings,
)
from seg_tf.config.base import (
    from_config_dict as from_config_dict,
)
from seg_tf.config.base import (
    register_config as register_config,
)
from seg_tf.config.base import (
    to_config_dict as to_config_dict,
)
from seg_tf.config.base import (
    to_dict as to_dict,
)
from seg_tf.config.models import (
    CausalLMConfig as CausalLMConfig,
)
from seg_tf.config.models import (
    EncoderConfig as EncoderConfig,
)
from seg_tf.config.models import (
    ExchangeSentenceConfig as ExchangeSentenceConfig,
)
from seg_tf.config.models import (
    MaskedLMConfig as MaskedLMConfig,
)
from seg_tf.config.models import (
    ReATConfig as ReATConfig,
)
from seg_tf.config.models import (
    SentenceUnshufflingConfig as SentenceUnshufflingConfig,
)
from seg_tf.config.models import (
    TransformerXLConfig as TransformerXLConfig,
)
from seg_tf.config.models import (
    attention_rate as attention_rate,
)
from seg_tf.config.optimizers import (
    AdamWConfig as AdamWConfig,
)
from seg_tf.config.optimizers import (
    CosineAdamWConfig as CosineAdamWConfig,
)
from seg_tf.config.optimizers import (
    LambConfig as LambConfig,
)
from seg_tf.config.optimizers import (
    MuonConfig as MuonConfig,
)
from seg_tf.config.optimizers import (
    StableAdamWConfig as StableAdamWConfig,
)
from seg_tf.config.run import (
    LossScaleConfig as LossScaleConfig,
)
from seg_tf.config.run import (
    RunConfig as RunConfig,
)
from seg_tf.config.run import (
    TrainingConfig as TrainingConfig,
)
from seg_tf.config.run import (
    config_getter as config_getter,
)
from seg_tf.config.run import (
    describe_taken as describe_taken,
)
from seg_tf.config.run import (
    follow_source as follow_source,
)
