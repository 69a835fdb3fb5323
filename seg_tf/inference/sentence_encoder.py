"""Vectors of texts, sentences, paragraphs and spans, in the context of their document.

Shape key: B rows, L row length, S sentences of a row, R rows of texts, T texts of a
row, N passages, D width.
"""

import dataclasses
import functools
import hashlib
import json
import pathlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import copy_encoder, seeded
from seg_tf.checkpoints.pretrained import MadeOfPretrained, Pretrained
from seg_tf.export import saved_model
from seg_tf.export.served_encoder import ServedEncoder
from seg_tf.inference.corpus import cosine_warning, mean_cosine, unit_vectors
from seg_tf.inference.examples import (
    even_rows,
    locate_pieces,
    make_example,
    overlapping_rows,
    renumbered,
    split_long,
    text_examples,
)
from seg_tf.inference.texts import Sentence, check_texts, split_text
from seg_tf.layouts.layout import Features
from seg_tf.layouts.rows import Example, Segment, trees_of
from seg_tf.ops.gathering import mean_vectors
from seg_tf.preprocessing.text_preprocessor import DocumentPreprocessor
from seg_tf.text.graph.trees import Trees, largest

_TOKENS_PER_BATCH = 8_192
_PIECES = "pieces"
# (sequence output `(B, L, D)`, features) -> a tensor `(B, …)`, or a tuple of them.
Compute = Callable[[tf.Tensor, Features], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSentences:
    """The sentences of a text, each in the context of all.

    Attributes:
        sentences: S sentences, unchanged, as many as the model reads of the text.
        vectors: float32 array `(S, D)`.
        is_cut: whether the text goes on.
    """

    sentences: tuple[str, ...]
    vectors: np.ndarray
    is_cut: bool


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedDocument:
    """The sentences of a document of any length, encoded.

    Attributes:
        vectors: float32 array `(S, D)`.
        num_parts: number of sentences, counting each part of a long one.
        num_positions: positions in the model's rows, without padding.
        num_passes: rows, which do not see each other.
    """

    vectors: np.ndarray
    num_parts: int
    num_positions: int
    num_passes: int


class SentenceEncoder(MadeOfPretrained):
    """Encodes texts with a pretrained encoder, laid out as in pretraining.

    All texts are encoded without dropout. Rows of similar length share a batch. Apart
    from rounding, a vector does not depend on the other rows of its batch.

    There are three kinds of `vectors`:

    * "mean": the mean of the last layer's outputs at the word pieces, 0 if there are
      none. A ReAT has "sent" in place of it;
    * "cls": the output at `[CLS]`, one vector for each row (all but ReAT);
    * "sent": the output at a sentence's `[SENT]` (SLM), or pooled at its `<SS>` (ReAT).

    Args:
        pretrained: what `load_pretrained` returned. It is not modified.
        max_length: maximum number of positions of a row; None uses that of pretraining.
        randomly_initialized: whether to draw new weights, as a baseline.
        seed: seed of the new weights.
        tokens_per_batch: approximate number of positions of a batch.

    Attributes:
        layout: layout of the rows.

    Raises:
        ValueError: if the checkpoint is of no encoder of texts.

    Example:
    ```
    encoder = SentenceEncoder.from_preset("runs/segabert_base")
    encoder.encode(["One text.", "Another."])  # (2, D)
    encoder.encode_sentences(["One sentence. Another."])[0].vectors  # (2, D)
    encoder.encode_passages(article)  # (number of paragraphs, D)
    encoder.encode_passages(article, spans=[(0, 80), (80, 200)])  # (2, D)
    ```
    """

    def __init__(
        self,
        pretrained: Pretrained,
        *,
        max_length: int | None = None,
        randomly_initialized: bool = False,
        seed: int = 0,
        tokens_per_batch: int = _TOKENS_PER_BATCH,
    ):
        self._pretrained = pretrained
        self.layout = pretrained.layout(max_length)
        self._splitter = pretrained.splitter()
        self._word_pieces = pretrained.text_encoder()
        self._tokens_per_batch = tokens_per_batch
        with seeded(seed):
            self._encoder = copy_encoder(
                pretrained, randomly_initialized=randomly_initialized
            )
        self._functions: dict[str, Callable] = {}

    def describe(self) -> dict[str, Any]:
        """Returns the settings that vectors depend on, in addition to the texts."""
        config = {
            name: value
            for name, value in self._encoder.get_config().items()
            if name not in ("name", "trainable")
        }
        checksum = hashlib.sha256(
            json.dumps(config, sort_keys=True, default=str).encode()
        )
        for weight in self._encoder.get_weights():
            checksum.update(np.ascontiguousarray(weight).tobytes())
        return {
            "max_length": self.layout.max_length,
            "tokenizer": self._pretrained.tokenizer,
            **self._pretrained.normalization.described(),
            "vocab_sha256": self._pretrained.vocabulary.checksum,
            "dtype_policy": self._encoder.dtype_policy.name,
            "encoder_sha256": checksum.hexdigest(),
        }

    # === Texts ===

    def encode(self, texts: Sequence[str], vectors: str = "mean") -> np.ndarray:
        """Encodes texts into one vector each.

        Warns if the cosines of the vectors hardly distinguish the texts.

        Args:
            texts: at least one; a line of a text is a paragraph. A text longer than a
                row is read up to the last sentence that fits.
            vectors: "mean", "cls" or "sent", the mean over the sentences.

        Returns:
            float32 array `(number of texts, D)`; 0 for the mean of a text without a
            word piece.

        Raises:
            ValueError: if there is no text, or the model has no such vectors.
        """
        kind = self.vector_kind(vectors)
        texts = check_texts(texts, "texts")
        rows = [example for _, example, _ in self._read_texts(texts)]
        encoded = []
        for example, found in zip(rows, self.encode_examples(rows, kind), strict=True):
            lengths = np.array([len(segment.pieces) for segment in example])
            weights = lengths if kind == "mean" else lengths > 0
            weights = np.ones(1) if kind == "cls" else weights / max(weights.sum(), 1)
            encoded.append(weights.astype(np.float32) @ found)
        vectors_of_texts = np.stack(encoded)
        _warn_of_equal_directions(vectors_of_texts)
        return vectors_of_texts

    def encode_sentences(self, texts: Sequence[str]) -> list[EncodedSentences]:
        """Encodes the sentences of texts, as SLM and ReAT were trained to.

        The vectors are "sent" if the model has them, else "mean".

        Args:
            texts: as for `encode`.

        Raises:
            ValueError: if there is no text.
        """
        beginnings = self._read_texts(check_texts(texts, "texts"))
        rows = self.encode_examples([example for _, example, _ in beginnings])
        encoded = [
            EncodedSentences(sentences, vectors[: len(sentences)], is_cut)
            for (sentences, _, is_cut), vectors in zip(beginnings, rows, strict=True)
        ]
        _warn_of_equal_directions(np.concatenate([one.vectors for one in encoded]))
        return encoded

    def encode_document(
        self, sentences: Sequence[str], paragraphs: Sequence[int] | None = None
    ) -> EncodedDocument:
        """Encodes the sentences of a document of any length.

        A sentence too long for the model is encoded in parts, whose vectors are
        averaged. A document that does not fit in a row is read in a few rows of similar
        length, which do not see each other.

        Args:
            sentences: at least one, in order.
            paragraphs: paragraph of each sentence, from 0, rising; None means one
                paragraph.
        """
        pieces = self._spell(sentences)
        if paragraphs is None:
            paragraphs = [0] * len(pieces)
        segments, is_start = split_long(
            make_example(pieces, paragraphs), self.layout.longest_part
        )
        rows = [
            segments[begin:end]
            for begin, end in even_rows(self.layout, segments, is_start)
        ]
        vectors = np.concatenate(self.encode_examples(rows))
        firsts = np.flatnonzero(is_start)
        counts = np.diff(np.append(firsts, len(segments)))
        sums = np.add.reduceat(vectors, firsts, axis=0)
        return EncodedDocument(
            vectors=sums / counts[:, np.newaxis].astype(np.float32),
            num_parts=len(segments),
            num_positions=sum(map(self.layout.num_tokens, rows)),
            num_passes=len(rows),
        )

    def encode_passages(
        self, document: str, spans: Sequence[tuple[int, int]] | None = None
    ) -> np.ndarray:
        """Encodes passages of a document, each in the context of the whole document.

        Unlike the vector of a passage that is encoded alone, these know what its
        pronouns and headings refer to ("late chunking", Günther et al., 2024): the
        document is encoded first, and the outputs at the word pieces of each passage
        are averaged. A ReAT averages the vectors of the sentences that overlap it.

        A document that does not fit in a row is read in overlapping rows; each piece
        takes its output from the row in which it is farther from the ends.

        Args:
            document: a text whose lines are paragraphs.
            spans: start and stop of each passage in `document`, in characters. They
                may overlap. A word belongs to every span that overlaps it. None encodes
                the paragraphs: the lines that are not blank.

        Returns:
            float32 array `(N, D)`; 0 for a passage without a word piece.

        Raises:
            ValueError: if there is no sentence, or a span is not within the document.
        """
        if spans is None:
            lines = re.finditer(r"[^\n]+", document)
            spans = [line.span() for line in lines if line[0].strip()]
        for number, (start, stop) in enumerate(spans):
            if not 0 <= start < stop <= len(document):
                raise ValueError(
                    "`spans` must lie within the document and not be empty. Received: "
                    f"spans[{number}]={(start, stop)}, for {len(document)} characters"
                )
        example, bounds = locate_pieces(document, self._splitter, self._word_pieces)
        segments, _ = split_long(example, self.layout.longest_part)
        outputs, bounds = self._outputs(segments, bounds)
        vectors = np.zeros((len(spans), outputs.shape[1]), np.float32)
        for number, (start, stop) in enumerate(spans):
            first = np.searchsorted(bounds[:, 1], start, side="right")
            last = np.searchsorted(bounds[:, 0], stop, side="left")
            if first < last:
                vectors[number] = outputs[first:last].mean(axis=0)
        return vectors

    def _outputs(
        self, segments: Sequence[Segment], bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Outputs at the pieces of a document, or of a ReAT's sentences, and bounds.

        Args:
            segments: the document, in order.
            bounds: int array `(number of pieces, 2)`, start and stop of the word of
                each piece.
        """
        windows = overlapping_rows(self.layout, segments)
        rows = [segments[begin:end] for begin, end in windows]
        ends = np.cumsum([len(segment.pieces) for segment in segments])
        if self.layout.holds_spans:
            encoded = [
                sequence[is_piece] for sequence, is_piece in self._run(_PIECES, rows)
            ]
            firsts = np.append(0, ends)
        else:
            encoded = self.encode_examples(rows)
            starts = np.append(0, ends[:-1])
            bounds = np.stack([bounds[starts, 0], bounds[ends - 1, 1]], axis=1)
            firsts = np.arange(len(segments) + 1)
        parts, first = [], 0
        for number, (begin, end) in enumerate(windows):
            # Each row provides its half of an overlap.
            is_last = number + 1 == len(windows)
            last = end if is_last else (windows[number + 1][0] + end + 1) // 2
            here = firsts[[first, last]] - firsts[begin]
            parts.append(encoded[number][here[0] : here[1]])
            first = last
        return np.concatenate(parts), bounds

    def encode_in_context(
        self,
        groups: Sequence[Sequence[Sentence]],
        vectors: str | None = None,
        on_progress: Callable[[int], Any] = bool,
    ) -> tuple[np.ndarray, int]:
        """Encodes sentences, each together with the sentences before it (SLM, 5.3).

        A sentence that does not fit in a row is cut. Sentences before it are left out,
        the farthest first, until the others fit.

        Args:
            groups: for each sentence its context, then the sentence.
            vectors: "mean" or "sent"; None is "sent" if the model has it.
            on_progress: called with the number of sentences of each batch.

        Returns:
            float32 array `(number of groups, D)` of vectors of length 1, and how many
            sentences were cut.
        """
        unique = {id(one): one for group in groups for one in group}
        spelled = self._spell([one.text for one in unique.values()])
        pieces = dict(zip(unique, spelled, strict=True))
        longest = self.layout.capacity(1)
        rows, num_cut = [], 0
        for group in groups:
            ids = [pieces[id(one)] for one in group]
            num_cut += len(ids[-1]) > longest
            ids[-1] = ids[-1][:longest]
            paragraphs = [one.paragraph for one in group]
            candidates = (
                make_example(ids[first:], paragraphs[first:])
                for first in range(len(group))
            )
            rows.append(
                next(
                    row for row in candidates if len(row) == 1 or self.layout.fits(row)
                )
            )
        encoded = self.encode_examples(rows, vectors, on_progress)
        return unit_vectors(np.stack([one[-1] for one in encoded])), num_cut

    def encode_rows(
        self,
        rows: Sequence[tuple[str, ...]],
        vectors: str | None = None,
        on_progress: Callable[[int], Any] = bool,
    ) -> tuple[np.ndarray, int]:
        """Encodes rows of texts as in fine-tuning: each text is one sentence.

        Args:
            rows: at least one, each of T texts.
            vectors: as for `encode_examples`.
            on_progress: called with the number of rows of each batch.

        Returns:
            float32 array `(R, T, D)`, and how many rows were too long and cut.
        """
        examples, num_cut = text_examples(
            self._word_pieces, rows, self.layout.capacity(len(rows[0]))
        )
        return np.stack(self.encode_examples(examples, vectors, on_progress)), num_cut

    # === Rows ===

    def vector_kind(self, vectors: str | None = None) -> str:
        """Returns the kind that the model has for `vectors`; None is its default.

        Raises:
            ValueError: if the model has no such vectors.
        """
        has_pieces = self.layout.holds_spans
        has_sent = self.layout.sent_id is not None or not has_pieces
        kinds = {
            "mean": "mean" if has_pieces else "sent",
            **({"cls": "cls"} if has_pieces else {}),
            **({"sent": "sent"} if has_sent else {}),
        }
        if vectors is None:
            vectors = "sent" if has_sent else "mean"
        if vectors not in kinds:
            raise ValueError(
                f"`vectors` of this model must be one of {', '.join(kinds)}. Received: "
                f"{vectors!r}"
            )
        return kinds[vectors]

    def encode_examples(
        self,
        examples: Sequence[Example],
        vectors: str | None = None,
        on_progress: Callable[[int], Any] = bool,
    ) -> list[np.ndarray]:
        """Encodes rows of word pieces.

        Args:
            examples: rows, each of which fits.
            vectors: "mean", "cls" or "sent"; None is "sent" if the model has it.
            on_progress: called with the number of rows of each batch.

        Returns:
            For each row a float32 array `(S, D)`, or `(1, D)` for "cls".
        """
        kind = self.vector_kind(vectors)
        outputs = self._run(kind, examples, on_progress)
        if kind == "cls":
            return [vectors for (vectors,) in outputs]
        resized = []
        for example, (rows,) in zip(examples, outputs, strict=True):
            # Sentences after the last one with a piece may have no column.
            missing = max(0, len(example) - len(rows))
            resized.append(np.pad(rows, [(0, missing), (0, 0)])[: len(example)])
        return resized

    def compile(self, compute: Compute) -> Callable[..., list[tuple[np.ndarray, ...]]]:
        """Compiles a function of rows, for any number and any lengths.

        Args:
            compute: maps the encoder's output, float32 `(B, L, D)`, and the features of
                the rows to a tensor `(B, …)` or a tuple of tensors.

        Returns:
            Function from examples, and optionally `on_progress`, which is called with
            the number of rows of each batch, to a tuple of arrays for each example.
        """

        def run(fields: dict[str, tf.Tensor]) -> Any:
            features = self.layout.rows(Trees(**fields))
            sequence = self._encoder(features, training=False)
            return compute(tf.cast(sequence, tf.float32), features)

        signature = {
            field.name: tf.TensorSpec([None, None], tf.int32)
            for field in dataclasses.fields(Trees)
        }
        signature["num_sentences"] = tf.TensorSpec([None], tf.int32)
        # Concrete: TensorFlow warns if functions with the same code are traced again
        # and again.
        graph = tf.function(
            run, input_signature=[signature], autograph=False
        ).get_concrete_function()

        def call(
            examples: Sequence[Example], on_progress: Callable[[int], Any] = bool
        ) -> list[tuple[np.ndarray, ...]]:
            results: list[tuple[np.ndarray, ...]] = [()] * len(examples)
            for numbers in self._batches(examples):
                batch = [examples[number] for number in numbers]
                trees = trees_of(batch, max(map(len, batch)))
                tensors = tf.nest.flatten(graph(vars(trees)))
                arrays = [tensor.numpy() for tensor in tensors]
                for number, *of_row in zip(numbers, *arrays, strict=True):
                    results[number] = tuple(of_row)
                on_progress(len(numbers))
            return results

        return call

    def _run(
        self,
        kind: str,
        examples: Sequence[Example],
        on_progress: Callable[[int], Any] = bool,
    ) -> list[tuple[np.ndarray, ...]]:
        """Outputs of a kind, by a function that is compiled once."""

        def compute(sequence: tf.Tensor, features: Features) -> Any:
            if kind == "cls":
                return sequence[:, :1]
            if kind == "sent":
                return self.layout.sentence_vectors(self._encoder, sequence, features)[
                    0
                ]
            number = features["sentence_number"]
            if kind == _PIECES:
                return sequence, number > 0
            return mean_vectors(sequence, number, largest(number))[0]

        if kind not in self._functions:
            self._functions[kind] = self.compile(compute)
        return self._functions[kind](examples, on_progress)

    def _batches(self, examples: Sequence[Example]) -> Iterator[np.ndarray]:
        """Numbers of the rows of each batch, shortest rows first."""
        lengths = np.array([self.layout.num_tokens(example) for example in examples])
        order = np.argsort(lengths, kind="stable")
        begin = 0
        for end in range(1, 1 + len(order)):
            is_last = end == len(order)
            if (
                is_last
                or (end + 1 - begin) * lengths[order[end]] > self._tokens_per_batch
            ):
                yield order[begin:end]
                begin = end

    def _spell(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Word pieces of each text."""
        ids, lengths = self._word_pieces.encode(texts)
        return np.split(ids, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def _read_texts(
        self, texts: Sequence[str]
    ) -> list[tuple[tuple[str, ...], Example, bool]]:
        """Sentences and row of the beginning of each text, and whether it is cut.

        As in records, sentences and paragraphs without a piece are left out.
        """
        split = [split_text(text, self._splitter) for text in texts]
        spelled = iter(self._spell([one.text for text in split for one in text]))
        capacity = self.layout.text_capacity
        beginnings = []
        for text in split:
            pairs = [
                (sentence, ids)
                for sentence, ids in zip(text, spelled, strict=False)
                if len(ids)
            ]
            lengths = np.array([len(ids) for _, ids in pairs], int)
            count = int(np.sum(np.cumsum(lengths) <= capacity.num_pieces))
            if pairs and not count:
                count, pairs[0] = 1, (pairs[0][0], pairs[0][1][: capacity.num_pieces])
            parts = np.array([len(ids) for _, ids in pairs[:count]], int)
            parts = -(-parts // (capacity.longest_part or capacity.num_pieces))
            if capacity.num_sentences is not None:
                count = int(np.sum(np.cumsum(parts) <= capacity.num_sentences))
            pairs = pairs[:count]
            example = make_example(
                [ids for _, ids in pairs],
                renumbered([sentence.paragraph for sentence, _ in pairs]),
            )
            beginnings.append(
                (
                    tuple(sentence.text for sentence, _ in pairs),
                    example or (Segment(np.zeros(0, np.int32)),),
                    sum(len(ids) for _, ids in pairs) < lengths.sum(),
                )
            )
        return beginnings

    # === SavedModels ===

    @functools.cached_property
    def preprocessor(self) -> DocumentPreprocessor:
        """Turns documents into rows in a graph, also for `tf.data`."""
        return DocumentPreprocessor(self._pretrained)

    @functools.cached_property
    def _served(self) -> ServedEncoder:
        return ServedEncoder(self._pretrained, self.preprocessor)

    def predict(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the outputs of `seg_tf.export.served_encoder.ServedEncoder`.

        Args:
            texts: at least one, encoded in one batch; a line of a text is a paragraph.

        Raises:
            ValueError: if there is no text, or an item is not a text.
        """
        texts = check_texts(texts, "texts")
        outputs = self._served.functions["serving_default"](tf.constant(texts))
        return {name: values.numpy() for name, values in outputs.items()}

    def export(
        self,
        folder: str | pathlib.Path,
        overwrite: bool = False,
        formats: Sequence[str] = (saved_model.SAVED_MODEL,),
    ) -> None:
        """Writes a SavedModel.

        Args:
            folder: a new folder.
            overwrite: whether to replace an exported model in `folder`.
            formats: "saved_model", "onnx" (`seg_tf.export.onnx_file`) or both.

        Raises:
            ValueError: if `folder` contains anything else.
        """
        capacity = self.preprocessor.layout.text_capacity
        saved_model.write(
            self._served,
            pathlib.Path(folder),
            self._pretrained,
            {
                "most_pieces": capacity.num_pieces,
                "most_sentences": capacity.num_sentences,
            },
            overwrite=overwrite,
            formats=formats,
        )


def _warn_of_equal_directions(vectors: np.ndarray) -> None:
    if warning := cosine_warning(mean_cosine([unit_vectors(vectors)])):
        warnings.warn(warning, stacklevel=3)
