r"""Measures the perplexity of a text under a pretrained (Sega-)Transformer-XL.

  seg-tf evaluate-perplexity --checkpoint=runs/sega_transformer_xl_base \
    --text=wikitext-103/wiki.test.tokens

A line that is not blank is a paragraph, including headings; --format reads other texts
than plain ones. Words and sentences are found as for the records of the run, and an
`<eos>` follows the last word of a paragraph. Several texts (--text given again, or a
folder) are read as one, in that order.

  seg-tf evaluate-perplexity --checkpoint=runs/sega_transformer_xl_base \
    --records_dir=records/wikiwords --split=validation

reads the documents of records instead. `--split=train` is for records of a test set
that were built with --validation_fraction=0.

Each word attends to the earlier words of its segment (--target_length) and to the
--memory_length words before it, both as in training by default. A longer memory needs
no training, since memory has no weights. Text is read in one lane, so that only the
first words lack memory. Records are read in the lanes of the validation of
training, which is faster, but each lane starts without memory. --lanes overrides both.

The command prints the loss in nats and the perplexity, its exponential, over

* the words that were predicted, `<eos>` included: all but the very first;
* for WikiText, where every file has titles such as ` = Homarus gammarus = `, its
  standard count: words between white space, and an `<eos>` for every line, blank ones
  too (245,569 for the test split of WikiText-103). As in the code released with the
  paper, blank lines are not read, so nothing predicts their `<eos>`: the same sum of
  losses is divided by a larger count. The figure lacks the losses of the blank lines
  and of the first word. It is a lower bound of a perplexity that has them.

Perplexities are only comparable where the words are the same. A run on words cut at
punctuation (--tokenizer=words) predicts more and easier words of the same text than one
on words between white space. The more words are `<unk>`, whose share is printed, the
easier a text is.

--output=result.json writes all results as JSON.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import model_flags, text_flags
from seg_tf.config import build_from
from seg_tf.inference import texts
from seg_tf.inference.language_model import (
    LanguageModel,
    check_lanes,
    standard_count,
)


def define_flags() -> None:
    model_flags.define_model_flags()
    text_flags.define_text_flags()
    flags.DEFINE_multi_string(
        "text", [], "A text file or a folder of them; may be given several times."
    )
    flags.DEFINE_string(
        "records_dir", None, "Folder of build_documents, instead of a text."
    )
    flags.DEFINE_enum(
        "split", "validation", ["validation", "train"], "Split of the records."
    )
    flags.DEFINE_integer(
        "memory_length",
        None,
        "Words before a segment that the model attends to. Default: as in training.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "target_length",
        None,
        "Words of a segment. Default: as in training.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "lanes",
        None,
        "Parts of the text that are read side by side. Default: 1 for a text, for "
        "records the number in the validation of training.",
        lower_bound=1,
    )
    flags.DEFINE_string("output", None, "JSON file to write the result to as well.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    if bool(values.text) == bool(values.records_dir):
        raise ValueError(
            "One of `--text` and `--records_dir` must say what is to be predicted. "
            f"Received: {'both' if values.text else 'neither'}"
        )
    sources = texts.list_files(values.text) if values.text else {}
    if values.output:
        output_paths.file_path(values.output, "output")
    pretrained = model_flags.load_model(values.memory_length)
    model = LanguageModel(pretrained)
    target_length = values.target_length or model.inputs.target_length
    num_standard_tokens = None
    if sources:
        paragraphs = map(text_flags.read_paragraphs, sources.values())
        text = model.word_text(itertools.chain.from_iterable(paragraphs))
        num_lanes, num_words = values.lanes or 1, len(text.token_ids)
        batches = text.segments(num_lanes, target_length)
        num_standard_tokens = standard_count(sources.values())
        facts = {
            "text": list(sources),
            "paragraphs": len(np.unique(text.paragraphs)),
        }
    else:
        num_lanes = values.lanes or model.inputs.validation_lanes
        num_words, batches = _records(model, target_length, num_lanes)
        facts = {"records": values.records_dir, "split": values.split}
    with command_line.progress_bar(num_words - 1, "predicted", "words") as bar:
        measured = model.measure(batches, bar.update)

    def figures(num_tokens: int) -> dict[str, Any]:
        return {
            "tokens": num_tokens,
            "loss": measured.loss(num_tokens),
            "perplexity": measured.perplexity(num_tokens),
        }

    result = {
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        **facts,
        "memory_length": model.encoder.memory_length,
        "target_length": target_length,
        "lanes": num_lanes,
        "predicted": figures(measured.num_predicted),
        "unknown_share": measured.num_unknown / measured.num_predicted,
    }
    if num_standard_tokens:
        result["standard"] = figures(num_standard_tokens)
    if values.output:
        files.write_json(pathlib.Path(values.output), result)
    print(_describe(result))


def _records(
    model: LanguageModel, target_length: int, num_lanes: int
) -> tuple[int, Iterable[dict[str, Any]]]:
    """Number of words of the records, and their batches."""
    folder, split = pathlib.Path(flags.FLAGS.records_dir), flags.FLAGS.split
    config = dataclasses.replace(
        model.inputs, target_length=target_length, validation_lanes=num_lanes
    )
    inputs = build_from(
        config, records_dir=folder, seed=0, vocab_size=model.vocabulary.size
    )
    if inputs.vocab_checksum != model.vocabulary.checksum:
        raise ValueError(
            "`--records_dir` must be of the vocabulary of the checkpoint, whose sha256 "
            f"is {model.vocabulary.checksum}. Received: {folder}, with "
            f"{inputs.vocab_checksum}"
        )
    num_words = inputs.manifest.count("pieces", split)
    check_lanes(num_words, num_lanes)
    # All lanes are one batch, so that each keeps its row.
    dataset = inputs.validation_dataset(num_lanes, split=split)
    return num_words, dataset.as_numpy_iterator()


def _describe(result: dict[str, Any]) -> str:
    """The result, for people."""
    if "text" in result:
        source = f"{', '.join(result['text'])}: {result['paragraphs']:,} paragraphs"
    else:
        source = f"{result['records']}, split {result['split']}"
    lines = [
        f"Checkpoint  {result['checkpoint']}",
        f"Text        {source}",
        f"Read with   memory length {result['memory_length']:,}, target length "
        f"{result['target_length']:,}, lanes {result['lanes']:,}",
        f"<unk>       {result['unknown_share']:.2%} of the predicted words",
        "",
        f"{'over':<28}{'tokens':>12}{'loss':>10}{'perplexity':>14}",
    ]
    rows = {"predicted words": "predicted", "standard count, lower bound": "standard"}
    lines += [
        f"{title:<28}{result[name]['tokens']:>12,}{result[name]['loss']:>10.4f}"
        f"{result[name]['perplexity']:>14,.2f}"
        for title, name in rows.items()
        if name in result
    ]
    lines.append("")
    if "standard" in result:
        lines += [
            "The standard count of WikiText has an <eos> for every line. It divides",
            "the same losses by more tokens: the losses of blank lines are missing.",
        ]
    lines.append("The very first word is not predicted: none comes before it.")
    return "\n".join(lines)


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
