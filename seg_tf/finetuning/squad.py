"""Trials of SQuAD: files as windows, training, answers to the dev questions.

Contexts and questions are encoded by the front end of `SpanExtractor.preprocessor`,
and spans are ranked as in an exported extractor.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.finetuning.batches import utf8
from seg_tf.finetuning.optimizer import BERT_SETTINGS, ReusableModel
from seg_tf.finetuning.span_extractor import SpanExtractor
from seg_tf.finetuning.spans import AnswerRanker, SpanExamples
from seg_tf.finetuning.trials import MODEL_FOLDER, DevScores, Setting
from seg_tf.layouts.contexts import Contexts, Questions, WindowSizes
from seg_tf.preprocessing.span_preprocessor import GraphContextEncoder, window_sizes
from seg_tf.tasks import squad
from seg_tf.tasks.finetuning_settings import OptimizerSettings
from seg_tf.tasks.squad import Answer, SquadFile

TASKS = ("squad/v1.1", "squad/v2.0")
# As in BERT's published code.
_MAX_ANSWER_PIECES = 30
_CONTEXTS_AT_ONCE = 256


class SquadRunner:
    """A `TaskRunner` of SQuAD, version 1.1 or 2.0.

    Questions and contexts are read as Segatron fine-tunes (section 3.2), for SLM as in
    its section 2.2; windows, training targets and the ranking of answers are those of
    BERT's published code. A window without the answer points at `[CLS]`. Scores are
    those of `seg_tf.tasks.squad.score_answers`; every epoch has them in its logs, and
    the `loss` on the windows of the dev file.

    Args:
        pretrained: the checkpoint: BERT, BERT with P.S., SegaBERT, SLM or a mixture.
        task: "squad/v1.1" or "squad/v2.0".
        data_dir: folder with `train-v1.1.json` and `dev-v1.1.json`, say, or with a
            folder `squad` that holds them. Names may continue before `.json`.
        limit: train on the first N questions only; None takes all.
        dev_limit: answer the first N questions only; None answers all.
        max_length: as for `window_sizes`.
        stride: as for `window_sizes`.
        max_question_pieces: as for `window_sizes`.
        max_answer_pieces: the longest answer.
        randomly_initialized: whether the encoder starts from new weights, as a
            baseline.
        dtype_policy: of Keras, such as "mixed_bfloat16"; None takes the current one.
        save_model: whether every trial keeps its model, in its folder `model`.
        optimizer: its settings other than the learning rate.
        report: called with lines of text.

    Raises:
        ValueError: if there is no such task, the model cannot point at answers, or
            files are not valid.
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
    ):
        if task not in TASKS:
            raise ValueError(
                f"`task` must be one of {', '.join(TASKS)}. Received: {task!r}"
            )
        self.name = task
        given = {
            "max_length": max_length,
            "stride": stride,
            "max_question_pieces": max_question_pieces,
        }
        self.sizes = window_sizes(pretrained, **given)
        self._sentence_checksum = pretrained.sentence_parameters.checksum
        self._saves_model = save_model
        self._model = ReusableModel(
            lambda seed: SpanExtractor.from_preset(
                pretrained,
                **given,
                seed=seed,
                randomly_initialized=randomly_initialized,
            ),
            SpanExtractor.losses_of_pointers,
            dtype_policy,
            optimizer,
        )
        version = task.removeprefix("squad/")
        # Both before encoding, which takes long, for one may be missing.
        train, dev = (
            squad.read_split(data_dir, version, split, most, report)
            for split, most in (("train", limit), ("dev", dev_limit))
        )
        self._train_checksum, self._dev_checksum = map(_checksum, (train, dev))
        self._train, self._dev = (
            make_examples(data, pretrained, self.sizes) for data in (train, dev)
        )
        report(
            f"{task}: trained on {_count(train, self._train)}, of whose answers "
            f"{num_without_window(train, self._train):,} are in no window as a whole, "
            "so that they are trained on as if there were none"
        )
        report(f"{task}: scored on {_count(dev, self._dev)}")
        self._dev_data = dev
        self._rank = AnswerRanker(
            self._dev,
            [question.identifier for question in dev.questions()],
            [passage.context for passage in dev.passages if passage.questions],
            has_null=dev.has_impossible,
            max_answer_pieces=max_answer_pieces,
        )
        self.num_examples = len(self._train.questions.contexts)
        self.baseline = squad.score_no_answers(dev)

    def describe(self) -> dict[str, Any]:
        """Checksums of the files, and how texts are read."""
        return {
            "train": self._train_checksum,
            "dev": self._dev_checksum,
            "windows": dataclasses.asdict(self.sizes),
            "sentence_splitter": self._sentence_checksum,
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
        """

        def score(model: keras.Model) -> dict[str, float]:
            answers, loss = self._rank(model)
            return {"loss": loss, **squad.score_answers(self._dev_data, answers)}

        model = self._model.train(
            self._train.batches(setting.batch_size, with_labels=True, seed=seed),
            seed,
            setting.learning_rate,
            setting.epochs,
            [DevScores(score), *callbacks],
        )
        if self._saves_model:
            model.save_to_preset(folder / MODEL_FOLDER)
        # Once more, for a callback may have restored the weights of another epoch.
        answers, _ = self._rank(model)
        scores = squad.score_answers(self._dev_data, answers)
        squad.write_predictions(folder, answers, scores.get("null_threshold", 0.0))
        return scores


def make_examples(
    data: SquadFile, pretrained: Pretrained, sizes: WindowSizes
) -> SpanExamples:
    """The windows of all questions of a file, and the first answer to each.

    Args:
        data: what `squad.read_split` returned.
        pretrained: the model that reads them.
        sizes: of the windows.

    Raises:
        ValueError: if a context has no word piece.
    """
    passages = [passage for passage in data.passages if passage.questions]
    encoder = GraphContextEncoder(pretrained)

    def encode(contexts: tf.Tensor, questions: tf.Tensor) -> tuple[Contexts, Questions]:
        asked = encoder.questions(questions, sizes.max_question_pieces)
        return encoder.contexts(contexts), asked

    contexts, questions, numbers = [], [], []
    for begin in range(0, len(passages), _CONTEXTS_AT_ONCE):
        some = passages[begin : begin + _CONTEXTS_AT_ONCE]
        with tf.device("CPU"):
            of_some, asked = encode(
                tf.constant([utf8(one.context) for one in some]),
                tf.constant([utf8(q.text) for one in some for q in one.questions]),
            )
        contexts.append(of_some)
        questions.append(asked)
        for number, one in enumerate(some, start=begin):
            numbers += [number] * len(one.questions)
    with tf.device("CPU"):
        joined = Contexts.joined(contexts)
        asked = Questions(
            tf.concat([one.pieces for one in questions], axis=0),
            tf.constant(numbers, tf.int32),
            tf.concat([one.is_cut for one in questions], axis=0),
        )
        for number in np.flatnonzero(joined.num_pieces() == 0):
            passage = passages[number]
            raise ValueError(
                "A context must have a word piece. Received: that of question "
                f"{passage.questions[0].identifier!r}, {passage.context[:60]!r}"
            )
        # Of several answers the first is the one to train on.
        answers = [
            question.answers[0] if question.answers else Answer("", 0)
            for question in data.questions()
        ]
        first, last = joined.spans(
            asked.contexts,
            tf.constant([one.start for one in answers], tf.int32),
            tf.constant([one.stop for one in answers], tf.int32),
        )
    spans = first.numpy(), last.numpy()
    return SpanExamples(pretrained, joined, asked, sizes, spans)


def num_without_window(data: SquadFile, examples: SpanExamples) -> int:
    """Questions with an answer that no window holds whole."""
    windows = examples.windows
    first, last = (values.numpy() for values in examples.answers)
    first, last = first[windows.questions], last[windows.questions]
    is_held = (windows.starts <= first) & (first <= last) & (last < windows.stops)
    held = np.unique(windows.questions[is_held])
    return sum(bool(one.answers) for one in data.questions()) - len(held)


def _count(data: SquadFile, examples: SpanExamples) -> str:
    num_cut = int(np.count_nonzero(examples.questions.is_cut))
    cut = f" ({num_cut:,} questions too long, and cut)" if num_cut else ""
    return (
        f"{len(examples.questions.contexts):,} questions in {len(examples):,} windows "
        f"of {data.source}{cut}"
    )


def _checksum(data: SquadFile) -> str:
    """SHA-256 of contexts, questions and answers."""
    return hashlib.sha256(repr(data.passages).encode("utf-8", "replace")).hexdigest()
