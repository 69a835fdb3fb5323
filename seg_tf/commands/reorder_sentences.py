r"""Reorders the shuffled sentences of texts with a pretrained SLM.

  seg-tf reorder-sentences --checkpoint=runs/slm_base --sentences=shuffled.txt

reads one sentence per line and prints the sentences in the predicted order, each with
its input position and the model's confidence: the probability of this sentence among
the remaining sentences. --text splits a file into sentences first. Without either flag,
stdin is read and split.

A text that does not fit in a row of the model is ordered in groups of consecutive
sentences. With --output, each file becomes one line of JSON.
"""

from collections.abc import Sequence
from typing import Any

from absl import flags

from seg_tf import files
from seg_tf.commands import model_flags
from seg_tf.inference import texts
from seg_tf.inference.ordering import OrderedGroup, SentenceOrderer
from seg_tf.inference.texts import Sentence


def define_flags() -> None:
    model_flags.define_model_flags()
    model_flags.define_text_flags()
    model_flags.define_output_flag("the orders as JSON lines. Default: print them")
    flags.DEFINE_list("text", [], "Comma-separated text files or folders.")
    flags.DEFINE_list("sentences", [], "The same, but with one sentence per line.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    if values.text and values.sentences:
        raise ValueError(
            "Only one of `--text` and `--sentences` can be given. Received: both"
        )
    paths = values.text or values.sentences or [model_flags.STDIN]
    sources: dict[str, Any] = {"stdin": model_flags.STDIN}
    if paths != [model_flags.STDIN]:
        sources = texts.list_files(paths)
    output = model_flags.output_file()
    pretrained = model_flags.load_model()
    splitter = pretrained.splitter()
    orderer = SentenceOrderer(pretrained)
    documents = []
    for name, path in sources.items():
        if values.sentences:
            lines = model_flags.read_lines(path)
            documents.append([Sentence(line, name) for line in lines])
        else:
            document = model_flags.read_paragraphs(path)
            documents.append(list(texts.split_documents([document], name, splitter)))
    orders = orderer.order(documents)
    if output is None:
        for sentences, groups in zip(documents, orders, strict=True):
            print(_describe(sentences, groups))
        return
    records = (
        {"source": name, "groups": _to_json(sentences, groups)}
        for name, sentences, groups in zip(sources, documents, orders, strict=True)
    )
    files.write_json_lines(output, records)
    print(f"{len(sources):,} texts in order: {output}")


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
    lines = [] if sentences else ["The text has no sentences."]
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
            note = "  [truncated to one row]" if number in group.cut else ""
            lines.append(
                f"{place:5d}  {number + 1:8d}  {confidence:10.3f}  "
                f"{sentences[number].text}{note}"
            )
        lines.append("")
    return "\n".join(lines).rstrip()
