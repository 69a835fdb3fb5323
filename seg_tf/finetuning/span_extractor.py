"""A model for extractive question answering."""

# Shape key: B batch, L row length, D width of the encoder, C candidates.

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from seg_tf.checkpoints.encoder_copies import copy_encoder
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export.served import ServedExtractor
from seg_tf.finetuning.text_task import TextTask
from seg_tf.inference.texts import check_texts
from seg_tf.layers.common import feature_inputs
from seg_tf.ops.attention import gather_vectors
from seg_tf.preprocessing import SpanPreprocessor, window_sizes

# Far below any logit, and finite in every precision.
_IMPOSSIBLE = -1e9

# Settings of a saved task that determine how contexts are split into windows.
_WINDOW_SETTINGS = ("max_length", "stride", "max_question_pieces")


@keras.saving.register_keras_serializable(package="seg_tf")
class SpanExtractor(TextTask):
    """An encoder with pointers to the first and the last word piece of the answer.

    The logit of a position is an affine function of its vector (BERT, section 4.2).
    SLM also points to the answer's sentence, based on the vectors at `[SENT]`, and is
    trained on the sum of the three losses (SLM, section 2.2 and figure 4). Pointing to
    `[CLS]` means that there is no answer.

    Args:
        encoder: `keras.Model` that maps features to a sequence `(B, L, D)`. It becomes
            part of the model and is trained with it.
        points_at_sentences: bool. Whether to add a pointer to sentences.

    Call arguments:
        inputs: dict of the features in `feature_names`: the encoder's features,
            bool `can_answer` `(B, L)` and, for the pointer to sentences, int
            `candidate_positions` and bool `can_hold_answer`, both `(B, C)`.

    Returns:
        Dict of float32 logits `start` and `end` `(B, L)` and, with a pointer to
        sentences, `sentence` `(B, C)`. Logits of impossible positions are -1e9.
    """

    def __init__(
        self,
        encoder: keras.Model,
        points_at_sentences: bool = False,
        name: str | None = None,
        trainable: bool | None = None,
    ):
        # === Layers ===
        def pointer(units: int, name: str) -> keras.layers.Dense:
            initializer = keras.initializers.TruncatedNormal(
                stddev=encoder.initializer_range
            )
            return keras.layers.Dense(
                units, kernel_initializer=initializer, dtype="float32", name=name
            )

        self.encoder = encoder
        self.span_pointer = pointer(2, "span_pointer")
        self.sentence_pointer = None
        if points_at_sentences:
            self.sentence_pointer = pointer(1, "sentence_pointer")

        # === Functional model ===
        names = (*encoder.feature_names, "can_answer")
        if points_at_sentences:
            names += ("candidate_positions", "can_hold_answer")
        inputs = feature_inputs(names)
        sequence_BLD = encoder(inputs)
        logits_BL2 = self.span_pointer(sequence_BLD)

        def masked(logits: Any, is_possible: Any) -> Any:
            return ops.where(ops.cast(is_possible, "bool"), logits, _IMPOSSIBLE)

        outputs = {
            name: masked(logits_BL2[:, :, number], inputs["can_answer"])
            for number, name in enumerate(("start", "end"))
        }
        if points_at_sentences:
            candidates_BCD = gather_vectors(sequence_BLD, inputs["candidate_positions"])
            logits_BC1 = self.sentence_pointer(candidates_BCD)
            outputs["sentence"] = masked(logits_BC1[:, :, 0], inputs["can_hold_answer"])
        super().__init__(inputs=inputs, outputs=outputs, name=name, trainable=trainable)
        self.dtype_policy = encoder.dtype_policy  # determines the loss scaling

        # === Config ===
        self.points_at_sentences = points_at_sentences

    @classmethod
    def from_preset(
        cls,
        folder: str | pathlib.Path | Pretrained,
        *,
        max_length: int | None = None,
        stride: int | None = None,
        max_question_pieces: int | None = None,
        points_at_sentences: bool | None = None,
        randomly_initialized: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
        sentence_function: str | None = None,
    ) -> Self:
        """Creates an extractor from a pretrained encoder, or loads a saved extractor.

        `max_length`, `stride` and `max_question_pieces` are as for `window_sizes`. By
        default, `points_at_sentences` is True for SLM only. Other arguments and errors
        are as for `TextClassifier.from_preset`.
        """
        settings = {
            "max_length": max_length,
            "stride": stride,
            "max_question_pieces": max_question_pieces,
            "points_at_sentences": points_at_sentences,
            "randomly_initialized": randomly_initialized,
            "name": name,
        }
        return cls._load(folder, sentence_function, seed, settings)

    @classmethod
    def _create(
        cls,
        pretrained: Pretrained,
        points_at_sentences: bool | None = None,
        randomly_initialized: bool = False,
        name: str | None = None,
        **sizes: int,
    ) -> Self:
        windows = window_sizes(pretrained, **sizes)
        if points_at_sentences is None:
            points_at_sentences = pretrained.layout().sent_id is not None
        encoder = copy_encoder(pretrained, randomly_initialized=randomly_initialized)
        settings = {name: getattr(windows, name) for name in _WINDOW_SETTINGS}
        return cls(encoder, points_at_sentences, name)._set_origin(
            pretrained, {**settings, "points_at_sentences": points_at_sentences}
        )

    # === Text ===

    @functools.cached_property
    def preprocessor(self) -> SpanPreprocessor:
        """`SpanPreprocessor` that converts questions and contexts to features."""
        pretrained = self.prepared()
        sizes = {name: self.settings[name] for name in _WINDOW_SETTINGS}
        return SpanPreprocessor(pretrained, window_sizes(pretrained, **sizes))

    def answer(
        self, questions: Sequence[str], contexts: Sequence[str], **choice: Any
    ) -> dict[str, np.ndarray]:
        """Answers questions with spans of their contexts.

        Args:
            questions: sequence of one or more questions.
            contexts: one context per question. Each line is a paragraph.
            **choice: `max_answer_pieces`, `num_best` and `null_threshold` of
                `seg_tf.export.served.ServedExtractor`.

        Returns:
            Dict of arrays `(Q,)`: bytes `answer`, its bounds `start` and `end` in
            characters of the context, `score`, and bool `is_cut` (question truncated).
            docs/export.md lists the outputs that `choice` adds.

        Raises:
            ValueError: if the numbers of questions and contexts differ or are 0, or an
                item is not a str.
        """
        questions = check_texts(questions, "questions")
        contexts = check_texts(contexts, "contexts")
        if len(questions) != len(contexts):
            raise ValueError(
                "`contexts` must hold one for each of `questions`. Received: "
                f"{len(contexts)} contexts, {len(questions)} questions"
            )
        function = self._served(**choice).functions["serving_default"]
        outputs = function(tf.constant(questions), tf.constant(contexts))
        return {name: values.numpy() for name, values in outputs.items()}

    @functools.cached_property
    def _served(self) -> Callable[..., ServedExtractor]:
        # Cached, because tracing takes seconds.
        served = functools.partial(ServedExtractor, self, self.preprocessor)
        return functools.cache(served)

    def losses_of_pointers(self) -> dict[str, keras.losses.Loss]:
        """Returns a dict of losses by output name for `compile`, which sums them."""
        make = keras.losses.SparseCategoricalCrossentropy
        return {name: make(from_logits=True) for name in self.output}
