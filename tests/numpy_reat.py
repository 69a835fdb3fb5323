"""ReAT once more in NumPy: figure 2 of the paper, one text after the other."""

# Shape key: N sentences of a text, W positions of a sentence, D hidden size.

from collections.abc import Iterator, Mapping

import numpy as np

from tests.numpy_reference import (
    attention,
    dense,
    feed_forward,
    index_embedding,
    layer_norm,
    part,
    softmax,
    transformer_layer,
)


def texts_of(features: Mapping[str, np.ndarray]) -> Iterator[tuple[int, list]]:
    """The row of each text, and the positions of each of its sentences."""
    for row, text_number in enumerate(features["text_number"]):
        for text in sorted(set(text_number) - {0}):
            numbers = features["sentence_number"][row]
            of_text = sorted(set(numbers[text_number == text]))
            yield row, [np.flatnonzero(numbers == number) for number in of_text]


def sentence_layer(weights, hidden, features, **settings):
    """A transformer layer over each sentence by itself; 0 at padding."""
    weights = part(weights, "transformer_layer")
    outputs = np.zeros_like(hidden)
    for row, numbers in enumerate(features["sentence_number"]):
        for number in set(numbers) - {0}:
            positions = np.flatnonzero(numbers == number)
            sees = np.ones((1, len(positions), len(positions)), bool)
            (outputs[row, positions],) = transformer_layer(
                weights, hidden[row, positions][None], sees, **settings
            )
    return outputs


def alpha_layer(weights, hidden, features, *, epsilon, approximate_gelu):
    """Figure 2, text by text; 0 at padding."""
    settings = {"epsilon": epsilon, "approximate_gelu": approximate_gelu}
    hidden = sentence_layer(
        part(weights, "sentence_layer"), hidden, features, **settings
    )
    outputs = np.zeros_like(hidden)
    for row, sentences in texts_of(features):
        everything = np.concatenate(sentences)
        queries = hidden[row, everything]
        attention_tokens = np.stack([hidden[row, place[1]] for place in sentences])
        sees = np.ones((1, len(queries), len(attention_tokens)), bool)
        (mixed,) = attention(
            part(weights, "mixing"), queries[None], attention_tokens[None], sees
        )
        mixed = layer_norm(part(weights, "mixing_layer_norm"), queries + mixed, epsilon)
        outputs[row, everything] = feed_forward(weights, mixed, **settings)
    return outputs


def reat(weights, features, *, num_sentence_layers, num_alpha_layers, **settings):
    """The whole model without dropout: vectors `(B, L, D)`, 0 at padding."""
    hidden = weights["token_embedding/embeddings"][features["token_ids"]]
    hidden = hidden + index_embedding(part(weights, "position_embedding"), features)
    hidden = layer_norm(
        part(weights, "embeddings_layer_norm"), hidden, settings["epsilon"]
    )
    for layer in range(num_sentence_layers):
        hidden = sentence_layer(
            part(weights, f"sentence_layer_{layer}"), hidden, features, **settings
        )
    hidden = dense(part(weights, "affine"), hidden)
    hidden = hidden + index_embedding(
        part(weights, "sentence_position_embedding"), features
    )
    for layer in range(num_alpha_layers):
        hidden = alpha_layer(
            part(weights, f"alpha_layer_{layer}"), hidden, features, **settings
        )
    return hidden


def pooled(weights, sequence, features):
    """tanh(W x + b) of every `<SS>`; 0 where there is no sentence."""
    gathered = np.stack(
        [row[at] for row, at in zip(sequence, features["sentence_starts"], strict=True)]
    )
    vectors = np.tanh(dense(part(weights, "pooler"), gathered))
    return vectors * features["sentence_mask"][..., None]


def exchange_sentence(logits, is_moved, can_move):
    """Loss and metrics of exchange sentence prediction, sentence by sentence."""
    loss, hits, total, said, yes, both, neither, errors = np.zeros(8)
    for where in zip(*np.nonzero(can_move), strict=True):
        label, answer = int(is_moved[where]), int(logits[where].argmax())
        loss -= np.log(softmax(logits[where])[label])
        hits, total = hits + (label == answer), total + 1
        said, yes = said + answer, yes + label
        both, neither = both + label * answer, neither + (1 - label) * (1 - answer)
        errors += label != answer
    return (loss, total), {
        "accuracy": (hits, total),
        "positive_rate": (yes, total),
        "predicted_rate": (said, total),
        "recall": (both, yes),
        "specificity": (neither, total - yes),
        "f1": (2 * both, 2 * both + errors),
        "pair_accuracy": _pair_accuracy(
            logits[..., 1] - logits[..., 0], is_moved, can_move
        ),
    }


def _pair_accuracy(scores, is_moved, can_move):
    """Pair by pair."""
    right, pairs = 0.0, 0
    for row, mask in enumerate(can_move):
        own = np.flatnonzero(mask)
        for one in own[is_moved[row, own]]:
            for other in own[~is_moved[row, own]]:
                difference = scores[row, one] - scores[row, other]
                right += (np.sign(difference) + 1) / 2
                pairs += 1
    return right, pairs
