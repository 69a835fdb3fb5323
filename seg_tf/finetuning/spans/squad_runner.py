"""Trials of SQuAD: training on windows, answers to the questions of the dev file."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

from seg_tf import command_line
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.classification.dev_scores import DevScores
from seg_tf.finetuning.optimizer import BERT_SETTINGS
from seg_tf.finetuning.reusable_model import ReusableModel
from seg_tf.finetuning.spans.span_extractor import SpanExtractor
from seg_tf.finetuning.spans.squad_predictions import AnswerRanker, WindowPredictor
from seg_tf.finetuning.spans.squad_scores import never_answering, score_answers
from seg_tf.finetuning.spans.squad_splits import (
    MakeProgress,
    SquadSplit,
    make_split,
    read_split,
)
from seg_tf.finetuning.text_task import MODEL_FOLDER
from seg_tf.finetuning.trials.trial import Setting
from seg_tf.preprocessing.window_sizes import window_sizes
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.tasks.squad import answers as squad_answers
from seg_tf.tasks.squad.answers import RankedAnswers
from seg_tf.tasks.squad.squad_files import SquadFile

TASKS = ("squad/v1.1", "squad/v2.0")
# As in BERT's published code.
_MAX_ANSWER_PIECES = 30


class SquadRunner:
    """A `TaskRunner` of SQuAD, version 1.1 or 2.0.

    Questions and contexts are read as Segatron fine-tunes (section 3.2), for SLM as
    its section 2.2 has it; windows, training targets and the ranking of answers are
    those of BERT's published code. A window without the answer points at `[CLS]`.
    Scores are those of `squad_scores.score_answers`; every epoch has them in its logs,
    and the `loss` on the windows of the dev file.

    Args:
        pretrained: the checkpoint: BERT, BERT with P.S., SegaBERT, SLM or a mixture.
        task: "squad/v1.1" or "squad/v2.0".
        data_dir: folder with `train-v1.1.json` and `dev-v1.1.json`, say, or with a
            folder `squad` that holds them. More may stand in their names before
            `.json`.
        limit: train on so many questions, the first of the file; None takes all.
        dev_limit: likewise answer so many.
        max_length: as for `seg_tf.preprocessing.window_sizes`.
        stride: likewise.
        max_question_pieces: likewise.
        max_answer_pieces: the longest answer that is given.
        randomly_initialized: whether the encoder starts from new weights, to see what
            pretraining is worth.
        dtype_policy: as of Keras, such as "mixed_bfloat16"; None takes the one that
            holds.
        save_model: whether every trial keeps its model, in its folder `model`.
        optimizer: its settings beside the learning rate.
        report: called with lines of text: how many questions, and what is out of
            reach.
        progress: makes the bar for the windows of a file.

    Attributes:
        name: the task.
        main_metric: which score chooses among settings.
        baseline: scores of never giving an answer.
        baseline_name: that.
        in_percent: True.
        num_examples: questions trained on.
        sizes: of the windows.

    Raises:
        ValueError: if there is no such task, the model cannot point at answers, or
            files are not as they must be.
        OSError: if a file is missing.
    """

    main_metric = "f1"
    baseline_name = "never an answer"
    in_percent = True

    def __init__(
        self,
        pretrained: Pretrained,
        task: str,
        data_dir: str | os.PathLike,
        *,
        limit: int | None = None,
        dev_limit: int | None = None,
        max_length: int | None = None,
        stride: int | None = None,
        max_question_pieces: int | None = None,
        max_answer_pieces: int = _MAX_ANSWER_PIECES,
        randomly_initialized: bool = False,
        dtype_policy: str | None = None,
        save_model: bool = False,
        optimizer: OptimizerSettings = BERT_SETTINGS,
        report: Callable[[str], Any] = print,
        progress: MakeProgress = command_line.progress_bar,
    ):
        if task not in TASKS:
            raise ValueError(
                f"`task` must be one of {', '.join(TASKS)}. Received: {task!r}"
            )
        self.name = task
        self.sizes = window_sizes(
            pretrained,
            max_length=max_length,
            stride=stride,
            max_question_pieces=max_question_pieces,
        )
        self._pretrained = pretrained
        self._saves_model = save_model
        self._max_answer_pieces = max_answer_pieces
        self._model = ReusableModel(
            lambda seed: SpanExtractor.from_pretrained(
                pretrained,
                max_length=max_length,
                stride=stride,
                max_question_pieces=max_question_pieces,
                seed=seed,
                randomly_initialized=randomly_initialized,
            ),
            SpanExtractor.losses_of_pointers,
            dtype_policy,
            optimizer,
        )

        version = task.removeprefix("squad/")
        # Both before what takes long, for one may be missing.
        files = [
            read_split(data_dir, version, split, most, report)
            for split, most in (("train", limit), ("dev", dev_limit))
        ]
        self._train, self._dev = (
            make_split(data, pretrained, self.sizes, progress) for data in files
        )
        self._report(report)
        self._predict = WindowPredictor(self._dev.examples)
        self._rank = AnswerRanker(
            self._dev.examples,
            [question.identifier for question in self._dev.data.questions()],
            self._dev.contexts(),
            has_null=self._dev.data.has_impossible,
            max_answer_pieces=max_answer_pieces,
        )
        self.num_examples = self._train.num_questions
        self.baseline = never_answering(self._dev.data)

    def describe(self) -> dict[str, Any]:
        """Checksums of the files that the scores of a trial depend on."""
        return {
            "train": _checksum(self._train.data),
            "dev": _checksum(self._dev.data),
            "windows": dataclasses.asdict(self.sizes),
            "sentence_splitter": self._pretrained.sentence_parameters.checksum,
        }

    def run(
        self,
        setting: Setting,
        seed: int,
        folder: pathlib.Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> dict[str, float]:
        """As `TaskRunner.run`.

        Writes `predictions.json`, `nbest_predictions.json` and, for version 2.0,
        `null_odds.json`, as BERT's published code does.

        Raises:
            TrainingDiverged: if it did.
        """
        batches = self._train.examples.batches(
            setting.batch_size, with_labels=True, seed=seed
        )
        callbacks = [DevScores(self._score), *callbacks]
        model = self._model.train(batches, setting, seed, callbacks)
        if self._saves_model:
            model.save_to_preset(folder / MODEL_FOLDER)
        # Once more, for a callback may have gone back to the weights of another epoch.
        answers, _ = self._answer(model)
        scores = score_answers(self._dev.data, answers)
        squad_answers.write_predictions(
            folder, answers, scores.get("null_threshold", 0.0)
        )
        return scores

    def _score(self, model: keras.Model) -> dict[str, float]:
        answers, loss = self._answer(model)
        return {"loss": loss, **score_answers(self._dev.data, answers)}

    def _answer(self, model: keras.Model) -> tuple[list[RankedAnswers], float]:
        """Answers to all questions of the dev file, and the loss there."""
        predictions = self._predict(model)
        return self._rank(predictions), predictions.loss

    def _report(self, report: Callable[[str], Any]) -> None:
        train, dev = self._train, self._dev
        report(
            f"{self.name}: trained on {_count(train)}, of whose answers "
            f"{train.num_without_window():,} are in no window as a whole, so that they "
            "are trained on as if there were none"
        )
        report(
            f"{self.name}: scored on {_count(dev)}, of which "
            f"{dev.num_out_of_reach(self._max_answer_pieces):,} have an answer, but "
            "none that a model could give exactly"
        )


def _count(split: SquadSplit) -> str:
    cut = ""
    if num_cut := split.num_cut_questions():
        cut = f" ({num_cut:,} questions too long, and cut)"
    return (
        f"{split.num_questions:,} questions in {len(split.examples):,} windows of "
        f"{split.data.source}{cut}"
    )


def _checksum(data: SquadFile) -> str:
    """SHA-256 that tells contexts, questions and answers from others."""
    return hashlib.sha256(repr(data.passages).encode("utf-8", "replace")).hexdigest()
