"""Computes the loss of a model that ignores the context, to detect plateaus."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special
import tensorflow as tf

from seg_tf.config import CausalLMConfig, MaskedLMConfig, RunConfig
from seg_tf.training.build import Inputs, validation_datasets
from seg_tf.training.distribution import Distribution

# Suffix of the log's names for metrics of a model that ignores the context.
ENDING = "_without_context"
# A loss this far below that level shows that the model uses the context.
_MARGIN = 0.05
# Targets counted per vocabulary entry. The finite sample adds about 0.01 to the loss.
_TARGETS_PER_ENTRY = 50
_MAX_BATCH_SIZE = 256


def expected_losses(
    frequencies: np.ndarray, kept_rate: float, random_rate: float
) -> np.ndarray:
    r"""Computes each target's expected loss given only the input piece at its position.

    The input piece `x` is the target `t` with probability `k` (`kept_rate`), a uniform
    draw from the `V` vocabulary entries with probability `r` (`random_rate`), otherwise
    `[MASK]`, which is never a target. By Bayes' rule, the best prediction is

        P(t | [MASK]) = p(t)
        P(t | x) = p(t) (k [x = t] + r / V) / (k p(x) + r / V)

    `frequencies` `(V,)` is `p`, positive with sum 1. Returns losses `(V,)` in nats: the
    mean of `-log P(t | x)` over `x` for each `t`.
    """
    random = random_rate / len(frequencies)
    total = kept_rate * frequencies + random
    # Among the terms `w log(w / total)`, only the one for `x = t` has another weight.
    different = scipy.special.rel_entr(random, total)
    same = scipy.special.rel_entr(kept_rate + random, total)
    return -np.log(frequencies) - (np.sum(different) - different + same)


def losses_without_context(config: RunConfig, inputs: Inputs) -> dict[str, float]:
    """Computes the validation loss in nats of a model that ignores the context.

    The model only uses the masking rates and the smoothed target frequencies of the
    first training rows. Returns a dict with `NAME_loss_without_context` for the first
    masked or causal LM objective. If this is the only objective, the dict also has
    `loss_without_context`. It is empty without such an objective or validation.
    """
    datasets = validation_datasets(inputs, config.training, Distribution())
    masking = getattr(config.inputs, "masking", None)
    for name, objective in config.objectives.items():
        if isinstance(objective, MaskedLMConfig) and masking:
            features = ("masked_ids", "masked_weights")
            random_rate = masking.random_token_rate
            kept_rate = max(1 - masking.mask_token_rate - random_rate, 0.0)
        elif isinstance(objective, CausalLMConfig):
            features, kept_rate, random_rate = ("target_ids", "padding_mask"), 0.0, 0.0
        else:
            continue
        if not datasets:
            break
        vocab_size = inputs.vocab_size
        batch_size = min(config.training.batch_size, _MAX_BATCH_SIZE)
        epoch = -(-inputs.num_train_samples // batch_size)
        train = inputs.train_dataset(batch_size).take(epoch)
        enough = _TARGETS_PER_ENTRY * vocab_size
        counts = 1 + _count_targets(train, features, vocab_size, enough)
        losses = expected_losses(counts / np.sum(counts), kept_rate, random_rate)
        levels = [
            np.average(losses, weights=_count_targets(dataset, features, vocab_size))
            for dataset in datasets.values()
        ]
        weights = [source.weight for source in inputs.sources.values()]
        level = float(np.average(levels, weights=weights or None))
        total = {f"loss{ENDING}": objective.loss_weight * level}
        is_only = len(config.objectives) == 1
        return {**(total if is_only else {}), f"{name}_loss{ENDING}": level}
    return {}


def _count_targets(
    dataset: tf.data.Dataset,
    features: tuple[str, str],
    vocab_size: int,
    enough: float = np.inf,
) -> np.ndarray:
    """Returns target counts `(vocab_size,)`. Stops after at least `enough` targets."""
    targets, count = [], 0
    for batch in dataset.as_numpy_iterator():
        ids, weights = (batch[name] for name in features)
        targets.append(ids[weights > 0])
        count += len(targets[-1])
        if count >= enough:
            break
    return np.bincount(np.concatenate(targets), minlength=vocab_size)


def plateau_message(
    validations: Sequence[Mapping[str, Any]], num_updates: int
) -> str | None:
    """Returns a message if the last validation starts or ends a plateau, else None.

    On a plateau, the loss is at most 0.05 below that of a model without context. The
    plateau must include the first validation at or after `num_updates / 10`.
    """
    newest = validations[-1]
    level_name = next((name for name in newest if name.endswith(ENDING)), None)
    late = [row for row in validations if row["updates"] >= num_updates / 10]
    if level_name is None or newest not in late:
        return None
    metric, level = level_name.removesuffix(ENDING), newest[level_name]
    *before, is_on = [row[metric] >= level - _MARGIN for row in late]
    if not all(before) or is_on == bool(before):
        return None
    loss = f"Validation {metric} {newest[metric]:.2f}"
    if is_on:
        return (
            f"{loss}; a model that ignores the context reaches {level:.2f}: see "
            "docs/pretraining.md#plateau"
        )
    return f"{loss}: below the {level:.2f} of a model that ignores the context"
