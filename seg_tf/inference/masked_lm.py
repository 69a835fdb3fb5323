"""Fills masks and scores sentences with a masked language model.

Shape key: B masked rows, L row length, D width, V vocabulary.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference.row_encoder import make_row
from seg_tf.inference.texts import check_texts, split_text
from seg_tf.interop import FromPreset, weights
from seg_tf.layouts.rows import Example, Segment, num_pieces
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.tasks.blimp import MinimalPair
from seg_tf.text.vocabulary import MASK

_TOKENS_PER_BATCH = 16_384


def _trained_objective(pretrained: Pretrained) -> MaskedLM:
    objective: MaskedLM = pretrained.objective(
        MaskedLM, "a model that was pretrained to predict masked word pieces"
    )
    if not weights.has_trained_head(pretrained):
        raise ValueError(
            "`checkpoint` must have a trained masked-LM head. Received: "
            f"{pretrained.folder}, the run {pretrained.config.name!r}, whose head has "
            "new weights because the imported model has no head. Pretrain it first, "
            "with `seg-tf pretrain --initial_checkpoint`"
        )
    return objective


class SentenceScorer(FromPreset):
    """Scores sentences by pseudo-log-likelihood (Salazar et al., 2020, equation 1).

    Each word piece in turn is replaced by `[MASK]`. The score is the sum of the log
    probabilities of the masked pieces. Each sentence has a separate row.

    Args:
        pretrained: a model pretrained on windows with `MaskedLM`. Other models, and
            imported weights without a trained masked-LM head, raise a ValueError.

    Example:
    ```
    scorer = SentenceScorer.from_preset("bert_mini_en")
    scorer.score(["The cats sleep.", "The cats sleeps."])  # [-9.1, -17.4]
    ```
    """

    def __init__(self, pretrained: Pretrained):
        objective = _trained_objective(pretrained)
        self._layout = pretrained.layout()
        if not self._layout.holds_spans:
            raise ValueError(
                "`checkpoint` must be of an encoder that reads windows. Received: "
                f"{pretrained.folder}, the run {pretrained.config.name!r}"
            )
        self._encode = pretrained.text_encoder().encode
        encoder, mask_id = pretrained.encoder, pretrained.vocabulary.mask_id
        self._names = encoder.feature_names

        @tf.function(autograph=False, reduce_retracing=True)
        def log_probabilities(
            features: Mapping[str, tf.Tensor], positions_B: tf.Tensor
        ) -> tf.Tensor:
            ids_BL = features["token_ids"]
            places_B2 = tf.stack([tf.range(tf.shape(ids_BL)[0]), positions_B], axis=1)
            masked_BL = tf.tensor_scatter_nd_update(
                ids_BL, places_B2, tf.fill(tf.shape(positions_B), mask_id)
            )
            sequence_BLD = encoder({**features, "token_ids": masked_BL}, training=False)
            logits_B1V = objective.logits(sequence_BLD, positions_B[:, tf.newaxis])
            return tf.gather_nd(
                tf.nn.log_softmax(tf.cast(logits_B1V[:, 0], tf.float32)),
                tf.gather_nd(ids_BL, places_B2)[:, tf.newaxis],
                batch_dims=1,
            )

        self._log_probabilities = log_probabilities

    def score(
        self, sentences: Sequence[str], on_progress: Callable[[int], Any] = bool
    ) -> np.ndarray:
        """Returns a float64 array: the pseudo-log-likelihood of each sentence in nats.

        `on_progress` is called with the number of masked rows in each finished batch.
        Raises a ValueError if a sentence is empty or does not fit into a row.
        """
        ids, lengths = self._encode(sentences)
        for sentence, length in zip(sentences, lengths.tolist(), strict=True):
            if not 0 < length <= self._layout.capacity(1):
                raise ValueError(
                    f"`sentences` must have 1 to {self._layout.capacity(1)} word "
                    f"pieces. Received: {sentence[:60]!r}, with {length}"
                )
        examples = [
            (Segment(pieces),) for pieces in np.split(ids, np.cumsum(lengths)[:-1])
        ]
        # Batches contain sentences of equal length, so each length is compiled once.
        shapes = list(map(self._layout.row_shape, examples))
        scores = np.zeros(len(sentences))
        for shape in sorted(set(shapes)):
            rows = [
                (number, position)
                for number, example in enumerate(examples)
                if shapes[number] == shape
                for start in self._layout.piece_starts(example).tolist()
                for position in range(start, start + len(example[0].pieces))
            ]
            size = max(1, _TOKENS_PER_BATCH // shape[0])
            for begin in range(0, len(rows), size):
                numbers, positions = zip(*rows[begin : begin + size], strict=True)
                batch = [examples[number] for number in numbers]
                laid_out = self._layout.lay_out(batch, shape)
                features = {name: tf.constant(laid_out[name]) for name in self._names}
                values = self._log_probabilities(features, tf.constant(positions))
                np.add.at(scores, list(numbers), values.numpy().astype(np.float64))
                on_progress(len(numbers))
        return scores

    def count(self, sentences: Sequence[str]) -> int:
        """Returns the number of rows that `score` masks, one for each word piece."""
        return int(self._encode(sentences)[1].sum())


def evaluate_minimal_pairs(
    scorer: SentenceScorer,
    pairs: Sequence[MinimalPair],
    on_progress: Callable[[int], Any] = bool,
) -> dict[str, float]:
    """Computes how often the grammatical sentence of a pair has the higher score.

    Ties count as half, so a model that scores all sentences equally has accuracy 0.5.
    `on_progress` is passed to `SentenceScorer.score`. Returns a dict with the accuracy
    of each phenomenon and field, and "accuracy", the mean over phenomena (Warstadt et
    al., 2020, section 4).
    """
    sentences = [text for pair in pairs for text in (pair.good, pair.bad)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(sentences))}
    scores = scorer.score(list(numbers), on_progress)
    correct: Mapping[str, list[float]] = defaultdict(list)
    for pair in pairs:
        difference = scores[numbers[pair.good]] - scores[numbers[pair.bad]]
        correct[pair.phenomenon].append(0.5 + 0.5 * float(np.sign(difference)))
    accuracies = {name: float(np.mean(values)) for name, values in correct.items()}
    fields: Mapping[str, list[float]] = defaultdict(list)
    for phenomenon, field in {pair.phenomenon: pair.field for pair in pairs}.items():
        fields[field].append(accuracies[phenomenon])
    return {
        "accuracy": float(np.mean(list(accuracies.values()))),
        **{name: float(np.mean(values)) for name, values in sorted(fields.items())},
        **accuracies,
    }


class Filling(NamedTuple):
    """A candidate word piece for a mask, and its predicted probability."""

    piece: str
    probability: float


class MaskFiller(FromPreset):
    """Predicts the word piece at each `[MASK]` of a text (Devlin et al., 2018).

    Args:
        pretrained: a model pretrained with `MaskedLM`. Other models, and imported
            weights without a trained masked-LM head, raise a ValueError.

    Example:
    ```
    filler = MaskFiller.from_preset("runs/segabert_base")
    filler.predict(["He opened the [MASK] and went in."])
    ```
    """

    def __init__(self, pretrained: Pretrained):
        self._objective = _trained_objective(pretrained)
        self._layout = pretrained.layout()
        self._encoder = pretrained.encoder
        self._vocabulary = pretrained.vocabulary
        self._splitter = pretrained.splitter()
        self._encode = pretrained.text_encoder().encode

    def predict(
        self, texts: Sequence[str], num_best: int = 5
    ) -> list[list[list[Filling]]]:
        """Returns the `num_best` most probable pieces for each mask of each text.

        The result is indexed by text, mask and rank. Texts are encoded in one batch,
        and each line is a paragraph. Raises a ValueError if `texts` is empty, or if a
        text has no `[MASK]` or is too long.
        """
        examples = [self._example(text) for text in check_texts(texts, "texts")]
        shapes = zip(*map(self._layout.row_shape, examples), strict=True)
        batch = self._layout.lay_out(examples, tuple(map(max, shapes)))
        is_mask = batch["token_ids"] == self._vocabulary.mask_id
        # Masked positions first, in text order, which ReAT's blocks do not have.
        counts = is_mask.sum(axis=1)
        sentences = batch.get("sentence_number", np.zeros_like(is_mask))
        ranks = np.where(is_mask, sentences, np.inf)
        positions = np.argsort(ranks, axis=1, kind="stable")[:, : counts.max()]
        features = {name: batch[name] for name in self._encoder.feature_names}
        logits = self._objective.logits(
            self._encoder(features, training=False), positions.astype(np.int32)
        )
        best = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), num_best)
        values, ids = best.values.numpy(), best.indices.numpy()
        tokens_of = self._vocabulary.tokens_of
        return [
            [
                list(
                    map(Filling, tokens_of(ids[row, mask]), values[row, mask].tolist())
                )
                for mask in range(count)
            ]
            for row, count in enumerate(counts)
        ]

    def _example(self, text: str) -> Example:
        if MASK not in text:
            raise ValueError(f"`texts` must each hold a {MASK}. Received: {text!r}")
        sentences = split_text(text, self._splitter)
        pieces = []
        for sentence in sentences:
            ids, lengths = self._encode(sentence.text.split(MASK))
            masks = np.cumsum(lengths)[:-1]
            pieces.append(np.insert(ids, masks, self._vocabulary.mask_id))
        example = make_row(pieces, [sentence.paragraph for sentence in sentences])
        capacity = self._layout.text_capacity
        most = capacity.num_sentences or len(example)
        if num_pieces(example) > capacity.num_pieces or len(example) > most:
            raise ValueError(
                f"`texts` must each have at most {capacity.num_pieces} word pieces and "
                f"{most} sentences. Received: {num_pieces(example)} pieces in "
                f"{len(example)} sentences: {text[:60]!r}…"
            )
        return example
