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
_CHUNK_SIZE = 256


class SquadRunner:
    """A `TaskRunner` of SQuAD, version 1.1 or 2.0.

    Questions and contexts are read as Segatron fine-tunes (section 3.2), for SLM as in
    its section 2.2; windows, training targets and the ranking of answers are those of
    BERT's published code. A window without the answer points at `[CLS]`. Scores are
    those of `seg_tf.tasks.squad.score_answers`; the logs of every epoch have them, and
    the `loss` on the windows of the dev file.

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
        max_rejected_share: float = squad.MAX_REJECTED_SHARE,
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
        sizes = {
            "max_length": max_length,
            "stride": stride,
            "max_question_pieces": max_question_pieces,
        }
        self.sizes = window_sizes(pretrained, **sizes)
        self._sentence_checksum = pretrained.sentence_parameters.checksum
        self._saves_model = save_model
        self._model = ReusableModel(
            lambda seed: SpanExtractor.from_preset(
                pretrained,
                **sizes,
                seed=seed,
                randomly_initialized=randomly_initialized,
            ),
            SpanExtractor.losses_of_pointers,
            dtype_policy,
            optimizer,
        )
        version = task.removeprefix("squad/")
        # Both before encoding, which takes long, because one may be missing.
        self._files = {
            split: squad.read_split(
                data_dir, version, split, most, report, max_rejected_share
            )
            for split, most in (("train", limit), ("dev", dev_limit))
        }
        self._train, dev = (
            make_examples(data, pretrained, self.sizes) for data in self._files.values()
        )
        num_without_window = count_without_window(self._files["train"], self._train)
        for what, data, examples in zip(
            ("trained on", "scored on"),
            self._files.values(),
            (self._train, dev),
            strict=True,
        ):
            num_cut = int(np.count_nonzero(examples.questions.is_cut))
            cut = f" ({num_cut:,} questions too long, and cut)" if num_cut else ""
            report(
                f"{task}: {what} {len(examples.questions.contexts):,} questions in "
                f"{len(examples):,} windows of {data.source}{cut}"
            )
        report(
            f"{task}: {num_without_window:,} answers to train on are in no window as a "
            "whole, and count as no answer"
        )
        self._rank = AnswerRanker(
            dev,
            [question.identifier for question in self._files["dev"].questions()],
            has_null=self._files["dev"].has_impossible,
            max_answer_pieces=max_answer_pieces,
        )
        self.num_examples = len(self._train.questions.contexts)
        questions = self._files["dev"].questions()
        never = {question.identifier: "" for question in questions}
        self.baseline = squad.score_texts(self._files["dev"], never)

    def describe(self) -> dict[str, Any]:
        """Checksums of the files, and how texts are read."""
        checksums = {
            split: hashlib.sha256(
                repr(data.passages).encode("utf-8", "replace")
            ).hexdigest()
            for split, data in self._files.items()
        }
        return {
            **checksums,
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
            return {"loss": loss, **squad.score_answers(self._files["dev"], answers)}

        model = self._model.train(
            self._train.batches(setting.batch_size, with_labels=True, seed=seed),
            seed,
            setting.learning_rate,
            setting.epochs,
            [DevScores(score), *callbacks],
        )
        if self._saves_model:
            model.save_to_preset(folder / MODEL_FOLDER)
        # Again, because a callback may have restored the weights of another epoch.
        answers, _ = self._rank(model)
        scores = squad.score_answers(self._files["dev"], answers)
        squad.write_predictions(folder, answers, scores.get("null_threshold", 0.0))
        return scores


def make_examples(
    data: SquadFile, pretrained: Pretrained, sizes: WindowSizes
) -> SpanExamples:
    """The windows of all questions of a file, and the first answer to each.

    Raises:
        ValueError: if a context has no word piece.
    """
    passages = [passage for passage in data.passages if passage.questions]
    encoder = GraphContextEncoder(pretrained)
    contexts, questions = [], []
    with tf.device("CPU"):
        for begin in range(0, len(passages), _CHUNK_SIZE):
            chunk = passages[begin : begin + _CHUNK_SIZE]
            texts = [
                utf8(question.text)
                for passage in chunk
                for question in passage.questions
            ]
            contexts.append(
                encoder.contexts(
                    tf.constant([utf8(passage.context) for passage in chunk])
                )
            )
            questions.append(
                encoder.questions(tf.constant(texts), sizes.max_question_pieces)
            )
        joined = Contexts.joined(contexts)
        numbers = np.repeat(
            np.arange(len(passages)), [len(passage.questions) for passage in passages]
        )
        joined_questions = Questions(
            tf.concat([chunk.pieces for chunk in questions], axis=0),
            tf.constant(numbers, tf.int32),
            tf.concat([chunk.is_cut for chunk in questions], axis=0),
        )
        for number in np.flatnonzero(joined.num_pieces() == 0):
            passage = passages[number]
            raise ValueError(
                "A context must have a word piece. Received: that of question "
                f"{passage.questions[0].identifier!r}, {passage.context[:60]!r}"
            )
        # Several answers: train on the first.
        answers = [
            (*question.answers, Answer("", 0))[0] for question in data.questions()
        ]
        first, last = joined.spans(
            joined_questions.contexts,
            tf.constant([answer.start for answer in answers], tf.int32),
            tf.constant([answer.stop for answer in answers], tf.int32),
        )
    spans = first.numpy(), last.numpy()
    return SpanExamples(pretrained, joined, joined_questions, sizes, spans)


def count_without_window(data: SquadFile, examples: SpanExamples) -> int:
    """Questions with an answer that no window holds as a whole."""
    windows = examples.windows
    first, last = (values.numpy() for values in examples.answers)
    first, last = first[windows.questions], last[windows.questions]
    is_whole = (windows.starts <= first) & (first <= last) & (last < windows.stops)
    num_whole = len(np.unique(windows.questions[is_whole]))
    return sum(bool(question.answers) for question in data.questions()) - num_whole
