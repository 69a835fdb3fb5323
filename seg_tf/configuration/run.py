"""A whole run."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any

from seg_tf.configuration.inputs import WindowInputsConfig
from seg_tf.configuration.models import EncoderConfig
from seg_tf.configuration.objectives import MaskedLMConfig
from seg_tf.configuration.optimizers import AdamWConfig
from seg_tf.configuration.registry import register
from seg_tf.configuration.training import TrainingConfig


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One pretraining run: everything that its result depends on but the text.

    Attributes:
        name: short name, used for folders and titles.
        paper: the column of `seg_tf.papers` that the run is compared with.
        records_dir: folder of the records, or a mixture of several with weights,
            "wikipedia:3,books:1"; the flag `--records_dir` wins over it.
    """

    name: str
    paper: str
    model: Any = EncoderConfig()
    inputs: Any = WindowInputsConfig()
    objectives: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({"masked_lm": MaskedLMConfig()})
    )
    optimizer: Any = AdamWConfig()
    training: TrainingConfig = TrainingConfig()
    records_dir: str | None = None

    def __post_init__(self) -> None:
        parts = {name: getattr(self, name) for name in ("model", "inputs", "optimizer")}
        if not isinstance(self.objectives, Mapping):
            raise ValueError(
                "`objectives` must map names to configs. Received: "
                f"objectives={self.objectives!r}"
            )
        parts |= {f"objectives.{name}": one for name, one in self.objectives.items()}
        for name, part in parts.items():
            if not hasattr(type(part), "implementation"):
                raise ValueError(
                    f"`{name}` must be a config, with the name of its class as `type`. "
                    f"Received: {name}={part!r}"
                )
        # An optimizer of one's own need not have a schedule.
        if hasattr(self.optimizer, "check_length"):
            self.optimizer.check_length(self.training.num_updates)
        tables = getattr(self.model, "index_tables", {})
        for table, needed, what in (
            ("position_index", "row_length", "position of a row"),
            ("sentence_id", "num_candidates", "sentence, [CLS] and [SEP]"),
        ):
            rows, least = tables.get(table), getattr(self.inputs, needed, 0)
            if rows is not None and rows < least:
                raise ValueError(
                    f"`model.index_tables[{table!r}]` must have a row for every "
                    f"{what}. Received: {rows} rows, inputs.{needed}={least}"
                )

    def decay_begin(self, num_updates: int) -> int | None:
        """Updates that the run, of this length, has in common with all longer ones.

        None where the whole schedule depends on the length.
        """
        if not hasattr(self.optimizer, "decay_begin"):
            return None
        return self.optimizer.decay_begin(num_updates)


def get_variant(runs: Mapping[str, RunConfig], variant: str) -> RunConfig:
    """The run that a config file's `get_config(variant)` is asked for.

    Raises:
        ValueError: if there is none, with the names of all.
    """
    if variant not in runs:
        raise ValueError(
            f"`variant` must be one of {', '.join(runs)}. Received: {variant!r}"
        )
    return runs[variant]
