r"""Puts the sentences of a text in order, with a pretrained SLM.

  python -m seg_tf.commands.reorder_sentences --checkpoint=runs/slm_base \
    --sentences=shuffled.txt

reads one sentence a line and prints them in the order that the model finds, each with
its place as given and the model's confidence: the probability of this sentence among
those not placed before it. The product of these is the confidence of the whole order.

  python -m seg_tf.commands.reorder_sentences --checkpoint=runs/slm_base \
    --text=chapter.txt
  echo "It fell. He took the cup." | \
    python -m seg_tf.commands.reorder_sentences --checkpoint=runs/slm_base

take a text and split it into sentences first; so is what comes from stdin, where no
file is named (`--sentences=-`: stdin holds a sentence a line). Whatever the lines and
paragraphs of a file, its sentences are one text to be ordered.

A model takes as many sentences at once as it was pretrained on (20 for the paper's)
and as many as fit into a row. A text with more of them is ordered in groups of
consecutive sentences, and the output says so.

Many texts at once, files or folders of them, go to a file of JSON lines, one a text:

  python -m seg_tf.commands.reorder_sentences --checkpoint=runs/slm_base --text=texts/ \
    --output=orders.jsonl

  {"source": "a.txt", "groups": [{"first": 0, "order": [2, 0, 1], "confidences":
  [0.91, 0.7, 1.0], "confidence": 0.637, "sentences": ["…", "…", "…"], "cut": []}]}

where numbers count sentences as given, from 0.
"""

import json
import pathlib
from collections.abc import Iterator, Sequence

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import model_flags
from seg_tf.inference import ordering, texts
from seg_tf.inference.ordering import OrderedGroup
from seg_tf.inference.texts import Sentence
from seg_tf.text.punkt import Splitter

_STDIN = "-"
# Texts whose rows are put into batches together.
_TEXTS_AT_ONCE = 1_000


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_list(
        "text", [], "Text files or folders, comma-separated; each file is a text."
    )
    flags.DEFINE_list(
        "sentences", [], "The same, but files with a sentence a line, not to be split."
    )
    flags.DEFINE_string(
        "output", None, "JSON lines to write; without it, one text is printed."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    if values.text and values.sentences:
        raise ValueError(
            "Only one of `--text` and `--sentences` can be given. Received: both"
        )
    paths = values.text or values.sentences or [_STDIN]
    sources = {"stdin": _STDIN} if paths == [_STDIN] else texts.list_files(paths)
    if len(sources) > 1 and not values.output:
        raise ValueError(
            "`--output` must name a file for the orders of several texts. Received: "
            f"none, and {len(sources)} texts"
        )
    if values.output:
        output_paths.file_path(values.output, "output")
    pretrained = model_flags.load_model()
    splitter = pretrained.splitter()
    orderer = ordering.SentenceOrderer(pretrained)
    if values.sentences:
        splitter = None
    if not values.output:
        ((name, path),) = sources.items()
        sentences = _read(name, str(path), splitter)
        print(_describe(sentences, orderer.order([sentences])[0]))
        return
    output = pathlib.Path(values.output)
    with (
        files.written_aside(output) as aside,
        open(aside, "w", encoding="utf-8") as file,
        command_line.progress_bar(len(sources), "texts", "text") as bar,
    ):
        for batch in _batches(list(sources.items())):
            of_texts = [_read(name, str(path), splitter) for name, path in batch]
            orders = orderer.order(of_texts)
            for (name, _), *text in zip(batch, of_texts, orders, strict=True):
                record = {"source": name, "groups": _to_json(*text)}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            bar.update(len(batch))
    print(f"{len(sources):,} texts in order: {output}")


def _batches(items: list) -> Iterator[list]:
    for begin in range(0, len(items), _TEXTS_AT_ONCE):
        yield items[begin : begin + _TEXTS_AT_ONCE]


def _read(name: str, path: str, splitter: Splitter | None) -> list[Sentence]:
    """The sentences of a file; lines are sentences where there is no splitter."""
    # A blank line does not begin a new text here.
    lines = model_flags.read_lines(path)
    if splitter is None:
        return [Sentence(line, name) for line in lines]
    return list(texts.split_lines(lines, name, splitter))


def _to_json(
    sentences: Sequence[Sentence], groups: Sequence[OrderedGroup]
) -> list[dict]:
    return [
        {
            "first": group.first,
            "order": group.order,
            "confidences": [round(one, 6) for one in group.confidences],
            "confidence": group.confidence,
            "sentences": [sentences[number].text for number in group.order],
            "cut": group.cut,
        }
        for group in groups
    ]


def _describe(sentences: Sequence[Sentence], groups: Sequence[OrderedGroup]) -> str:
    """The answer for one text, for people."""
    if not sentences:
        return "There is no sentence in it."
    lines = []
    if len(groups) > 1:
        lines.append(
            f"The model does not take all {len(sentences)} sentences at once: they are "
            f"ordered in {len(groups)} groups of consecutive ones, each on its own.\n"
        )
    for group in groups:
        last = group.first + len(group.order)
        lines.append(
            f"Sentences {group.first + 1} to {last}; confidence of the whole order "
            f"{group.confidence:.3g}"
        )
        lines.append("place  as given  confidence")
        for place, (number, confidence) in enumerate(
            zip(group.order, group.confidences, strict=True), start=group.first + 1
        ):
            note = "  [longer than a row: cut]" if number in group.cut else ""
            lines.append(
                f"{place:5d}  {number + 1:8d}  {confidence:10.3f}  "
                f"{sentences[number].text}{note}"
            )
        lines.append("")
    return "\n".join(lines).rstrip()


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
