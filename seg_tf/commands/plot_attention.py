r"""Draws what pretrained encoders attend to in a text, as heat maps.

  seg-tf plot-attention --checkpoint=runs/segabert_tiny --text=article.txt \
    --output=attention.png

As in section 4.5 and figures 3 to 7 of the Segatron paper, there is a panel for each
layer, with the attention averaged over its heads. A row of pixels is an attending
token, a column an attended one; the weights of a row sum to 1. Lines show where
paragraphs and sentences begin, numbers at the axes which they are (tokens, if the text
is short).

Several models are drawn above each other, on the same part of the text:

  seg-tf plot-attention --checkpoint=runs/segabert_base,runs/bert_base \
    --text=article.txt --output=attention.pdf --layers=0,11

Panels of one layer share a colour scale: white is 0, and black the 99 % quantile of all
weights of these panels (a few tokens, such as [SEP], may draw far more). --heads=all or
--heads=0,3 draws single heads. Layers and heads count from 0.

A file is one text, in any format of --format. In plain text, a line that is not blank
is a paragraph, unless the lines look hard-wrapped. A text longer than the models'
windows is cut after the last sentence that fits, and the output says so. Models are
BERT, BERT with P.S., SegaBERT, SLM and their mixtures.

The command prints the shares of the word pieces' attention: to their sentence, to their
paragraph (including that sentence), to special tokens such as [CLS]; the rest goes to
other paragraphs. Each share is followed by its ratio to that of uniform attention. A
model that attends to neighbours, ignoring the structure, exceeds 1 too: compare models,
not a model with uniform attention only.
"""

import functools
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags, text_flags
from seg_tf.inference import attention, attention_plots
from seg_tf.inference.attention import AttentionMaps
from seg_tf.layouts.layout import TextCapacity
from seg_tf.training.run_folder import RunFolder

_FORMATS = (".png", ".pdf", ".svg")
_DOTS_PER_INCH = 150
# More would take minutes to lay out.
_MAX_PANELS = 200
_ALL, _MEAN = "all", "mean"


def define_flags() -> None:
    model_flags.define_model_flags(several=True)
    text_flags.define_text_flags()
    flags.DEFINE_string("text", None, "Text file; `-` is stdin.", required=True)
    flags.DEFINE_string(
        "output", "attention.png", f"The plot: {', '.join(_FORMATS)} by its name."
    )
    flags.DEFINE_list("layers", [_ALL], "Layers, comma-separated, or `all`.")
    flags.DEFINE_list(
        "heads", [_MEAN], "Heads, comma-separated, `all`, or their `mean`."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Refuse bad input before a model is loaded.
    output = output_paths.file_path(values.output, "output")
    if output.suffix.lower() not in _FORMATS:
        raise ValueError(
            f"`--output` must end in one of {', '.join(_FORMATS)}. Received: {output}"
        )
    paragraphs = text_flags.read_paragraphs(values.text)
    if not paragraphs:
        raise ValueError(f"`--text` must hold a sentence. Received: {values.text}")
    models = model_flags.load_models()
    panels = _panels(models)
    maps = _maps(models, paragraphs)
    source = (
        "standard input"
        if values.text == text_flags.STDIN
        else pathlib.Path(values.text).name
    )
    # Models of different vocabularies read different word pieces.
    sizes = {str(model.window) for model in maps.values()}
    title = f"Attention in {source}" + (f": {sizes.pop()}" if len(sizes) == 1 else "")
    figure = attention_plots.heat_maps(maps, panels, title)
    with files.written_aside(output) as aside:
        figure.savefig(aside, format=output.suffix[1:].lower(), dpi=_DOTS_PER_INCH)
    for name, model in maps.items():
        print(f"{name}: {model.window}. Where their attention goes:")
        print(f"{_shares(model, panels)}\n")
    print(f"Written: {output}")


def _shares(maps: AttentionMaps, panels: Sequence[tuple[int, int | None]]) -> str:
    """A table of where the attention of a model's layers and heads goes."""
    uniform = attention.attention_shares(maps.uniform(), maps.window)
    rows = {
        f"layer {layer}, head {_MEAN if head is None else head}": (
            attention.attention_shares(maps.map(layer, head), maps.window)
        )
        for layer, head in panels
    }
    lines = [f"{'':22}" + "".join(f"{name.replace('_', ' '):>18}" for name in uniform)]
    for title, shares in {**rows, "uniform attention": uniform}.items():
        cells = [
            f"{share:.3f} ({share / uniform[name]:5.2f} x)"
            for name, share in shares.items()
        ]
        lines.append(f"  {title:20}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def _maps(
    models: Sequence[Pretrained], paragraphs: Sequence[str]
) -> dict[str, AttentionMaps]:
    """Attention of each model, by name, on as much text as all of them take."""
    capacity = functools.reduce(
        TextCapacity.shared, map(attention.window_capacity, models)
    )
    splitter = models[0].splitter()  # the same sentences for all
    maps, notes = {}, {}
    for name, model in zip(_names(models), models, strict=True):
        tree = attention.read_tree(paragraphs, model, splitter)
        beginning = attention.first_window(tree, capacity)
        if len(beginning.token_ids) < len(tree.token_ids):
            note = (
                f"the text has {len(tree.token_ids):,} word pieces in "
                f"{len(tree.sentence_lengths):,} sentences. Shown are the first "
                f"{len(beginning.token_ids):,}, in {len(beginning.sentence_lengths):,}:"
                " what fits in a window"
            )
            notes.setdefault(note, []).append(name)
        window = attention.lay_out(beginning, model)
        maps[name] = attention.attention_maps(model.encoder, window)
    for note, names in notes.items():
        print(f"Note: {', '.join(names)}: {note}", file=sys.stderr)
    return maps


def _names(models: Sequence[Pretrained]) -> list[str]:
    """Names of runs, if unique; else runs and checkpoints; else paths."""
    folders = [model.folder.resolve() for model in models]
    if len(set(folders)) < len(folders):
        raise ValueError(
            "`--checkpoint` must name each checkpoint once. Received: "
            f"{', '.join(flags.FLAGS.checkpoint)}"
        )
    runs = []
    for folder in folders:
        run = RunFolder.of_checkpoint(folder)
        runs.append((run.path if run else folder).name)
    checkpoints = [
        f"{run}/{folder.name}" for run, folder in zip(runs, folders, strict=True)
    ]
    return next(
        names
        for names in (runs, checkpoints, list(map(str, folders)))
        if len(set(names)) == len(names)
    )


def _panels(models: Sequence[Pretrained]) -> list[tuple[int, int | None]]:
    """The requested layers and heads, which all models have."""
    encoders = [model.encoder for model in models]
    layers = _numbers("layers", min(encoder.num_layers for encoder in encoders))
    heads: list[int | None] = [None]
    if flags.FLAGS.heads != [_MEAN]:
        heads = [*_numbers("heads", min(encoder.num_heads for encoder in encoders))]
    panels = [(layer, head) for layer in layers for head in heads]
    if len(panels) * len(models) > _MAX_PANELS:
        raise ValueError(
            "`--layers` and `--heads` must leave at most "
            f"{_MAX_PANELS} panels in a plot. Received: {len(panels)} panels of "
            f"{len(models)} models"
        )
    return panels


def _numbers(name: str, count: int) -> list[int]:
    """The numbers of a flag, each below `count`."""
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


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
