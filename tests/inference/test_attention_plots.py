"""Heat maps: what is drawn where, in which colours."""

import numpy as np
import pytest

from seg_tf.inference import attention
from seg_tf.inference.attention import AttentionMaps, TextWindow


def maps_of(sentence_lengths, paragraph_lengths, num_layers=2, num_heads=2, seed=1):
    """Random attention; special tokens count to the first and last sentence."""
    sentences = np.repeat(np.arange(len(sentence_lengths)), sentence_lengths)
    paragraphs = np.repeat(np.arange(len(paragraph_lengths)), paragraph_lengths)
    length = len(sentences)
    window = TextWindow(
        features={},
        tokens=tuple(f"t{number}" for number in range(length)),
        paragraphs=paragraphs[sentences],
        sentences=sentences,
        is_piece=np.ones(length, bool),
    )
    scores = np.random.default_rng(seed).gamma(
        0.3, size=(num_layers, num_heads, length, length)
    )
    weights = scores / scores.sum(axis=-1, keepdims=True)
    return AttentionMaps(weights.astype("float32"), window)


SHORT = ([3, 2, 4], [2, 1])


def panels_of(figure):
    """Axes of heat maps by their title; not those of colour bars."""
    return {axes.get_title(): axes for axes in figure.axes if axes.images}


def starts_of(axes, style):
    """Where horizontal and vertical lines of a style stand."""
    lines = [line for line in axes.get_lines() if line.get_linestyle() == style]
    across = [line.get_ydata()[0] for line in lines if list(line.get_xdata()) == [0, 1]]
    along = [line.get_xdata()[0] for line in lines if list(line.get_ydata()) == [0, 1]]
    assert len(across) + len(along) == len(lines)
    return across, along


def test_panels_show_the_weights_in_common_colours():
    models = {"one": maps_of(*SHORT), "other": maps_of([12], [1], seed=2)}
    figure = attention.heat_maps(models, [0, 1], "a title")
    assert figure.get_suptitle() == "a title"
    panels = panels_of(figure)
    assert len(panels) == 4
    for layer in range(2):
        weights = {
            name: maps.weights[layer].mean(axis=0) for name, maps in models.items()
        }
        both = np.concatenate([one.ravel() for one in weights.values()])
        for name, expected in weights.items():
            (image,) = panels[f"{name}, layer {layer}, mean of heads"].images
            np.testing.assert_array_equal(image.get_array(), expected)
            # Queries from above to below.
            assert image.origin == "upper"
            assert image.get_clim() == pytest.approx((0, np.quantile(both, 0.99)))
        axes = panels[f"one, layer {layer}, mean of heads"]
        # Drawn between the positions 4 and 5, and 2 and 3.
        assert starts_of(axes, "-") == ([4.5], [4.5])
        assert starts_of(axes, "--") == ([2.5], [2.5])
    (legend,) = figure.legends
    texts = {text.get_text() for text in legend.get_texts()}
    assert texts == {"a paragraph begins", "a sentence begins"}


def ticks(sentence_lengths, paragraph_lengths):
    maps = maps_of(sentence_lengths, paragraph_lengths, num_layers=1)
    figure = attention.heat_maps({"one": maps}, [0], "")
    (axes,) = panels_of(figure).values()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [label.get_text() for label in axes.get_yticklabels()]
    assert axes.get_xticks().tolist() == axes.get_yticks().tolist()
    return dict(zip(labels, axes.get_xticks(), strict=True)), axes.get_xlabel()


def test_tokens_stand_at_the_axes_of_short_texts_and_paragraphs_at_those_of_longer():
    found, label = ticks(*SHORT)
    assert found == {f"t{number}": number for number in range(9)}
    assert label == "attended to (tokens)"
    found, label = ticks([20, 30, 10, 1, 39], [1, 3, 1])
    assert found == {"0": 9.5, "1": 40.0, "2": 80.0}
    assert label == "attended to (paragraphs)"
