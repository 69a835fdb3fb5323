"""Encodes texts, sentences and passages as vectors with a pretrained encoder.

Shape key: N texts, S sentences, P passages, T texts per row, D width.
"""

import bisect
import dataclasses
import functools
import pathlib
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seg_tf.checkpoints.encoder_copies import copy_encoder, seeded
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.export import saved_model
from seg_tf.export.served import ServedEncoder
from seg_tf.inference import row_encoder
from seg_tf.inference.attention import first_window
from seg_tf.inference.row_encoder import RowEncoder, make_row
from seg_tf.inference.texts import Sentence, check_texts, split_text
from seg_tf.interop import FromPreset
from seg_tf.layouts.rows import Example, Segment, num_pieces
from seg_tf.preprocessing import DocumentPreprocessor, cut_longest
from seg_tf.text.tree import TreeBuilder
from seg_tf.text.word_pieces import PieceOffsets

CLS, MEAN, SENT = "cls", "mean", "sent"
# "mean" vectors of 4,000 sentences of Wikipedia, books or C4 stay below 0.82. Useless
# [SENT] vectors start at 0.98 (the included models).
_MAX_MEAN_COSINE = 0.95
# Fewer sentences may really be similar.
_MIN_VECTORS = 10
_LINE = re.compile(r"[^\n]*\S[^\n]*")


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedText:
    """The sentences of a text, encoded in the context of the text.

    Attributes:
        sentences: S sentences.
        vectors: float32 array `(S, D)`. "mean" is 0 if a sentence has no word pieces.
        num_passes: number of rows. Sentences attend only to sentences in the same row.
    """

    sentences: tuple[str, ...]
    vectors: np.ndarray
    num_passes: int


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedPassages:
    """Passages of a document, encoded in the context of the document.

    Attributes:
        spans: P pairs of start and stop characters.
        vectors: float32 array `(P, D)`. A passage without word pieces has the vector 0.
    """

    spans: tuple[tuple[int, int], ...]
    vectors: np.ndarray


class SentenceEncoder(FromPreset):
    r"""Encodes texts, their sentences and passages with a pretrained encoder.

    Rows are laid out as in pretraining, so sentences are encoded in the context of
    their text. Each line of a text is a paragraph. There are three kinds of `vectors`:

    * "mean": the mean of the outputs at the word pieces (all models except ReAT);
    * "sent": the output at a sentence's `[SENT]` (SLM) or its pooled `<SS>` (ReAT), the
      default for sentences of these models;
    * "cls": the output at a row's `[CLS]` (all models except ReAT), which only `encode`
      and `encode_rows` accept.

    Methods raise a ValueError if the model lacks the kind or `texts` is empty. `encode`
    and `encode_sentences` warn if cosines hardly distinguish 10 or more vectors.

    Args:
        pretrained: a `Pretrained` text encoder, to be copied. Others raise ValueError.
        max_length: int. Maximum row length. If None, the length used in pretraining.
        randomly_initialized: bool. Whether to replace the encoder's weights by random
            weights, as a baseline that shows the effect of pretraining.
        seed: int. Seed of the random weights.

    Attributes:
        layout: layout of the rows.
        encoder: the copy of the encoder, a Keras model.

    Example:
    ```
    encoder = SentenceEncoder.from_preset("runs/segabert_base")
    encoder.encode(["One text.", "Another."])  # (2, D)
    encoder.encode_sentences(["One sentence. Another."])[0].vectors  # (2, D)
    encoder.encode_passages("A paragraph.\nThe next one.").vectors  # (2, D)
    ```
    """

    def __init__(
        self,
        pretrained: Pretrained,
        *,
        max_length: int | None = None,
        randomly_initialized: bool = False,
        seed: int = 0,
    ):
        self.layout = pretrained.layout(max_length)
        self._splitter = pretrained.splitter()
        self._encode_pieces = pretrained.text_encoder().encode
        with seeded(seed):
            self.encoder = copy_encoder(
                pretrained, randomly_initialized=randomly_initialized
            )
        self._pretrained = dataclasses.replace(pretrained, encoder=self.encoder)
        has_pieces = self.layout.holds_spans
        has_sent = self.layout.sent_id is not None or not has_pieces
        # The first is the default for sentences.
        self._kinds = [SENT] * has_sent + [MEAN, CLS] * has_pieces
        computes = {
            MEAN: row_encoder.means_of_pieces,
            CLS: lambda encoder, sequence, features: [sequence[:, :1]],
            SENT: lambda encoder, sequence, features: [
                self.layout.sentence_vectors(encoder, sequence, features)[0]
            ],
            # The output at every position, and its segment number, from 1.
            "pieces": lambda encoder, sequence, features: [
                sequence,
                features["sentence_number"],
            ],
        }
        self._rows = functools.cache(
            lambda kind: RowEncoder(self.encoder, self.layout, computes[kind])
        )

    def choose_vectors(
        self, vectors: str | None = None, *, allow_cls: bool = False
    ) -> str:
        """Returns `vectors` or, if it is None, the model's default kind of vectors.

        The default is "sent" for SLM and ReAT, otherwise "mean" ("cls" if `allow_cls`).
        Raises a ValueError if the model lacks the kind, or if "cls" is not allowed.
        """
        known = [kind for kind in self._kinds if allow_cls or kind != CLS]
        if vectors is None:
            return CLS if allow_cls and known[0] == MEAN else known[0]
        if vectors not in known:
            raise ValueError(
                f"`vectors` of this model must be one of {', '.join(known)}. Received: "
                f"{vectors!r}"
            )
        return vectors

    def encode(self, texts: Sequence[str], vectors: str = MEAN) -> np.ndarray:
        """Encodes each text as one vector. Returns a float32 array `(N, D)`.

        A text that is longer than a row is truncated to the sentences that fit. "sent"
        and, for ReAT, "mean" are the mean of the sentence vectors. A text without word
        pieces has the vector 0, except for "cls".
        """
        texts = check_texts(texts, "texts")
        if vectors == MEAN and MEAN not in self._kinds:
            vectors = SENT
        vectors = self.choose_vectors(vectors, allow_cls=True)
        builder = TreeBuilder(self._splitter.split, self._encode_pieces)
        examples = []
        for tree in builder.build([text.split("\n") for text in texts]):
            if len(tree.token_ids):
                tree = first_window(tree, self.layout.text_capacity)
            pieces = np.split(tree.token_ids, np.cumsum(tree.sentence_lengths)[:-1])
            # A text without word pieces becomes an empty sentence.
            paragraphs = tree.paragraph_of_sentence.tolist() or [0]
            examples.append(make_row(pieces, paragraphs))
        encoded = []
        for example, row in zip(
            examples, self._encode_rows(examples, vectors), strict=True
        ):
            if vectors == CLS:
                encoded.append(row[0])
            elif not num_pieces(example):
                encoded.append(np.zeros_like(row[0]))
            else:
                lengths = [len(segment.pieces) for segment in example]
                weights = lengths if vectors == MEAN else None
                encoded.append(np.average(row, axis=0, weights=weights))
        _warn_if_alike(encoded := np.array(encoded, np.float32))
        return encoded

    def encode_sentences(
        self, texts: Sequence[str], vectors: str | None = None
    ) -> list[EncodedText]:
        """Encodes the sentences of each text in context. Returns one result per text.

        A text that does not fit into a row is split into several rows, which do not
        attend to each other. Overlong sentences are split, and their vectors averaged.
        """
        documents = [
            split_text(text, self._splitter) for text in check_texts(texts, "texts")
        ]
        encoded = self.encode_documents(documents, vectors)
        _warn_if_alike(np.concatenate([text.vectors for text in encoded]))
        return encoded

    def encode_documents(
        self, documents: Sequence[Sequence[Sentence]], vectors: str | None = None
    ) -> list[EncodedText]:
        """Encodes documents of sentences like `encode_sentences`, without a warning."""
        laid_out = [self._stretches(sentences) for sentences in documents]
        examples = [example for stretches, _ in laid_out for example in stretches]
        rows = iter(self._encode_rows(examples, self.choose_vectors(vectors)))
        encoded = []
        for sentences, (stretches, is_first) in zip(documents, laid_out, strict=True):
            means = np.zeros((0, self.encoder.output.shape[-1]), np.float32)
            if sentences:
                parts = np.concatenate([next(rows) for _ in stretches])
                firsts = np.flatnonzero(is_first)
                counts = np.diff(firsts, append=len(parts)).astype(np.float32)
                means = np.add.reduceat(parts, firsts, axis=0) / counts[:, np.newaxis]
            encoded.append(
                EncodedText(
                    tuple(sentence.text for sentence in sentences),
                    means,
                    num_passes=len(stretches),
                )
            )
        return encoded

    def encode_passages(
        self, document: str, spans: Iterable[tuple[int, int]] | None = None
    ) -> EncodedPassages:
        """Encodes passages of a document in the context of the document.

        The whole document is encoded as in `encode_sentences`. Then the outputs at the
        word pieces of each passage are averaged ("late chunking", Günther et al., 2024,
        section 3). For ReAT, the vector of a passage is the mean of the vectors of the
        sentences that overlap it. `spans` are pairs of start and stop characters. If
        None, the passages are the paragraphs. Raises a ValueError if a span is empty or
        not inside the document, or if there are no spans or sentences.
        """
        (document,) = check_texts([document], "document")
        if spans is None:
            spans = [match.span() for match in _LINE.finditer(document)]
        spans = [(int(begin), int(end)) for begin, end in spans]
        for number, (begin, end) in enumerate(spans):
            if not 0 <= begin < end <= len(document):
                raise ValueError(
                    f"`spans` must be inside the document, of {len(document):,} "
                    f"characters. Received: spans[{number}]={(begin, end)}"
                )
        sentences = split_text(document, self._splitter)
        if not sentences or not spans:
            raise ValueError("`document` and `spans` must not be empty")
        begins = _places(document, sentences)
        if MEAN in self._kinds:
            offsets = PieceOffsets(
                self._pretrained.vocabulary, self._pretrained.normalization
            )
            places = []
            for first, sentence in zip(begins, sentences, strict=True):
                _, *spans_of_pieces = offsets.encode(sentence.text)
                places.append([first + place for place in spans_of_pieces])
            starts, stops = map(np.concatenate, zip(*places, strict=True))
            stretches, _ = self._stretches(sentences)
            vectors = np.concatenate(
                [row[number > 0] for row, number in self._rows("pieces")(stretches)]
            )
        else:
            starts = np.array(begins)
            stops = starts + [len(sentence.text) for sentence in sentences]
            vectors = self.encode_documents([sentences])[0].vectors
        encoded = np.zeros((len(spans), vectors.shape[1]), np.float32)
        for number, (begin, end) in enumerate(spans):
            is_inside = (starts < end) & (stops > begin)
            if is_inside.any():
                encoded[number] = vectors[is_inside].mean(axis=0)
        return EncodedPassages(tuple(spans), encoded)

    def encode_in_context(
        self, groups: Sequence[Sequence[Sentence]], vectors: str | None = None
    ) -> tuple[np.ndarray, int]:
        """Encodes the last sentence of each group in the context of the group.

        See SLM, section 5.3. If a group does not fit into a row, its first sentences
        are dropped. If the last sentence alone does not fit, it is truncated. Returns
        float32 unit vectors `(groups, D)`, and the number of truncated sentences.
        """
        pieces = iter(self._spell([sentence for group in groups for sentence in group]))
        longest, num_cut, examples = self.layout.capacity(1), 0, []
        for group in groups:
            spelled = [next(pieces) for _ in group]
            paragraphs = [sentence.paragraph for sentence in group]
            num_cut += len(spelled[-1]) > longest
            spelled[-1] = spelled[-1][:longest]
            while not self.layout.fits(example := make_row(spelled, paragraphs)):
                del spelled[0], paragraphs[0]
            examples.append(example)
        rows = self._encode_rows(examples, self.choose_vectors(vectors))
        return normalize(np.array([row[-1] for row in rows])), num_cut

    def encode_rows(
        self,
        rows: Sequence[tuple[str, ...]],
        vectors: str | None = None,
        on_progress: Callable[[int], Any] = bool,
    ) -> tuple[np.ndarray, int]:
        """Encodes rows of T texts, laid out as in fine-tuning.

        Each text is a paragraph of one sentence (Segatron, sections 2.3 and 3.2). If a
        row is too long, its longest texts are truncated. Models without "sent" use
        "cls" by default, which requires T = 1. `on_progress` is called with the number
        of rows in each batch. Returns a float32 array `(rows, T, D)`, and the number of
        truncated rows.
        """
        num_texts = len(rows[0])
        vectors = self.choose_vectors(vectors, allow_cls=num_texts == 1)
        pieces, lengths = self._encode_pieces([text for row in rows for text in row])
        spelled = np.split(pieces, np.cumsum(lengths)[:-1])
        lengths = np.asarray(lengths, np.int32).reshape(len(rows), num_texts)
        with tf.device("CPU"):
            room = self.layout.capacity(num_texts)
            short = cut_longest(tf.constant(lengths), room).numpy()
        examples = [
            tuple(
                Segment(spelled[row * num_texts + text][:length], text, paragraph=text)
                for text, length in enumerate(lengths_of_row)
            )
            for row, lengths_of_row in enumerate(short.tolist())
        ]
        encoded = self._encode_rows(examples, vectors, on_progress)
        return np.array(encoded), int((short < lengths).any(axis=1).sum())

    # === SavedModel ===

    @functools.cached_property
    def _served(self) -> ServedEncoder:
        preprocessor = DocumentPreprocessor(self._pretrained, self.layout)
        return ServedEncoder(self._pretrained, preprocessor)

    def predict(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the `serving_default` outputs of the model that `export` saves."""
        texts = check_texts(texts, "texts")
        outputs = self._served.functions["serving_default"](tf.constant(texts))
        return {name: values.numpy() for name, values in outputs.items()}

    def export(
        self,
        folder: str | pathlib.Path,
        overwrite: bool = False,
        formats: Sequence[str] = (saved_model.SAVED_MODEL,),
    ) -> None:
        """Exports a model that accepts text. See `seg_tf.export.saved_model.write`."""
        capacity = self.layout.text_capacity
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

    # === Rows ===

    def _spell(self, sentences: Iterable[Sentence]) -> list[np.ndarray]:
        ids, lengths = self._encode_pieces([sentence.text for sentence in sentences])
        return np.split(ids, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def _stretches(
        self, sentences: Sequence[Sentence]
    ) -> tuple[list[Example], np.ndarray]:
        """Returns a document's rows, and a mask of the parts that begin a sentence.

        A part is a sentence, or a fraction of one that is too long for the model. Rows
        are few and of similar length. Where possible, they do not split sentences.
        """
        if not sentences:
            return [], np.zeros(0, bool)
        lines = [(sentence.document, sentence.paragraph) for sentence in sentences]
        _, paragraphs = np.unique(lines, axis=0, return_inverse=True)
        parts: list[Segment] = []
        for segment in make_row(self._spell(sentences), paragraphs.ravel().tolist()):
            num_parts = max(1, -(-len(segment.pieces) // self.layout.longest_part))
            first_token = 0
            for ids in np.array_split(segment.pieces, num_parts):
                parts.append(
                    dataclasses.replace(segment, pieces=ids, first_token=first_token)
                )
                first_token += len(ids)
        is_first = np.array([part.first_token == 0 for part in parts])
        firsts = np.append(np.flatnonzero(is_first), len(parts))
        stretches, begin = [], 0
        while begin < len(parts):
            left = len(parts) - begin
            # Each part has at least one position.
            most = 1 + bisect.bisect_left(
                range(2, min(left, self.layout.max_length) + 1),
                True,
                key=lambda count: not self.layout.fits(parts[begin : begin + count]),
            )
            end = begin - (-left // -(-left // most))
            ends = firsts[(firsts > begin) & (firsts <= end)]
            end = int(ends[-1]) if len(ends) else end
            stretches.append(parts[begin:end])
            begin = end
        return stretches, is_first

    def _encode_rows(
        self,
        examples: Sequence[Example],
        kind: str,
        on_progress: Callable[[int], Any] = bool,
    ) -> list[np.ndarray]:
        """Returns `(segments, D)` for each example, 0 at trailing empty segments."""
        return [
            np.pad(row, [(0, max(0, len(example) - len(row))), (0, 0)])[: len(example)]
            for example, (row,) in zip(
                examples, self._rows(kind)(examples, on_progress), strict=True
            )
        ]


def _places(document: str, sentences: Sequence[Sentence]) -> list[int]:
    places, end = [], 0
    for sentence in sentences:
        begin = document.find(sentence.text, end)
        if begin < 0:
            raise ValueError(
                "The sentence function of the model must return parts of the text. "
                f"Received: {sentence.text!r}"
            )
        places.append(begin)
        end = begin + len(sentence.text)
    return places


# === Cosines ===


def normalize(vectors: np.ndarray) -> np.ndarray:
    """Divides vectors `(N, D)` by their norms. Zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def mean_cosine(vectors: np.ndarray) -> float | None:
    """Returns the mean cosine of all pairs of unit vectors `(N, D)`, None if N < 10."""
    count = len(vectors)
    if count < _MIN_VECTORS:
        return None
    # The squared norm of the sum counts each vector with itself and each pair twice.
    total = np.sum(vectors, axis=0, dtype=np.float64)
    squares = float(np.vdot(vectors, vectors))
    return (float(total @ total) - squares) / (count * (count - 1))


def cosine_warning(mean: float | None) -> str | None:
    """Returns a warning if the mean cosine is at least 0.95, and otherwise None."""
    if mean is None or mean < _MAX_MEAN_COSINE:
        return None
    return (
        f"Any two of these vectors have a cosine of {mean:.4f} on average. Their "
        "cosines hardly distinguish one text from another, and the nearest may well be "
        'unrelated. Choose the vectors "mean", or another model'
    )


def _warn_if_alike(vectors: np.ndarray) -> None:
    if warning := cosine_warning(mean_cosine(normalize(vectors))):
        warnings.warn(warning, stacklevel=3)
