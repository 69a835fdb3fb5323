r"""Puts the sentences of a text in order, with a pretrained SLM.

  seg-tf reorder-sentences --checkpoint=runs/slm_base --sentences=shuffled.txt

reads one sentence per line and prints them in the predicted order, each with its place
as given and the model's confidence: the probability of this sentence among those not
placed before it. The product of these is the confidence of the whole order.

  seg-tf reorder-sentences --checkpoint=runs/slm_base --text=chapter.txt
  echo "It fell. He took the cup." | seg-tf reorder-sentences --checkpoint=runs/slm_base

split a text into sentences first. Without a file, stdin is read (`--sentences=-`: one
sentence per line). All paragraphs of a file are one text to be ordered. Hard-wrapped
lines of plain text are joined. Markdown, JSON lines, CSV and Parquet are recognised by
the names of files; --format reads others.

A model takes up to the number of sentences it was pretrained on (20 for the paper's),
if they fit in a row. A longer text is ordered in groups of consecutive sentences, and
the output says so.

Several texts, files or folders of them, go to a file of JSON lines, one per text:

  seg-tf reorder-sentences --checkpoint=runs/slm_base --text=texts/ \
    --output=orders.jsonl

  {"source": "a.txt", "groups": [{"first": 0, "order": [2, 0, 1], "confidences":
  [0.91, 0.7, 1.0], "confidence": 0.637, "sentences": ["…", "…", "…"], "cut": []}]}

where numbers count sentences as given, from 0.
"""

import json
import pathlib
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import model_flags, text_flags
from seg_tf.inference import texts
from seg_tf.inference.ordering import OrderedGroup, SentenceOrderer
from seg_tf.inference.texts import Sentence

# Texts whose rows are batched together.
_TEXTS_PER_STEP = 1_000


def define_flags() -> None:
    model_flags.define_model_flags()
    text_flags.define_text_flags()
    flags.DEFINE_list(
        "text", [], "Text files or folders, comma-separated; each file is a text."
    )
    flags.DEFINE_list(
        "sentences", [], "The same, but with one sentence per line, not to be split."
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
    paths = values.text or values.sentences or [text_flags.STDIN]
    is_stdin = paths == [text_flags.STDIN]
    sources = {"stdin": text_flags.STDIN} if is_stdin else texts.list_files(paths)
    if len(sources) > 1 and not values.output:
        raise ValueError(
            "`--output` must name a file for the orders of several texts. Received: "
            f"none, and {len(sources)} texts"
        )
    if values.output:
        output_paths.file_path(values.output, "output")
    pretrained = model_flags.load_model()
    splitter = pretrained.splitter()
    orderer = SentenceOrderer(pretrained)

    def read(name: str) -> list[Sentence]:
        path = sources[name]
        if values.sentences:
            return [Sentence(line, name) for line in model_flags.read_lines(str(path))]
        document = text_flags.read_paragraphs(path)
        return list(texts.split_documents([document], name, splitter))

    names = list(sources)
    if not values.output:
        sentences = read(names[0])
        print(_describe(sentences, orderer.order([sentences])[0]))
        return
    output = pathlib.Path(values.output)
    with (
        files.written_aside(output) as aside,
        open(aside, "w", encoding="utf-8") as file,
        command_line.progress_bar(len(names), "texts", "text") as bar,
    ):
        for begin in range(0, len(names), _TEXTS_PER_STEP):
            step = names[begin : begin + _TEXTS_PER_STEP]
            sentences_of_texts = list(map(read, step))
            orders = orderer.order(sentences_of_texts)
            for name, *text in zip(step, sentences_of_texts, orders, strict=True):
                record = {"source": name, "groups": _to_json(*text)}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            bar.update(len(step))
    print(f"{len(names):,} texts in order: {output}")


def _to_json(
    sentences: Sequence[Sentence], groups: Sequence[OrderedGroup]
) -> list[dict]:
    return [
        {
            "first": group.first,
            "order": group.order,
            "confidences": [round(value, 6) for value in group.confidences],
            "confidence": group.confidence,
            "sentences": [sentences[number].text for number in group.order],
            "cut": group.cut,
        }
        for group in groups
    ]


def _describe(sentences: Sequence[Sentence], groups: Sequence[OrderedGroup]) -> str:
    """The order of one text, for people."""
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
        lines += [
            f"Sentences {group.first + 1} to {last}; confidence of the whole order "
            f"{group.confidence:.3g}",
            "place  as given  confidence",
        ]
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
