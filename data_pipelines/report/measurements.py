"""Measurements of documents for the report: one pass, a few numbers a window."""

import array
import dataclasses
import pathlib
import random
from collections.abc import Mapping

import numpy as np

from data_pipelines.builds.windows import WindowOptions, cut_windows
from seg_tf import command_line
from seg_tf.config import EncoderConfig
from seg_tf.data import examples, packing, shards
from seg_tf.data.configs import PackedWindowInputsConfig
from seg_tf.data.manifest import NUM_SPECIAL_TOKENS, SPLITS, Manifest, shard_paths
from seg_tf.text import encoding

WINDOW_LENGTHS = (128, 256, 512, 1024, 2048)
CAPS: Mapping[str, int] = EncoderConfig().index_tables
"""Rows of SegaBERT's index tables, the encoder's defaults."""
_MAX_WINDOWS_PER_ROW = PackedWindowInputsConfig().max_windows_per_row
_SEED = 0


@dataclasses.dataclass
class Measurements:
    """Lengths in the measured documents.

    Attributes:
        num_documents: measured documents.
        num_all_documents: all documents.
        lengths: name -> lengths.
        windows: window length -> used positions of each window of whole sentences;
            empty for documents of words.
        num_tokens: measured tokens.
        over_cap: index name -> tokens whose index in the document exceeds the table;
            empty for documents of words.
    """

    num_documents: int
    num_all_documents: int
    lengths: dict[str, array.array]
    windows: dict[int, array.array]
    num_tokens: int
    over_cap: dict[str, int]

    def padding(self, window_length: int) -> tuple[float, float]:
        """Shares of padding, with one window per row and where windows share rows."""
        lengths = np.array(self.windows[window_length])
        rows = packing.pack(lengths, window_length, _MAX_WINDOWS_PER_ROW, seed=_SEED)
        first, packed = (
            1 - lengths.sum() / (num_rows * window_length)
            for num_rows in (len(lengths), len(rows))
        )
        return first, packed


def measure(folder: pathlib.Path, max_documents: int) -> Measurements:
    """Measures the documents of a folder, or a random sample of them.

    Args:
        folder: output of `build_documents`.
        max_documents: maximum number of documents to measure.

    Raises:
        ValueError: if a shard is missing or damaged.
    """
    manifest = Manifest.load(folder)
    paths = [path for name in SPLITS for path in shard_paths(manifest, folder, name)]
    reader = shards.RecordReader(paths, in_order=True)
    numbers = range(len(reader))
    if len(reader) > max_documents:
        numbers = sorted(random.Random(_SEED).sample(numbers, max_documents))
    tokens = manifest.tokens_name
    names = ("paragraphs a document", "sentences a paragraph")
    names += (f"{tokens} a sentence", f"{tokens} a document")
    lengths = {name: array.array("i") for name in names}
    has_pieces = manifest.tokenizer == encoding.WORD_PIECES
    windows = {
        length: array.array("i") for length in (WINDOW_LENGTHS if has_pieces else ())
    }
    over_cap = dict.fromkeys(CAPS, 0) if has_pieces else {}
    num_tokens = 0
    with command_line.progress_bar(len(numbers), "report", "documents") as bar:
        for number in numbers:
            tree, document_id, _ = examples.decode(
                reader[number], manifest.number_widths
            )
            num_tokens += len(tree.token_ids)
            sizes = ([len(tree.paragraph_lengths)], tree.paragraph_lengths)
            sizes += (tree.sentence_lengths, [len(tree.token_ids)])
            for values, some in zip(lengths.values(), sizes, strict=True):
                values.extend(map(int, some))
            for window_length, used in windows.items():
                options = WindowOptions(
                    window_length=window_length, short_window_rate=0.0
                )
                used.extend(
                    len(window.token_ids) + NUM_SPECIAL_TOKENS
                    for window, _ in cut_windows(tree, document_id, options)
                )
            if over_cap:
                indices = tree.indices()
                for name, cap in CAPS.items():
                    over_cap[name] += int(np.sum(indices[name] >= cap))
            bar.update()
    return Measurements(
        len(numbers), len(reader), lengths, windows, num_tokens, over_cap
    )
