"""Computes, summarizes and plots a pretrained encoder's attention on a text.

Shape key: K layers, H heads, L positions.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.layouts.layout import TextCapacity
from seg_tf.models.encoder import Encoder
from seg_tf.text.graph.trees import Trees
from seg_tf.text.punkt import Splitter
from seg_tf.text.tree import DocumentTree, TreeBuilder
from seg_tf.text.vocabulary import SENT


@dataclasses.dataclass(frozen=True, eq=False)
class TextWindow:
    """A text laid out as in pretraining, without padding.

    `[CLS]` belongs to the first sentence and paragraph, and `[SEP]` to the last.
    """

    features: Mapping[str, np.ndarray]  # inputs of the encoder, each `(1, L)`
    tokens: tuple[str, ...]  # L tokens, including special tokens
    paragraphs: np.ndarray  # int `(L,)`, paragraph of each token, from 0
    sentences: np.ndarray  # int `(L,)`, sentence of each token, from 0
    is_piece: np.ndarray  # bool `(L,)`, False for special tokens

    def __str__(self) -> str:
        return (
            f"{self.is_piece.sum():,} word pieces in {self.num_sentences:,} sentences, "
            f"{self.num_paragraphs:,} paragraphs"
        )

    @property
    def num_paragraphs(self) -> int:
        return int(self.paragraphs[-1]) + 1

    @property
    def num_sentences(self) -> int:
        return int(self.sentences[-1]) + 1


def window_capacity(pretrained: Pretrained) -> TextCapacity:
    """Returns a window's capacity. Raises ValueError if the model reads no windows."""
    if not isinstance(pretrained.encoder, Encoder):
        raise ValueError(
            "`checkpoint` must be of an encoder that reads windows (BERT, BERT with "
            f"P.S., SegaBERT, SLM). Received: {pretrained.folder}, the run "
            f"{pretrained.config.name!r}, whose model is a "
            f"{type(pretrained.encoder).__name__}"
        )
    return pretrained.layout().text_capacity


def read_tree(
    paragraphs: Sequence[str], pretrained: Pretrained, splitter: Splitter
) -> DocumentTree:
    """Builds a text's tree. Raises ValueError if the text contains no word pieces."""
    encode = pretrained.text_encoder().encode
    (tree,) = TreeBuilder(splitter.split, encode).build([paragraphs])
    if not len(tree.token_ids):
        raise ValueError(
            "`text` must hold a word that the model can read. Received: "
            f"{len(paragraphs)} paragraphs, without"
        )
    return tree


def first_window(tree: DocumentTree, capacity: TextCapacity) -> DocumentTree:
    """Truncates a text to the first sentences that fit in a window.

    If the first sentence alone does not fit, it is truncated.
    """
    ends = np.cumsum(tree.sentence_lengths)
    count = max(int(np.searchsorted(ends, capacity.num_pieces, side="right")), 1)
    if (most := capacity.num_sentences) is not None:
        parts = -(-tree.sentence_lengths // (capacity.longest_part or 1 << 31))
        ends = np.cumsum(np.maximum(parts, 1))
        count = min(count, max(int(np.searchsorted(ends, most, side="right")), 1))
    sentence_lengths = np.array(tree.sentence_lengths[:count])
    sentence_lengths[0] = min(sentence_lengths[0], capacity.num_pieces)
    paragraph_ends = np.minimum(np.cumsum(tree.paragraph_lengths), count)
    paragraph_lengths = np.diff(paragraph_ends, prepend=0)
    return DocumentTree(
        tree.token_ids[: sentence_lengths.sum()],
        sentence_lengths,
        paragraph_lengths[paragraph_lengths > 0],
    )


def lay_out(tree: DocumentTree, pretrained: Pretrained) -> TextWindow:
    """Lays out a text as in pretraining, but unshuffled. It must fit in a window."""
    layout = pretrained.layout()
    features = {
        name: values.numpy()
        for name, values in layout.rows(Trees.of_document(tree)).items()
    }
    features["window_number"] = np.ones_like(features["token_ids"])
    lengths = tree.sentence_lengths + int(layout.sent_id is not None)
    sentences = np.pad(np.repeat(np.arange(len(lengths)), lengths), 1, mode="edge")
    token_ids = features["token_ids"][0]
    tokens = pretrained.vocabulary.tokens_of(token_ids)
    return TextWindow(
        features={name: features[name] for name in pretrained.encoder.feature_names},
        # The vocabulary may have another name for the row of [SENT].
        tokens=tuple(
            SENT if token_id == layout.sent_id else token
            for token_id, token in zip(token_ids, tokens, strict=True)
        ),
        paragraphs=tree.paragraph_of_sentence[sentences],
        sentences=sentences,
        is_piece=features["sentence_number"][0] > 0,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention weights between all positions of a text, in every layer and head.

    Attributes:
        weights: float32 array `(K, H, L, L)`, indexed by layer, head, query and key.
            The weights of each query sum to 1.
        window: the text as laid out for the encoder.
    """

    weights: np.ndarray
    window: TextWindow

    def map(self, layer: int) -> np.ndarray:
        """Returns the mean weights `(L, L)` of a layer's heads."""
        return self.weights[layer].mean(axis=0)

    def uniform(self) -> np.ndarray:
        """Returns the weights `(L, L)` of uniform attention to all positions."""
        length = len(self.window.tokens)
        return np.full((length, length), 1 / length)


def attention_maps(encoder: Encoder, window: TextWindow) -> AttentionMaps:
    """Computes attention weights in all layers and heads (Segatron, section 4.5)."""
    layers = encoder.transformer_layers
    # A dict, because Keras would unwrap a list of one.
    layer_inputs = keras.Model(encoder.input, {one.name: one.input for one in layers})
    inputs = layer_inputs(dict(window.features), training=False)
    weights = [
        np.asarray(layer.attention_weights(*inputs[layer.name])[0], "float32")
        for layer in layers
    ]
    return AttentionMaps(np.stack(weights), window)


def attention_shares(weights: np.ndarray, window: TextWindow) -> dict[str, float]:
    """Computes the fraction of the word pieces' attention that each target receives.

    `weights` is `(L, L)`. The targets are `same_sentence`, `same_paragraph` (including
    the sentence) and `special_tokens`. Other paragraphs receive the rest. Special
    tokens do not count as queries. As keys, they belong to no sentence or paragraph.
    """
    is_piece = window.is_piece
    weights = weights[is_piece].astype("float64")
    targets = {
        name: (numbers[is_piece][:, np.newaxis] == numbers) & is_piece
        for name, numbers in (
            ("same_sentence", window.sentences),
            ("same_paragraph", window.paragraphs),
        )
    }
    targets["special_tokens"] = np.broadcast_to(~is_piece, weights.shape)
    return {
        name: float(weights[is_target].sum() / is_piece.sum())
        for name, is_target in targets.items()
    }


# Weights above this quantile have one color: a few tokens draw nearly all attention.
_BRIGHTEST_QUANTILE = 0.99
_PANEL_INCHES = (4.2, 4.5)
# Height of the titles and color bars, and of the legend.
_OTHER_INCHES = 0.8
# Maximum number of tokens that are legible at the axes.
_MAX_TOKENS_SHOWN = 48
_BOUNDARIES = {
    "paragraph": {"color": "tab:red", "linestyle": "-", "linewidth": 0.9},
    "sentence": {"color": "tab:blue", "linestyle": "--", "linewidth": 0.6},
}


def heat_maps(
    models: Mapping[str, AttentionMaps], layers: Sequence[int], title: str
) -> Figure:
    """Draws the attention of several models on one text (Segatron, figure 3).

    Each row of the figure shows a layer, averaged over its heads. `models` maps names
    to attention maps, one per column. The color scale of a row is from 0 to the 99%
    quantile of its weights.
    """
    height = len(layers) * (_PANEL_INCHES[1] + _OTHER_INCHES) + _OTHER_INCHES
    figure = Figure(
        figsize=(len(models) * _PANEL_INCHES[0], height), layout="compressed"
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    grid = figure.subplots(len(layers), len(models), squeeze=False)
    for layer, row in zip(layers, grid, strict=True):
        weights = [maps.map(layer) for maps in models.values()]
        brightest = np.quantile(
            np.concatenate(list(map(np.ravel, weights))), _BRIGHTEST_QUANTILE
        )
        for axes, name, matrix in zip(row, models, weights, strict=True):
            image = axes.imshow(matrix, cmap="Greys", vmin=0, vmax=brightest)
            axes.set_title(f"{name}, layer {layer}, mean of heads", fontsize="medium")
            _mark_structure(axes, models[name].window)
        bar = figure.colorbar(
            image, ax=row, location="bottom", extend="max", shrink=0.8, aspect=30
        )
        bar.set_label("attention weight (black: the largest 1 %)", fontsize="small")
        bar.ax.tick_params(labelsize="small")
    figure.legend(
        handles=[
            Line2D([], [], **style, label=f"a {name} begins")
            for name, style in _BOUNDARIES.items()
        ],
        loc="outside lower center",
        ncols=len(_BOUNDARIES),
    )
    return figure


def _mark_structure(axes: Axes, window: TextWindow) -> None:
    is_paragraph = np.diff(window.paragraphs) > 0
    is_sentence = (np.diff(window.sentences) > 0) & ~is_paragraph
    for name, starts in (("sentence", is_sentence), ("paragraph", is_paragraph)):
        for start in np.flatnonzero(starts) + 0.5:
            axes.axhline(start, **_BOUNDARIES[name])
            axes.axvline(start, **_BOUNDARIES[name])
    if len(window.tokens) <= _MAX_TOKENS_SHOWN:
        ticks, labels, what = range(len(window.tokens)), window.tokens, "tokens"
    else:
        labels, what = range(window.num_paragraphs), "paragraphs"
        ticks = [np.flatnonzero(window.paragraphs == n).mean() for n in labels]
    axes.set_xticks(ticks, labels, rotation=90, fontsize="x-small")
    axes.set_yticks(ticks, labels, fontsize="x-small")
    axes.set_xlabel(f"attended to ({what})")
    axes.set_ylabel("attending")
