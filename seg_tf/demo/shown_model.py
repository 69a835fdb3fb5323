"""Answers of a pretrained model to the page, as values of JSON."""

import base64
import functools
import io
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.inference import (
    attention_maps,
    attention_plots,
    attention_tables,
    text_windows,
    texts,
)
from seg_tf.inference.attention_maps import AttentionMaps, HeadChoice
from seg_tf.inference.ordering import SentenceOrderer
from seg_tf.inference.sentence_encoder import (
    SentenceEncoder,
    cosine_warning,
    mean_cosine,
)
from seg_tf.inference.texts import Sentence

_DOTS_PER_INCH = 160
# As of `find_sentences`.
_CONTEXT_SENTENCES = 1
# Bound the time and memory of an answer: cosines are quadratic.
MAX_CHARACTERS = 50_000
MAX_SENTENCES = 500

EXAMPLE = """\
Charles Babbage was an English mathematician. He wanted to compute tables by steam. \
In 1822 he began work on a machine that he called the difference engine.
It was never finished. The government stopped paying for it. \
He died in 1871 at his home in London."""


class ShownModel:
    """A pretrained encoder, asked by the page.

    Args:
        pretrained: an encoder of texts.

    Attributes:
        reasons: for each part of the page that the model cannot fill, why.

    Raises:
        ValueError: if the checkpoint is of no encoder of texts.
    """

    def __init__(self, pretrained: Pretrained):
        self._pretrained = pretrained
        self._splitter = pretrained.splitter()
        self._layout = pretrained.layout()
        # [SENT] vectors of a model that saw little text are nearly all the same.
        self._vectors = "mean" if self._layout.holds_spans else None
        self._encoder = SentenceEncoder(pretrained)
        self.reasons: dict[str, str] = {}
        self._capacity = self._tried(
            "attention", lambda: text_windows.window_capacity(pretrained)
        )
        self._orderer = self._tried("order", lambda: SentenceOrderer(pretrained))
        # Of the last text: of a base model it is 150 MB.
        self._attention_of = functools.lru_cache(maxsize=1)(self._attention_of)

    def describe(self) -> dict[str, Any]:
        """The model, and what it cannot do."""
        encoder = self._pretrained.encoder
        return {
            "run": self._pretrained.config.name,
            "checkpoint": str(self._pretrained.folder),
            "model": type(encoder).__name__,
            "features": list(encoder.feature_names),
            "layers": 0 if "attention" in self.reasons else encoder.num_layers,
            "heads": 0 if "attention" in self.reasons else encoder.num_heads,
            "reasons": self.reasons,
            "example": EXAMPLE,
        }

    def read(self, text: str) -> dict[str, Any]:
        """Paragraphs of sentences of word pieces.

        Args:
            text: a line is a paragraph.

        Raises:
            ValueError: if `text` is not a string, has no sentence, or is too long.
        """
        sentences = self._sentences(text)
        ids, lengths = self._pretrained.text_encoder().encode(
            [one.text for one in sentences]
        )
        pieces = np.split(ids, np.cumsum(lengths)[:-1])
        vocabulary = self._pretrained.vocabulary
        paragraphs: list[list[dict[str, Any]]] = []
        for sentence, of_sentence in zip(sentences, pieces, strict=True):
            if sentence.paragraph == len(paragraphs):
                paragraphs.append([])
            paragraphs[-1].append(
                {"text": sentence.text, "pieces": vocabulary.tokens_of(of_sentence)}
            )
        return {
            "paragraphs": paragraphs,
            "num_pieces": len(ids),
            "capacity": self._layout.text_capacity.num_pieces,
        }

    def attention(
        self, text: str, layer: int = 0, head: int | None = None
    ) -> dict[str, Any]:
        """Heat map of a head, or of the mean of a layer's, and where it goes.

        Args:
            text: as for `read`; as much of it is read as a row takes.
            layer: from 0.
            head: from 0; None is the mean.

        Raises:
            ValueError: as for `read`, or if there is no such layer or head.
        """
        self._check("attention")
        num_sentences, choice = len(self._sentences(text)), HeadChoice(layer, head)
        maps = self._attention_of(text)
        is_typed = isinstance(layer, int) and isinstance(head, int | None)
        if not (is_typed and maps.has(choice)):
            raise ValueError(
                "`layer` and `head` must be those of the model. Received: "
                f"layer={layer!r}, head={head!r}"
            )
        figure = attention_plots.heat_maps(
            {self._pretrained.config.name: maps}, [choice], ""
        )
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight")
        table = attention_tables.AttentionTable.of(maps, [choice])
        return {
            "image": "data:image/png;base64,"
            + base64.b64encode(drawn.getvalue()).decode(),
            "shares": table.shares[choice],
            "uniform": table.uniform,
            "num_sentences": maps.window.num_sentences,
            "num_sentences_of_text": num_sentences,
        }

    def order(self, text: str, seed: int = 0) -> dict[str, Any]:
        """The sentences of a text, shuffled, and the order that the model finds.

        Args:
            text: as for `read`.
            seed: of the shuffle.

        Raises:
            ValueError: as for `read`, or if `seed` is not an integer.
        """
        self._check("order")
        sentences = self._sentences(text)
        if not isinstance(seed, int):
            raise ValueError(f"`seed` must be an integer. Received: seed={seed!r}")
        numbers = list(range(len(sentences)))
        random.Random(seed).shuffle(numbers)
        # One paragraph: where they were would tell their order.
        shuffled = [Sentence(sentences[number].text, "") for number in numbers]
        (groups,) = self._orderer.order([shuffled])
        return {
            "sentences": [one.text for one in sentences],
            "shuffled": numbers,
            "found": [numbers[place] for group in groups for place in group.order],
            "confidences": [one for group in groups for one in group.confidences],
            "num_groups": len(groups),
        }

    def neighbours(self, text: str) -> dict[str, Any]:
        """Cosines of all sentences of a text, and a warning if they say little.

        A sentence's vector is the mean over its word pieces (ReAT: pooled at `<SS>`).

        Args:
            text: as for `read`.

        Raises:
            ValueError: as for `read`.
        """
        sentences = self._sentences(text)
        in_context = list(texts.in_context(sentences, _CONTEXT_SENTENCES))
        vectors, _ = self._encoder.encode_in_context(in_context, self._vectors)
        cosines = vectors @ vectors.T
        return {
            "sentences": [one.text for one in sentences],
            "cosines": np.round(cosines.astype(float), 4).tolist(),
            "warning": cosine_warning(mean_cosine([vectors])),
        }

    def _attention_of(self, text: str) -> AttentionMaps:
        paragraphs = [line for line in text.split("\n") if line.strip()]
        tree = text_windows.read_tree(paragraphs, self._pretrained, self._splitter)
        beginning = text_windows.first_window(tree, self._capacity)
        window = text_windows.lay_out(beginning, self._pretrained)
        return attention_maps.attention_maps(self._pretrained.encoder, window)

    def _sentences(self, text: str) -> list[Sentence]:
        if not isinstance(text, str):
            raise ValueError(f"`text` must be a string. Received: {text!r:.99}")
        limits = f"at most {MAX_CHARACTERS:,} characters and {MAX_SENTENCES} sentences"
        if len(text) > MAX_CHARACTERS:
            raise ValueError(
                f"`text` must have {limits}. Received: {len(text):,} characters"
            )
        sentences = texts.sentences_of(text, self._splitter)
        if not sentences:
            raise ValueError("`text` must hold a sentence. Received: none")
        if len(sentences) > MAX_SENTENCES:
            raise ValueError(
                f"`text` must have {limits}. Received: {len(sentences):,} sentences"
            )
        return sentences

    def _tried(self, part: str, make: Callable[[], Any]) -> Any:
        """Makes what a part needs; if the model has it not, keeps the reason."""
        try:
            return make()
        except ValueError as error:
            self.reasons[part] = str(error)
            return None

    def _check(self, part: str) -> None:
        if part in self.reasons:
            raise ValueError(self.reasons[part])


def answers(model: ShownModel) -> Mapping[str, Callable[..., dict[str, Any]]]:
    """Questions of the page, by name."""
    return {
        "read": model.read,
        "attention": model.attention,
        "order": model.order,
        "neighbours": model.neighbours,
    }
