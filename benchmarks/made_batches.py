"""Creates synthetic batches of any run in NumPy: full rows with realistic indices.

No records and no TensorFlow are needed.
"""

from typing import Any

import numpy as np

from seg_tf.config import RunConfig
from seg_tf.data.configs import (
    LaneInputsConfig,
    PackedWindowInputsConfig,
    ReATInputsConfig,
    SentenceInputsConfig,
)

Batch = dict[str, np.ndarray]

# Of English running text.
_SENTENCE, _PARAGRAPH = 25, 100
# ReAT's sentences, four to a block, and the sentences of a text.
_BLOCK_SENTENCES, _SENTENCES_OF_TEXT = 4, 16


def make_batch(config: RunConfig, vocab_size: int, rows: int) -> Batch:
    """Returns full rows with all features that a run's model and objectives read.

    Args:
        config: the run.
        vocab_size: size of the vocabulary.
        rows: number of rows.
    """
    rng = np.random.default_rng(0)
    inputs = config.inputs
    shape = (rows, inputs.row_length)
    batch = {
        "token_ids": rng.integers(0, vocab_size, shape, "int32"),
        "padding_mask": np.ones(shape, bool),
        "sample_number": np.arange(rows),
    }
    if isinstance(inputs, LaneInputsConfig):
        return {**batch, **_stream(batch["token_ids"])}
    if isinstance(inputs, ReATInputsConfig):
        batch |= _texts(rng, inputs, config.model.block_length, rows)
    else:
        batch |= _windows(inputs, rows)
    if isinstance(inputs, SentenceInputsConfig):
        batch |= _shuffled_sentences(rng, inputs, rows)
    return {**batch, **_masked(rng, inputs, vocab_size, rows)}


def _windows(inputs: Any, rows: int) -> Batch:
    """Returns the indices of one window per row, or of two if windows are packed."""
    length = inputs.row_length
    is_packed = isinstance(inputs, PackedWindowInputsConfig)
    window = -(-length // 2) if is_packed else length
    number, positions = np.divmod(np.tile(np.arange(length), (rows, 1)), window)
    batch = {
        "position_index": positions,
        "paragraph_index": positions // _PARAGRAPH,
        "sentence_index": positions % _PARAGRAPH // _SENTENCE,
        "token_index": positions % _SENTENCE,
    }
    if is_packed:
        batch["window_number"] = number + 1
    return {name: value.astype("int32") for name, value in batch.items()}


def _shuffled_sentences(
    rng: np.random.Generator, inputs: SentenceInputsConfig, rows: int
) -> Batch:
    """Returns features of randomly ordered sentences of about the same length."""
    sentences, length = inputs.max_sentences, inputs.row_length
    # Of [CLS], the sentences in gold order and [SEP].
    starts = np.linspace(1, length - 1, sentences + 1).astype("int32")
    starts = np.concatenate([[0], starts])
    inner = np.tile(np.arange(1, sentences + 1), (rows, 1))
    slots = np.pad(rng.permuted(inner, axis=1), ((0, 0), (1, 1)))
    slots[:, -1] = sentences + 1
    return {
        "sentence_id": np.repeat(slots, np.diff(starts, append=length), axis=1).astype(
            "int32"
        ),
        "candidate_positions": starts[np.argsort(slots, axis=1)].astype("int32"),
        "candidate_mask": np.ones((rows, sentences + 2), bool),
        "gold_candidates": slots[:, 1:].astype("int32"),
        "gold_lengths": np.zeros((rows, sentences + 1), "int32"),
        "gold_paragraphs": np.zeros((rows, sentences + 1), "int32"),
        "is_shuffled": np.ones(rows, bool),
    }


def _texts(
    rng: np.random.Generator,
    inputs: ReATInputsConfig,
    block_length: int,
    rows: int,
) -> Batch:
    """Returns features of ReAT rows of short texts, whose sentences fill the blocks."""
    size = block_length // _BLOCK_SENTENCES
    number, positions = np.divmod(np.arange(inputs.row_length), size)
    starts = np.arange(0, inputs.row_length, size)
    if len(starts) > inputs.sentences_per_row:
        raise ValueError(
            "`sentences_per_row` must be at least the sentences of a made row. "
            f"Received: {inputs.sentences_per_row}, and there are {len(starts)}"
        )
    spare = inputs.sentences_per_row - len(starts)
    is_sentence = np.pad(np.ones(len(starts), bool), (0, spare))
    row_texts = {
        "position_index": positions,
        "sentence_number": number + 1,
        "text_number": number // _SENTENCES_OF_TEXT + 1,
        "sentence_position": number % _SENTENCES_OF_TEXT,
        "sentence_starts": np.pad(starts, (0, spare)),
    }
    batch = {
        name: np.tile(value.astype("int32"), (rows, 1))
        for name, value in row_texts.items()
    }
    mask = np.tile(is_sentence, (rows, 1))
    moved = mask & (rng.random(mask.shape) < inputs.exchange_rate)
    return {**batch, "sentence_mask": mask, "can_move": mask, "is_moved": moved}


def _stream(token_ids: np.ndarray) -> Batch:
    """Returns features of a text stream in which each row is a separate lane."""
    rows, length = token_ids.shape
    words = np.tile(np.arange(length, dtype="int32"), (rows, 1))
    return {
        "target_ids": np.roll(token_ids, -1, axis=1),
        "stream_token": words,
        "stream_sentence": words // _SENTENCE,
        "stream_paragraph": words // _PARAGRAPH,
        "lane": np.arange(rows, dtype="int32"),
    }


def _masked(rng: np.random.Generator, inputs: Any, vocab_size: int, rows: int) -> Batch:
    """Returns masked positions, as many as the maximum number of predictions."""
    shape = (rows, inputs.masking.max_predictions)
    places = [rng.permutation(inputs.row_length)[: shape[1]] for _ in range(rows)]
    return {
        "masked_positions": np.sort(places).astype("int32"),
        "masked_ids": rng.integers(0, vocab_size, shape, "int32"),
        "masked_weights": np.ones(shape, "float32"),
    }
