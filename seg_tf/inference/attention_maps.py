"""Attention weights of a pretrained encoder on a text, and where they go.

Shape key: K layers, H heads, L positions.
"""

import dataclasses
from collections.abc import Mapping

import keras
import numpy as np

from seg_tf.inference.text_windows import TextWindow
from seg_tf.models.encoder import Encoder

# The name of the mean over the heads.
MEAN = "mean"
# Names of the shares of a word piece's attention.
SAME_SENTENCE = "same_sentence"
SAME_PARAGRAPH = "same_paragraph"
SPECIAL_TOKENS = "special_tokens"


@dataclasses.dataclass(frozen=True)
class HeadChoice:
    """A layer's head, or the mean over all of them.

    Attributes:
        layer: from 0.
        head: from 0; None is the mean.
    """

    layer: int
    head: int | None = None

    @property
    def head_name(self) -> str:
        """The head's number, or "mean"."""
        return MEAN if self.head is None else str(self.head)


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention weights of each position of a text, in every layer and head.

    Attributes:
        weights: float32 `(K, H, L, L)`; `weights[layer, head, query, key]`, and the
            weights of a query sum to 1.
        window: the text.
    """

    weights: np.ndarray
    window: TextWindow

    def has(self, choice: HeadChoice) -> bool:
        """Returns True if there are such a layer and head."""
        num_layers, num_heads = self.weights.shape[:2]
        return 0 <= choice.layer < num_layers and 0 <= (choice.head or 0) < num_heads

    def map(self, choice: HeadChoice) -> np.ndarray:
        """The weights of a head, or the mean of a layer's: `(L, L)`."""
        of_layer = self.weights[choice.layer]
        return of_layer.mean(axis=0) if choice.head is None else of_layer[choice.head]


def attention_maps(encoder: Encoder, window: TextWindow) -> AttentionMaps:
    """Attention weights of all layers and heads on a text (Segatron, section 4.5).

    They are those that the encoder's own layers compute, in their precision, without
    dropout.

    Args:
        encoder: with its weights.
        window: the text, laid out for it.
    """
    layers = encoder.transformer_layers
    inputs_of_layers = keras.Model(encoder.input, [one.input for one in layers])
    weights = [
        layer.attention_weights(*inputs)
        for layer, inputs in zip(
            layers, inputs_of_layers(dict(window.features), training=False), strict=True
        )
    ]
    return AttentionMaps(
        np.stack([np.asarray(one[0], "float32") for one in weights]), window
    )


def attention_shares(
    weights: np.ndarray, window: TextWindow
) -> Mapping[str, np.ndarray]:
    """Average shares of the word pieces' attention, by its target.

    Special tokens do not count as queries, and as keys they belong to no sentence. What
    is left of 1 goes to other paragraphs.

    Args:
        weights: `(…, L, L)`, whose rows sum to 1.
        window: the text.

    Returns:
        Shares `(…)` of the word pieces' attention: `same_sentence` goes to pieces of
        their own sentence, `same_paragraph` to those of their own paragraph, that
        sentence included, and `special_tokens` to `[CLS]`, `[SEP]` and the like.
    """
    is_piece = window.is_piece
    weights = weights[..., is_piece, :].astype("float64")
    goes_to = {
        name: (numbers[is_piece][:, np.newaxis] == numbers) & is_piece
        for name, numbers in (
            (SAME_SENTENCE, window.sentences),
            (SAME_PARAGRAPH, window.paragraphs),
        )
    }
    goes_to[SPECIAL_TOKENS] = np.broadcast_to(~is_piece, weights.shape[-2:])
    return {
        name: np.einsum("...qk,qk->...", weights, is_key) / window.num_pieces
        for name, is_key in goes_to.items()
    }


def uniform_shares(window: TextWindow) -> Mapping[str, float]:
    """The same shares if every position attended to all positions alike."""
    length = len(window.tokens)
    shares = attention_shares(np.full((length, length), 1 / length), window)
    return {name: float(share) for name, share in shares.items()}
