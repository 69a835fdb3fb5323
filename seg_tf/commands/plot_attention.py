r"""Draws what pretrained encoders attend to in a text, as heat maps.

  python -m seg_tf.commands.plot_attention --checkpoint=runs/segabert_tiny \
    --text=article.txt --output=attention.png

Like section 4.5 and figures 3 to 7 of the Segatron paper: a panel for each layer, with
the attention averaged over its heads. A row of pixels is a token that attends, a column
one that is attended to; the weights of a row sum to 1. Lines show where paragraphs and
sentences begin, numbers at the axes which they are (tokens, if the text is short).

Several models are drawn above each other, on the same part of the text:

  python -m seg_tf.commands.plot_attention \
    --checkpoint=runs/segabert_base,runs/bert_base \
    --text=article.txt --output=attention.pdf --layers=0,11

Panels of one layer have the same colours, which differ from layer to layer: white is 0,
and black the weight that 99 % of all weights of these panels do not exceed (few tokens,
such as [SEP], may draw far more). --heads=all or --heads=0,3 draws heads by themselves.
Layers and heads count from 0.

A file (UTF-8) is one text, whatever is in it: each line that is not blank is a
paragraph. What is longer than the models' windows is cut after the last sentence that
fits, and the output says so. Models are BERT, BERT with P.S., SegaBERT, SLM and their
mixtures.

The command prints, and writes to --output_table as CSV, the shares of the word pieces'
attention: to their sentence, to their paragraph (that sentence included), to special
tokens such as [CLS], and the rest to other paragraphs. Each share is followed by its
ratio to that of uniform attention. A model that attends to neighbours, whatever the
structure, exceeds 1 too: compare models, not a model with uniform attention alone.
"""

import functools
import pathlib
import sys
from collections.abc import Mapping, Sequence

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.inference import (
    attention_maps,
    attention_plots,
    attention_tables,
    text_windows,
)
from seg_tf.inference.attention_maps import AttentionMaps, HeadChoice
from seg_tf.inference.attention_tables import AttentionTable
from seg_tf.inference.text_windows import TextWindow, window_capacity
from seg_tf.layouts.layout import TextCapacity
from seg_tf.text.punkt import Splitter
from seg_tf.text.tree import DocumentTree
from seg_tf.training.run_folder import RunFolder

_FORMATS = (".png", ".pdf", ".svg")
_DOTS_PER_INCH = 150
# More would take minutes to lay out, and nobody could look at it.
_MAX_PANELS = 200
_STDIN = "-"
_ALL, _MEAN = "all", attention_maps.MEAN


def define_flags() -> None:
    model_flags.define_model_flags(several=True)
    flags.DEFINE_string("text", None, "Text file; `-` is stdin.", required=True)
    flags.DEFINE_string(
        "output", "attention.png", f"The plot: {', '.join(_FORMATS)} by its name."
    )
    flags.DEFINE_string("output_table", None, "CSV to write the shares to.")
    flags.DEFINE_list("layers", [_ALL], "Layers, comma-separated, or `all`.")
    flags.DEFINE_list(
        "heads", [_MEAN], "Heads, comma-separated, `all`, or their `mean`."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Whatever can be refused, before a model is loaded.
    output, table = _outputs()
    paragraphs = model_flags.read_lines(values.text)
    if not paragraphs:
        raise ValueError(f"`--text` must hold a sentence. Received: {values.text}")
    models = model_flags.load_models()
    # The same sentences for all.
    splitter = models[0].splitter()
    panels = _panels(models)
    maps = _maps(models, paragraphs, splitter)
    figure = attention_plots.heat_maps(maps, panels, _title(maps))
    with files.written_aside(output) as aside:
        figure.savefig(aside, format=output.suffix[1:].lower(), dpi=_DOTS_PER_INCH)
    tables = {name: AttentionTable.of(one, panels) for name, one in maps.items()}
    if table:
        attention_tables.write_csv(table, tables)
    for name, one in tables.items():
        print(f"{name}: {_sizes(maps[name].window)}. Where their attention goes:")
        print(f"{one}\n")
    print(f"Written: {', '.join(map(str, filter(None, (output, table))))}")


def _maps(
    models: Sequence[Pretrained], paragraphs: Sequence[str], splitter: Splitter
) -> dict[str, AttentionMaps]:
    """Attention of each model, by its name, on as much text as all of them take."""
    names = _names(models)
    capacity = functools.reduce(TextCapacity.shared, map(window_capacity, models))
    maps, notes = {}, {}
    for name, model in zip(names, models, strict=True):
        tree = text_windows.read_tree(paragraphs, model, splitter)
        beginning = text_windows.first_window(tree, capacity)
        if len(beginning.token_ids) < len(tree.token_ids):
            notes.setdefault(_too_long(tree, beginning), []).append(name)
        window = text_windows.lay_out(beginning, model)
        maps[name] = attention_maps.attention_maps(model.encoder, window)
    for note, of_models in notes.items():
        print(f"Note: {', '.join(of_models)}: {note}", file=sys.stderr)
    return maps


def _outputs() -> tuple[pathlib.Path, pathlib.Path | None]:
    """The files to write: the plot and, if wanted, the table."""
    values = flags.FLAGS
    output = output_paths.file_path(values.output, "output")
    if output.suffix.lower() not in _FORMATS:
        raise ValueError(
            f"`--output` must end in one of {', '.join(_FORMATS)}. Received: {output}"
        )
    table = None
    if values.output_table:
        table = output_paths.file_path(values.output_table, "output_table")
    for name, path in (("--output", output), ("--output_table", table)):
        is_there = path is not None and path.exists() and values.text != _STDIN
        if is_there and path.samefile(values.text):
            raise ValueError(f"`{name}` must not be the text itself. Received: {path}")
    return output, table


def _names(models: Sequence[Pretrained]) -> list[str]:
    """Names of the models: the folders of their runs, if these differ.

    Otherwise a checkpoint of the run is added, or it is the whole path.
    """
    folders = [model.folder.resolve() for model in models]
    if len(set(folders)) < len(folders):
        raise ValueError(
            "`--checkpoint` must name each checkpoint once. Received: "
            f"{', '.join(flags.FLAGS.checkpoint)}"
        )
    runs = [_run_name(folder) for folder in folders]
    checkpoints = [
        f"{run}/{folder.name}" for run, folder in zip(runs, folders, strict=True)
    ]
    paths = [str(folder) for folder in folders]
    return next(
        names for names in (runs, checkpoints, paths) if len(set(names)) == len(names)
    )


def _run_name(folder: pathlib.Path) -> str:
    """The run of a checkpoint, which lies in <run>/checkpoints; or the checkpoint."""
    run = RunFolder.of_checkpoint(folder)
    return (run.path if run else folder).name


def _panels(models: Sequence[Pretrained]) -> list[HeadChoice]:
    """The layers and heads that are wanted, as far as a model has them."""
    encoders = [model.encoder for model in models]
    layers = _numbers("layers", max(encoder.num_layers for encoder in encoders))
    heads = [None]
    if flags.FLAGS.heads != [_MEAN]:
        heads = _numbers("heads", max(encoder.num_heads for encoder in encoders))
    panels = [
        HeadChoice(layer, head)
        for layer in layers
        for head in heads
        if any(
            layer < encoder.num_layers and (head or 0) < encoder.num_heads
            for encoder in encoders
        )
    ]
    if len(panels) * len(models) > _MAX_PANELS:
        raise ValueError(
            "`--layers` and `--heads` must leave at most "
            f"{_MAX_PANELS} panels in a plot. Received: {len(panels)} panels of "
            f"{len(models)} models"
        )
    return panels


def _numbers(name: str, count: int) -> list[int]:
    """The numbers that a flag holds, each below `count`."""
    texts = flags.FLAGS[name].value
    if texts == [_ALL]:
        return list(range(count))
    numbers = [int(text) if text.isdecimal() else count for text in texts]
    if not numbers or max(numbers) >= count or len(set(numbers)) < len(numbers):
        words = f"`{_ALL}` or `{_MEAN}`" if name == "heads" else f"`{_ALL}`"
        raise ValueError(
            f"`--{name}` must be {words}, or different numbers from 0 to "
            f"{count - 1}. Received: {','.join(texts)}"
        )
    return numbers


def _too_long(tree: DocumentTree, beginning: DocumentTree) -> str:
    return (
        f"the text has {len(tree.token_ids):,} word pieces in "
        f"{len(tree.sentence_lengths):,} sentences. Shown are the first "
        f"{len(beginning.token_ids):,}, in {len(beginning.sentence_lengths):,}: what "
        "fits into a window"
    )


def _title(maps: Mapping[str, AttentionMaps]) -> str:
    name = flags.FLAGS.text
    name = "standard input" if name == _STDIN else pathlib.Path(name).name
    sizes = {_sizes(one.window) for one in maps.values()}
    # Word pieces of other vocabularies are others.
    return f"Attention in {name}" + (f": {sizes.pop()}" if len(sizes) == 1 else "")


def _sizes(window: TextWindow) -> str:
    return (
        f"{window.num_pieces:,} word pieces in {window.num_sentences:,} sentences, "
        f"{window.num_paragraphs:,} paragraphs"
    )


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
