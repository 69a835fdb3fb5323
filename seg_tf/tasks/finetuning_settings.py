"""Fine-tuning settings of the Segatron, SegaBERT and SLM papers, with their sources.

There are three sets of recipes, each with one recipe per task:

* "segatron": SegaBERT and BERT in the AAAI paper.
* "segabert_base": base models in the earlier report, with one setting per benchmark.
* "slm": SLM, with a frozen encoder for DiscoEval tasks.

The learning rate applies to the global batch, for any number of devices.
"""

import dataclasses
import itertools
from collections.abc import Mapping

from seg_tf.config.base import Count, Positive, Ranged, check_choice

_SEGATRON = "Segatron (arXiv:2004.14996)"
_SEGABERT = "SegaBERT (arXiv:2004.14996v1)"
_SLM = "SLM (arXiv:2010.16249)"


@dataclasses.dataclass(frozen=True, slots=True)
class Setting(Ranged):
    """Hyperparameters that papers vary: peak learning rate, batch size and epochs."""

    learning_rate: Positive
    batch_size: Count
    epochs: Count

    def __str__(self) -> str:
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        return f"lr {self.learning_rate:g}, batch {self.batch_size}, {epochs}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """Settings of AdamW other than the learning rate. Defaults are BERT's."""

    # Fraction of the updates with linear warmup. The learning rate then decays to 0.
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    epsilon: float = 1e-6
    clip_norm: float = 1.0


# "The other hyper-parameters are the same as in the HuggingFace Transformers library",
# says Segatron (section 4.2): the defaults of its scripts for GLUE and SQuAD in 2020.
_HUGGING_FACE = OptimizerSettings(warmup_share=0.0, weight_decay=0.0, epsilon=1e-8)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings that a paper tries for a task.

    Attributes:
        learning_rates, batch_sizes, epochs: tuples of numbers. Values of the grid.
        source: str. Paper, sections and tables that state the settings.
        best: `Setting`. The paper's best or only setting, or None if it is not stated.
        num_runs: int. Number of seeds per setting, or None if it is not stated.
        score: str. Reported score of the runs, "mean" or "best", or "" if not stated.
        row_length: int. Maximum row length, or None if it is not stated.
        optimizer: `OptimizerSettings`. Optimizer settings that are not in the grid.
        freezes_encoder: bool. Whether only the head is trained.
    """

    learning_rates: tuple[float, ...]
    batch_sizes: tuple[int, ...] = (32,)
    epochs: tuple[int, ...] = (3,)
    source: str = ""
    best: Setting | None = None
    num_runs: int | None = None
    score: str = ""
    row_length: int | None = None
    optimizer: OptimizerSettings = OptimizerSettings()
    freezes_encoder: bool = False

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All distinct settings of the grid."""
        grid = itertools.product(self.learning_rates, self.batch_sizes, self.epochs)
        return tuple(dict.fromkeys(itertools.starmap(Setting, grid)))


def get(recipe: str, task: str) -> Recipe:
    """Returns `RECIPES[recipe][task]`. Raises a ValueError if it does not exist."""
    check_choice("recipe", recipe, RECIPES)
    check_choice("task", task, RECIPES[recipe])
    return RECIPES[recipe][task]


def _single(
    setting: Setting, source: str, num_runs: int | None = None, row_length: int = 128
) -> Recipe:
    return Recipe(
        learning_rates=(setting.learning_rate,),
        batch_sizes=(setting.batch_size,),
        epochs=(setting.epochs,),
        source=source,
        best=setting,
        num_runs=num_runs,
        score="mean" if num_runs else "",
        row_length=row_length,
        optimizer=_HUGGING_FACE,
    )


def _slm(task: str, epochs: int, learning_rate: float) -> Recipe:
    benchmark = task.split("/")[0]
    is_probe = benchmark == "discoeval"
    return Recipe(
        learning_rates=(1e-5, 3e-5, 5e-5, 1e-4) if is_probe else (1e-5, 3e-5, 5e-5),
        epochs=tuple(range(2, 16)) if is_probe else (2, 3, 4, 5),
        source=f"{_SLM}, section 3.2, appendix A, tables 7 and 8",
        best=Setting(learning_rate, 32, epochs),
        num_runs=5,
        score="best",
        row_length={"squad": 512, "glue": 128, "discoeval": None}[benchmark],
        freezes_encoder=is_probe,
    )


_SMALL_TASKS = ("glue/cola", "glue/mrpc", "glue/rte", "glue/sst-2", "glue/sts-b")
_DOMAINS = ("arxiv", "rocstory", "wiki")
_LARGE_TASKS = ("glue/qqp", "glue/mnli", "glue/qnli")
_SEGATRON_GRID = Recipe(
    learning_rates=(2e-5, 3e-5, 5e-5),
    batch_sizes=(16, 24, 32),
    epochs=(3, 4, 5, 6, 7, 8, 9, 10),
    source=f"{_SEGATRON}, section 4.2 and table 2",
    num_runs=4,
    score="mean",
    row_length=128,
    optimizer=_HUGGING_FACE,
)
_SEGATRON_LARGE = Setting(3e-5, 256, 3)
_SEGATRON_SQUAD = Setting(3e-5, 128, 4)
# Table 8, epochs and learning rate. Its "SPP" is SSP.
_SLM_BEST: Mapping[str, tuple[int, float]] = {
    "squad/v1.1": (2, 5e-5),
    "squad/v2.0": (2, 3e-5),
    "glue/cola": (4, 1e-5),
    "glue/sst-2": (3, 3e-5),
    "glue/mrpc": (3, 3e-5),
    "glue/sts-b": (4, 1e-5),
    "glue/qqp": (4, 3e-5),
    "glue/mnli": (2, 3e-5),
    "glue/qnli": (2, 3e-5),
    "glue/rte": (5, 1e-5),
    **{f"discoeval/sp/{domain}": (13, 1e-4) for domain in _DOMAINS},
    **{f"discoeval/bso/{domain}": (13, 5e-5) for domain in _DOMAINS},
    "discoeval/dc/chat": (15, 5e-5),
    "discoeval/dc/wiki": (15, 5e-5),
    "discoeval/ssp": (10, 1e-4),
    "discoeval/pdtb/explicit": (15, 1e-4),
    "discoeval/pdtb/implicit": (15, 1e-4),
}
RECIPES: Mapping[str, Mapping[str, Recipe]] = {
    "segatron": {
        **dict.fromkeys(_SMALL_TASKS, _SEGATRON_GRID),
        **dict.fromkeys(
            _LARGE_TASKS,
            _single(_SEGATRON_LARGE, f"{_SEGATRON}, section 4.2 and table 2", 4),
        ),
        "squad/v1.1": _single(
            _SEGATRON_SQUAD, f"{_SEGATRON}, section 4.3, table 6", 4, row_length=384
        ),
        "squad/v2.0": _single(
            _SEGATRON_SQUAD, f"{_SEGATRON}, section 4.3", row_length=384
        ),
    },
    "segabert_base": {
        **dict.fromkeys(
            (*_SMALL_TASKS, *_LARGE_TASKS),
            _single(_SEGATRON_LARGE, f"{_SEGABERT}, section 3.1"),
        ),
        "squad/v1.1": _single(
            _SEGATRON_SQUAD, f"{_SEGABERT}, section 3.2", row_length=384
        ),
    },
    "slm": {task: _slm(task, *best) for task, best in _SLM_BEST.items()},
}
