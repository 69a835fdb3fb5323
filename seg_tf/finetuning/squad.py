"""Runs trials of SQuAD 1.1 and 2.0."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.optimizer import BERT_SETTINGS, ReusableModel
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.spans import AnswerRanker, SpanExamples
from seg_tf.finetuning.trials import MODEL_FOLDER, Callbacks, DevScores, Result, Trial
from seg_tf.preprocessing import window_sizes
from seg_tf.tasks import squad
from seg_tf.tasks.finetuning_settings import OptimizerSettings

TASKS = ("squad/v1.1", "squad/v2.0")


class SquadRunner:
    """A `TaskRunner` for SQuAD 1.1 and 2.0.

    Rows are laid out as in Segatron (section 3.2) or SLM (section 2.2). Windows,
    training targets and the ranking of answers follow BERT's published code. The target
    of a window without the whole answer is `[CLS]`. The scores are computed by
    `seg_tf.tasks.squad.score_answers`. The logs of every epoch contain the scores and
    the `loss` on the dev windows.

    `task` is "squad/v1.1" or "squad/v2.0". `dev_limit` is the maximum number of dev
    questions. Errors are those of `seg_tf.tasks.squad.read_split` and `SpanExamples`.
    Other arguments are as for `ClassificationRunner`.
    """

    main_metric = "f1"

    def __init__(
        self,
        pretrained: Pretrained,
        task: str,
        data_dir: str | pathlib.Path,
        *,
        limit: int | None = None,
        dev_limit: int | None = None,
        save_model: bool = False,
        dtype_policy: str | None = None,
        optimizer: OptimizerSettings = BERT_SETTINGS,
        report: Callable[[str], Any] = print,
        max_length: int | None = None,
        randomly_initialized: bool = False,
    ):
        self.name = task
        window_sizes(pretrained, max_length=max_length)  # raises if there are none
        self._sentence_checksum = pretrained.sentence_parameters.checksum
        self._saves_model = save_model
        self._model = ReusableModel(
            lambda seed: SpanExtractor.from_preset(
                pretrained,
                max_length=max_length,
                seed=seed,
                randomly_initialized=randomly_initialized,
            ),
            SpanExtractor.losses_of_pointers,
            dtype_policy,
            optimizer,
        )
        version = task.removeprefix("squad/")
        # Read both files before the slow encoding, because one may be missing.
        train = squad.read_split(data_dir, version, "train", limit, report)
        dev = squad.read_split(data_dir, version, "dev", dev_limit, report)
        self._train, self._dev = (
            SpanExamples(pretrained, data, max_length=max_length)
            for data in (train, dev)
        )
        for what, examples in (("trained", self._train), ("scored", self._dev)):
            num_cut = int(np.count_nonzero(examples.questions.is_cut))
            report(
                f"{task}: {what} on {len(examples.questions.contexts):,} questions "
                f"({num_cut:,} of them truncated) in {len(examples):,} windows of "
                f"{examples.data.source}"
            )
        self._rank = AnswerRanker(self._dev)
        self.num_examples = len(self._train.questions.contexts)
        never = {question.identifier: "" for question in dev.questions()}
        self.baselines = {"without a model": squad.evaluate(dev, never)}

    def describe(self) -> dict[str, Any]:
        """Returns checksums of the data and sentence splitter, and the window sizes."""
        checksums = {
            split: hashlib.sha256(
                repr(examples.data.passages).encode("utf-8", "replace")
            ).hexdigest()
            for split, examples in (("train", self._train), ("dev", self._dev))
        }
        return {
            **checksums,
            "windows": dataclasses.asdict(self._train.sizes),
            "sentence_splitter": self._sentence_checksum,
        }

    def run(
        self, trial: Trial, folder: pathlib.Path, callbacks: Callbacks = ()
    ) -> Result:
        """Runs a trial. See `TaskRunner.run`.

        Writes the model, if requested, and, like BERT's code, `predictions.json`,
        `nbest_predictions.json` and, for version 2.0, `null_odds.json`.
        """

        def score(model: keras.Model) -> dict[str, float]:
            answers, loss = self._rank(model)
            return {"loss": loss, **squad.score_answers(self._dev.data, answers)}

        model, epochs = self._model.train(
            self._train.batches(trial.setting.batch_size, trial.seed),
            trial,
            [DevScores(score), *callbacks],
        )
        if self._saves_model:
            model.save_to_preset(folder / MODEL_FOLDER)
        # Score again, because a callback may have restored weights of another epoch.
        answers, _ = self._rank(model)
        scores = squad.score_answers(self._dev.data, answers)
        squad.write_predictions(folder, answers, scores.get("null_threshold", 0.0))
        return scores, epochs
