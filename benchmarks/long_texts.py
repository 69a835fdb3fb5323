r"""Compares ReAT with a flat BERT of the same size on long texts in one pass.

  python -m benchmarks.long_texts
  python -m benchmarks.long_texts --words=16384 --hidden_size=128 --train
  python -m benchmarks.long_texts --plot=docs/images/long_texts.png

The text is the beginning of a chapter of a book. Both sides read all of it from records
built by `data_pipelines`, in float32 and with Google's vocabulary: ReAT as sentences,
the flat encoder as one window with attention between all word pieces. Both have the
same number and width of layers. Half of ReAT's are alpha layers, with a second
attention and a second feed-forward block.

Both sides are timed in turn in one process, one text length at a time. Peak memory is
the increase in a separate process that encodes the text, or that builds the model and
runs one training step (masked LM; for ReAT also exchange sentence prediction).
Encoding keeps no activations of earlier layers, so its peak is that of one layer. A
side that needs more memory than is free is skipped with a message.

Targets at 16,384 words: ReAT is 4 times as fast and needs a tenth of the memory.
"""

import math
import os
import pathlib
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Read when TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags

from benchmarks import paired, peak_memory, sample_data
from seg_tf import command_line

_BOOK = flags.DEFINE_string(
    "book",
    str(sample_data.BOOKS / "William Hope Hodgson" / "The Night Land.md"),
    "A book in Markdown.",
)
_CHAPTER = flags.DEFINE_string("chapter", "THE DARK PYRAMID", "What its heading holds.")
_WORDS = flags.DEFINE_list(
    "words", ["512", "1024", "2048", "4096", "8192", "16384"], "Words of the texts."
)
_HIDDEN_SIZE = flags.DEFINE_integer("hidden_size", 256, "Width; the inner is 4 times.")
_NUM_HEADS = flags.DEFINE_integer("num_heads", 4, "Attention heads.")
_LAYERS = flags.DEFINE_integer("layers", 4, "Layers; of ReAT's, half are alpha layers.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Counted rounds of each length.")
_TRAIN = flags.DEFINE_bool("train", True, "Also the memory of a training step.")
_PLOT = flags.DEFINE_string("plot", None, "PNG to draw time and memory into.")

_REAT, _FLAT = "ReAT", "flat BERT"
_COLORS = {_REAT: "C0", _FLAT: "C1"}
_BLOCK_LENGTH = 128
# How much longer a row is than what it holds, so that every sentence finds a block.
_ROOM = 1.05
_ENCODING, _TRAINING = "encoding", "training step"


def _chapter() -> list[str]:
    """Returns the paragraphs of the chapter."""
    text = pathlib.Path(_BOOK.value).read_text(encoding="utf-8")
    chapters = re.split(r"(?m)^#+ (.*)$", text)
    for heading, body in zip(chapters[1::2], chapters[2::2], strict=True):
        if _CHAPTER.value in heading:
            return [block for block in body.split("\n\n") if block.strip()]
    raise ValueError(
        f"`--chapter` must be part of a heading of {_BOOK.value}. Received: "
        f"{_CHAPTER.value!r}"
    )


def _build_records(num_words: int, folder: pathlib.Path) -> None:
    """Builds records of the chapter's first words: one document, one window."""
    from data_pipelines.builds.documents import DocumentOptions, build_documents
    from data_pipelines.builds.windows import WindowOptions, build_windows

    paragraphs, left = [], num_words
    for paragraph in _chapter():
        words = paragraph.split()[:left]
        left -= len(words)
        paragraphs.append(" ".join(words))
        if not left:
            break
    else:
        raise ValueError(
            "`--words` must be at most the chapter's words. Received: "
            f"{num_words}, {left} more than it has"
        )
    folder.mkdir(parents=True)
    # A run has to have something held out.
    for split in ("train", "validation"):
        text = "\n\n".join(paragraphs)
        (folder / f"{split}.md").write_text(text, encoding="utf-8")
    options = DocumentOptions(
        format="markdown",
        input=str(folder / "train.md"),
        validation_input=str(folder / "validation.md"),
        vocab_file=str(sample_data.VOCABULARY),
    )
    documents = build_documents(options, folder / "documents")
    windows = WindowOptions(
        window_length=documents.count("pieces", "train") + 2, short_window_rate=0.0
    )
    build_windows(windows, folder / "documents", folder)


def _config(side: str, manifest: Any) -> Any:
    """Returns the run of a side on the text of the records."""
    from seg_tf.config import (
        EncoderConfig,
        ExchangeSentenceConfig,
        MaskedLMConfig,
        ReATConfig,
        RunConfig,
        TrainingConfig,
    )
    from seg_tf.data.inputs import ReATInputsConfig, WindowInputsConfig

    pieces, sentences = (
        manifest.count(what, "train") for what in ("pieces", "sentences")
    )
    window_length = pieces + 2
    sizes = {
        "hidden_size": _HIDDEN_SIZE.value,
        "num_heads": _NUM_HEADS.value,
        "intermediate_size": 4 * _HIDDEN_SIZE.value,
    }
    objectives = {"masked_lm": MaskedLMConfig()}
    if side == _FLAT:
        model = EncoderConfig(
            index_tables={"position_index": window_length},
            num_layers=_LAYERS.value,
            **sizes,
        )
        inputs = WindowInputsConfig(
            window_length=window_length, masking=_masking(window_length)
        )
    else:
        # No fewer than there are when the long ones have been cut.
        sentences += pieces // _BLOCK_LENGTH
        blocks = math.ceil(_ROOM * (pieces + 3 * sentences) / _BLOCK_LENGTH)
        row_length = _BLOCK_LENGTH * blocks
        model = ReATConfig(
            block_length=_BLOCK_LENGTH,
            max_sentences=sentences,
            num_sentence_layers=_LAYERS.value - _LAYERS.value // 2,
            num_alpha_layers=_LAYERS.value // 2,
            **sizes,
            **{f"alpha_{name}": size for name, size in sizes.items()},
        )
        inputs = ReATInputsConfig(
            window_length=window_length,
            row_length=row_length,
            sentences_per_row=sentences,
            long_max_sentences=sentences,
            long_rate=1.0,
            masking=_masking(row_length),
        )
        objectives["exchange_sentence"] = ExchangeSentenceConfig()
    return RunConfig(
        name=side,
        paper="reat_small" if side == _REAT else "bert_base",
        model=model,
        inputs=inputs,
        objectives=objectives,
        training=TrainingConfig(batch_size=1, deterministic_ops=False),
    )


def _masking(length: int) -> Any:
    """Returns masking with capacity for all predictions of a row."""
    from seg_tf.data.inputs import MaskingConfig

    return MaskingConfig(max_predictions=math.ceil(0.15 * length))


def _build_inputs(side: str, folder: pathlib.Path) -> tuple[Any, Any]:
    """Returns the config and the inputs of a side for the records in a folder."""
    from seg_tf.data.manifest import Manifest
    from seg_tf.training import build

    config = _config(side, Manifest.load(folder))
    inputs = build.build_inputs(config, folder)
    if inputs.num_train_samples != 1:
        raise RuntimeError(
            f"The text must be one row. Received: {inputs.num_train_samples} rows"
        )
    return config, inputs


def _encoding(config: Any, inputs: Any) -> Callable[[], object]:
    """Traces the graph of the encoder. Returns a function that encodes the text."""
    import tensorflow as tf

    from seg_tf.config import build_from

    encoder = build_from(config.model, vocab_size=inputs.vocab_size)
    batch = next(iter(inputs.train_dataset(1)))

    @tf.function(autograph=False)
    def encode(batch: Mapping[str, Any]) -> Any:
        return tf.reduce_sum(encoder(batch, training=False))

    encode.get_concrete_function(batch)
    return lambda: encode(batch).numpy()


def _train(config: Any, inputs: Any) -> None:
    """Builds the model and runs one training step on the text."""
    from seg_tf.training import build

    learner = build.build_learner(config, inputs)
    learner.make_update(iter(inputs.train_dataset(1)))
    assert learner.updates == 1  # waits for the weights


def _peak_memory(
    side: str, work: str, folder: pathlib.Path, arguments: Sequence[str]
) -> int:
    """Returns the bytes that `work` needs. Must be called in a new process."""
    flags.FLAGS(arguments)
    config, inputs = _build_inputs(side, folder)
    if work == _ENCODING:
        return peak_memory.added_by(_encoding(config, inputs))
    return peak_memory.added_by(lambda: _train(config, inputs))


def _memory(side: str, work: str, folder: pathlib.Path, needed: int) -> int | None:
    """Returns the bytes that `work` needs, or None if `needed` bytes are not free."""
    if needed > 0.9 * peak_memory.available():
        print(
            f"  {side}, {work}: left out, since it needs about "
            f"{needed / 2**30:,.1f} GiB of the {peak_memory.available() / 2**30:,.1f} "
            "that are free"
        )
        return None
    peak = peak_memory.in_own_process(_peak_memory, side, work, folder, sys.argv)
    print(f"  {side}, {work}: {peak / 2**20:,.0f} MiB")
    return peak


def _needed(work: str, config: Any, vocab_size: int) -> int:
    """Estimates the bytes that `work` needs."""
    numbers = config.model.row_activations(config.inputs, vocab_size)
    # At most one layer is held at once.
    return 4 * numbers // (1 if work == _TRAINING else _LAYERS.value)


def _measure(num_words: int, folder: pathlib.Path) -> dict[str, dict[str, float]]:
    """Measures time and memory of both sides on the chapter's first words.

    Returns:
        `{measurement: {side: seconds or bytes}}`, without skipped measurements.
    """
    from seg_tf.data.manifest import Manifest

    _build_records(num_words, folder)
    manifest = Manifest.load(folder)
    print(
        f"{num_words:,} words, {manifest.count('pieces', 'train'):,} word pieces, "
        f"{manifest.count('sentences', 'train'):,} sentences"
    )
    figures: dict[str, dict[str, float]] = {"seconds": {}, _ENCODING: {}, _TRAINING: {}}
    sides = {}
    for side in (_REAT, _FLAT):
        config, inputs = _build_inputs(side, folder)
        for work in [_ENCODING, _TRAINING][: 1 + _TRAIN.value]:
            needed = _needed(work, config, inputs.vocab_size)
            memory = _memory(side, work, folder, needed)
            if memory is not None:
                figures[work][side] = memory
        if side in figures[_ENCODING]:
            sides[side] = paired.repeated(_encoding(config, inputs), 1, num_words)
            print(f"  {side}: rows are full to {inputs.fill:.3f}")
    rates = paired.interleave(sides, _ROUNDS.value)
    for side, rate in rates.items():
        figures["seconds"][side] = num_words / statistics.median(rate.wall)
    if len(sides) == 2:
        paired.report(rates, of=_REAT, against=_FLAT, unit="words/s", target=4)
    for work in (_ENCODING, _TRAINING):
        if len(figures[work]) == 2:
            ratio = figures[work][_FLAT] / figures[work][_REAT]
            print(f"  memory of {work}: {_FLAT} takes {ratio:.1f} times {_REAT}'s")
    return figures


def _draw(figures: Mapping[int, Mapping[str, Mapping[str, float]]]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = {
        "seconds": ("seconds to encode a text", 1),
        _ENCODING: ("peak memory of encoding, MiB", 2**20),
        _TRAINING: ("peak memory of a training step, MiB", 2**20),
    }
    for number, (name, (label, unit)) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), number)
        for side, color in _COLORS.items():
            points = [
                (words, word_figures[name][side] / unit)
                for words, word_figures in figures.items()
                if side in word_figures[name]
            ]
            if points:
                axes.loglog(*zip(*points, strict=True), "o-", color=color, label=side)
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(figures), [f"{words:,}" for words in figures])
        axes.set_xlabel("words of the text")
        axes.set_ylabel(label)
        axes.grid(visible=True, which="both", alpha=0.3)
        axes.legend()
    figure.suptitle(
        f"{_LAYERS.value} layers of width {_HIDDEN_SIZE.value}, one text of a book"
    )
    figure.savefig(_PLOT.value, dpi=100)
    print(f"Written: {_PLOT.value}")


def main(_: Sequence[str]) -> None:
    paired.print_machine()
    print(
        f"{_LAYERS.value} layers of width {_HIDDEN_SIZE.value}, "
        f"{_NUM_HEADS.value} heads"
    )
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        for words in map(int, _WORDS.value):
            figures[words] = _measure(words, pathlib.Path(scratch) / str(words))
    if _PLOT.value:
        _draw(figures)
    paired.print_machine()


if __name__ == "__main__":
    command_line.run(main)
