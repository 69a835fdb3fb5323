r"""Draws attention heat maps of pretrained encoders on a text.

  seg-tf plot-attention --checkpoint=runs/segabert_base,runs/bert_base \
    --text=article.txt --output=attention.pdf --layers=0,11

There is one panel per layer, with the mean over its heads (Segatron, section 4.5 and
figures 3 to 7). Rows attend to columns. Several models are drawn next to each other,
each on the first sentences of the text that fit in its window.

The command prints the fraction of attention from word pieces to their sentence, their
paragraph (with this sentence) and special tokens, and its ratio to uniform attention.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, file_listing, files
from seg_tf.commands import model_flags
from seg_tf.inference import attention
from seg_tf.inference.attention import AttentionMaps

_DOTS_PER_INCH = 150
_ALL = "all"


def define_flags() -> None:
    model_flags.define_model_flags(several=True)
    model_flags.define_text_flags()
    flags.DEFINE_string("text", None, "Text file; `-` is stdin.", required=True)
    flags.DEFINE_string("output", "attention.png", "PNG, PDF or SVG file.")
    flags.DEFINE_list("layers", [_ALL], "Comma-separated layers, from 0, or `all`.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Reject invalid input before loading a model.
    output = command_line.file_path(values.output, "output")
    paragraphs = model_flags.read_paragraphs(values.text)
    if not paragraphs:
        raise ValueError(f"`--text` must hold a sentence. Received: {values.text}")
    names = file_listing.short_names(values.checkpoint)
    models = dict(zip(names, model_flags.load_models(), strict=True))
    capacities = {
        name: attention.window_capacity(model) for name, model in models.items()
    }
    # Draw only layers that all models have.
    layers = _layers(min(model.encoder.num_layers for model in models.values()))
    splitter = next(iter(models.values())).splitter()  # the same sentences for all
    maps = {}
    for name, model in models.items():
        tree = attention.read_tree(paragraphs, model, splitter)
        beginning = attention.first_window(tree, capacities[name])
        if len(beginning.token_ids) < len(tree.token_ids):
            print(
                f"Note: {name}: the text has {len(tree.token_ids):,} word pieces in "
                f"{len(tree.sentence_lengths):,} sentences. Shown are the first "
                f"{len(beginning.token_ids):,}, in {len(beginning.sentence_lengths):,}",
                file=sys.stderr,
            )
        window = attention.lay_out(beginning, model)
        maps[name] = attention.attention_maps(model.encoder, window)
    title = f"Attention in {pathlib.Path(values.text).name}"
    figure = attention.heat_maps(maps, layers, title)
    with files.written_aside(output) as aside:
        figure.savefig(aside, format=output.suffix[1:].lower(), dpi=_DOTS_PER_INCH)
    for name, model in maps.items():
        print(f"{name}: {model.window}. Attention by target:")
        print(f"{_shares(model, layers)}\n")
    print(f"Written: {output}")


def _shares(maps: AttentionMaps, layers: Sequence[int]) -> str:
    uniform = attention.attention_shares(maps.uniform(), maps.window)
    rows = {
        f"layer {layer}": attention.attention_shares(maps.map(layer), maps.window)
        for layer in layers
    }
    lines = [f"{'':22}" + "".join(f"{name.replace('_', ' '):>18}" for name in uniform)]
    for title, shares in {**rows, "uniform attention": uniform}.items():
        cells = [
            f"{share:.3f} ({share / uniform[name]:5.2f} x)"
            for name, share in shares.items()
        ]
        lines.append(f"  {title:20}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def _layers(count: int) -> list[int]:
    """Parses `--layers`. Raises a ValueError unless all layers are below `count`."""
    texts = flags.FLAGS.layers
    if texts == [_ALL]:
        return list(range(count))
    numbers = [int(text) if text.isdecimal() else count for text in texts]
    if not numbers or max(numbers) >= count:
        raise ValueError(
            f"`--layers` must be `{_ALL}`, or numbers from 0 to {count - 1}. Received: "
            f"{','.join(texts)}"
        )
    return numbers
