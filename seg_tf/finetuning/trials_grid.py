"""Which settings are tried: those of a paper, or values that are given."""

import dataclasses
import itertools
from collections.abc import Sequence

from seg_tf import configuration
from seg_tf.finetuning.probing import probe_setting
from seg_tf.finetuning.trial import Setting
from seg_tf.tasks import finetuning_settings
from seg_tf.training.pretrained import Pretrained

# Stands for the paper of the checkpoint's own model.
PAPER = "paper"
GRIDS = (PAPER, *finetuning_settings.RECIPES)
# In both papers' grids, and the usual ones since BERT.
_DEFAULTS = {"learning_rates": (3e-5,), "batch_sizes": (32,), "epochs": (3,)}


@dataclasses.dataclass(frozen=True)
class Grid:
    """What to try.

    Attributes:
        settings: each once.
        seeds: of every setting.
        row_length: the most positions of a row; None where a paper leaves it open.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    row_length: int | None = None


def make_grid(
    pretrained: Pretrained,
    task: str,
    grid: str | None = None,
    *,
    learning_rates: Sequence[float] = (),
    batch_sizes: Sequence[int] = (),
    epochs: Sequence[int] = (),
    seeds: Sequence[int] = (),
) -> Grid:
    """A paper's grid for a task, or one of the given values.

    Args:
        pretrained: the checkpoint.
        task: name of the task.
        grid: one of `GRIDS`; None takes a learning rate of 3e-5, batches of 32 and 3
            epochs.
        learning_rates: values instead of the grid's, if there are any; likewise the
            others.
        batch_sizes: likewise.
        epochs: likewise.
        seeds: instead of 1 up to as many as the paper runs.

    Raises:
        ValueError: if a value is not positive, or there is no such grid.
    """
    given = {
        "learning_rates": tuple(learning_rates),
        "batch_sizes": tuple(batch_sizes),
        "epochs": tuple(epochs),
    }
    for name, values in given.items():
        if any(not value > 0 for value in values):
            raise ValueError(f"`{name}` must be positive. Received: {list(values)}")
    values, num_runs, row_length = _DEFAULTS, 1, None
    if grid is not None:
        recipe = finetuning_settings.get(_recipe_name(pretrained, grid), task)
        num_runs, row_length = recipe.num_runs or 1, recipe.row_length
        values = {
            "learning_rates": recipe.learning_rates,
            "batch_sizes": recipe.batch_sizes,
            "epochs": recipe.num_epochs,
        }
    tried = [given[name] or values[name] for name in given]
    settings = itertools.starmap(Setting, itertools.product(*tried))
    return Grid(
        tuple(dict.fromkeys(settings)),
        tuple(dict.fromkeys(seeds)) or tuple(range(1, 1 + num_runs)),
        row_length,
    )


def probe_grid(task: str, seeds: Sequence[int] = ()) -> Grid:
    """The one setting of DiscoEval's probe of a task.

    Args:
        task: name of the task.
        seeds: of the probe; without any it is 1.

    Raises:
        ValueError: if the task is another benchmark's.
    """
    return Grid((probe_setting(task),), tuple(dict.fromkeys(seeds)) or (1,))


def _recipe_name(pretrained: Pretrained, grid: str) -> str:
    if grid != PAPER:
        return grid
    if isinstance(pretrained.config.inputs, configuration.SentenceInputsConfig):
        return "slm"
    if isinstance(pretrained.config.model, configuration.EncoderConfig):
        return "segatron"
    raise ValueError(
        "`--grid=paper` needs a model whose paper fine-tunes with a grid: BERT, "
        f"SegaBERT or SLM. Received: {pretrained.folder}, the run "
        f"{pretrained.config.name!r}, whose model was of "
        f"{type(pretrained.config.model).__name__}. Give --learning_rate, --batch_size "
        "and --epochs"
    )
