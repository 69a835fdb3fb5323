"""Grids of settings to try: those of a paper, or given values."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.optimizer import BERT_SETTINGS, DEFAULT_LEARNING_RATE
from seg_tf.finetuning.probing.probe_runner import probe_setting
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.tasks import finetuning_settings
from seg_tf.tasks.finetuning_settings import OptimizerSettings, Recipe

# Means the paper of the checkpoint's model.
PAPER = "paper"
GRIDS = (PAPER, *finetuning_settings.RECIPES)


@dataclasses.dataclass(frozen=True)
class Grid:
    """Settings and seeds to try.

    Attributes:
        settings: each once.
        seeds: of every setting.
        row_length: the most positions of a row; None where a paper leaves it open.
        freezes_encoder: whether only what is above the encoder is trained.
        optimizer: its settings beside the learning rate.
        notes: remarks on a paper's grid, as lines of text.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    row_length: int | None = None
    freezes_encoder: bool = False
    optimizer: OptimizerSettings = BERT_SETTINGS
    notes: tuple[str, ...] = ()


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
        grid: one of `GRIDS`; None takes the learning rate that the checkpoint names, or
            else 3e-5, batches of 32 and 3 epochs.
        learning_rates: values instead of the grid's, if there are any; likewise the
            others.
        batch_sizes: likewise.
        epochs: likewise.
        seeds: instead of 1 up to as many as the paper runs.

    Raises:
        ValueError: if a value is not positive and finite, a seed is negative, or there
            is no such grid.
    """
    given = {
        "learning_rates": tuple(learning_rates),
        "batch_sizes": tuple(batch_sizes),
        "epochs": tuple(epochs),
    }
    for name, values in given.items():
        if any(not (value > 0 and math.isfinite(value)) for value in values):
            raise ValueError(
                f"`{name}` must be positive and finite. Received: {list(values)}"
            )
    seeds = _checked_seeds(seeds)
    if grid is None:
        rate = pretrained.finetuning_learning_rate or DEFAULT_LEARNING_RATE
        # In both papers' grids, and the usual ones since BERT.
        usual = {"learning_rates": (rate,), "batch_sizes": (32,), "epochs": (3,)}
        return Grid(_settings(given, usual), seeds or (1,))
    recipe = finetuning_settings.get(_recipe_name(pretrained, grid), task)
    values = {
        "learning_rates": recipe.learning_rates,
        "batch_sizes": recipe.batch_sizes,
        "epochs": recipe.num_epochs,
    }
    return Grid(
        _settings(given, values),
        seeds or tuple(range(1, 1 + (recipe.num_runs or 1))),
        recipe.row_length,
        recipe.freezes_encoder,
        recipe.optimizer,
        tuple(_notes(recipe)),
    )


def probe_grid(task: str, seeds: Sequence[int] = ()) -> Grid:
    """The one setting of DiscoEval's probe of a task.

    Args:
        task: name of the task.
        seeds: of the probe; without any it is 1.

    Raises:
        ValueError: if the task is another benchmark's, or a seed is negative.
    """
    return Grid((probe_setting(task),), _checked_seeds(seeds) or (1,))


def _settings(
    given: Mapping[str, Sequence[float]], others: Mapping[str, Sequence[float]]
) -> tuple[Setting, ...]:
    """All combinations, each once, with defaults where nothing is given."""
    tried = [values or others[name] for name, values in given.items()]
    return tuple(dict.fromkeys(itertools.starmap(Setting, itertools.product(*tried))))


def _checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    if any(seed < 0 for seed in seeds):
        raise ValueError(f"`seeds` must be 0 or more. Received: {list(seeds)}")
    return tuple(dict.fromkeys(seeds))


def _notes(recipe: Recipe) -> Iterator[str]:
    """Yields the deviations from a paper, and choices that it leaves open."""
    if recipe.num_runs is None:
        yield f"{recipe.source}: does not say how many runs; here it is 1, or --seeds"
    if recipe.score == "best":
        yield (
            f"{recipe.source}: reports the best of {recipe.num_runs} runs; here the "
            "table has their mean and max"
        )


def _recipe_name(pretrained: Pretrained, grid: str) -> str:
    if grid != PAPER:
        return grid
    if pretrained.config.inputs.paper:
        return pretrained.config.inputs.paper
    raise ValueError(
        "`--grid=paper` needs a model whose paper fine-tunes with a grid: BERT, "
        f"SegaBERT or SLM. Received: {pretrained.folder}, the run "
        f"{pretrained.config.name!r}, whose model was of "
        f"{type(pretrained.config.model).__name__}. Give --learning_rate, --batch_size "
        "and --epochs"
    )
