r"""Measures the perplexity of a text under a pretrained (Sega-)Transformer-XL.

  python -m seg_tf.commands.evaluate_perplexity \
    --checkpoint=runs/sega_transformer_xl_base --text=wikitext-103/wiki.test.tokens

Every line of a text that is not blank is a paragraph, headings too. Its words and
sentences are found as for the records of the run, and an `<eos>` follows its last word.
Several texts (--text given again, or a folder) are read as one, in that order.

  python -m seg_tf.commands.evaluate_perplexity \
    --checkpoint=runs/sega_transformer_xl_base \
    --records_dir=records/wikiwords --split=validation

takes the documents of records instead. `--split=train` is for records that were built
of a test set with --validation_fraction=0.

Each word attends to the earlier words of its segment (--target_length) and to the
--memory_length words before it, both as in training unless given here. A longer memory
needs no training, since memory has no weights. Text is read in one lane, so that only
the first words lack memory; records in as many lanes as in the validation of training,
which is faster and starts each lane without memory. --lanes sets the number for either.

Printed are the loss in nats and the perplexity, its exponential, over

* the words that were predicted, `<eos>` included: all but the very first, which has no
  word before it to be predicted from;
* for WikiText, that is where every file has titles such as ` = Homarus gammarus = `,
  its standard count too: words between white space, and an `<eos>` for every line,
  blank ones too (245,569 for the test split of WikiText-103). Blank lines are not read
  here, nor are they by the code released with the paper, so that nothing predicts their
  `<eos>`: the same sum of losses is divided by a larger count. It leaves out the losses
  of the blank lines, and of the first word, and is therefore a lower bound of a
  perplexity that has them, in no way a better figure.

Perplexities can be compared where the words are the same. A run on words that were cut
at punctuation (--tokenizer=words) predicts more and easier words of the same text than
one on words between white space; and the more words are `<unk>`, whose share is
printed, the easier a text is.

--output=result.json writes all results as JSON.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import model_flags
from seg_tf.config import build_from
from seg_tf.inference import perplexity, texts, word_segments
from seg_tf.inference.language_model import LanguageModel


@dataclasses.dataclass(frozen=True)
class _Source:
    """Words to be predicted, and what is said of where they come from.

    Attributes:
        batches: features, lane beside lane.
        num_lanes: rows of a batch.
        num_predicted: words to be predicted.
        facts: for the result.
        num_standard_tokens: for WikiText, its standard count.
    """

    batches: Iterable[dict[str, Any]]
    num_lanes: int
    num_predicted: int
    facts: dict[str, Any]
    num_standard_tokens: int | None = None


def define_flags() -> None:
    model_flags.define_model_flags()
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
        "records as many as in the validation of training.",
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
    sources = texts.list_files(values.text) if values.text else None
    if values.output:
        output_paths.file_path(values.output, "output")
    pretrained = model_flags.load_model(values.memory_length)
    model = LanguageModel(pretrained)
    target_length = values.target_length or model.inputs.target_length
    if sources:
        source = _of_texts(sources, model, target_length)
    else:
        source = _of_records(pathlib.Path(values.records_dir), model, target_length)
    with command_line.progress_bar(source.num_predicted, "predicted", "words") as bar:
        measured = perplexity.measure(model, source.batches, bar.update)
    result = {
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        **source.facts,
        "memory_length": model.encoder.memory_length,
        "target_length": target_length,
        "lanes": source.num_lanes,
        "predicted": _figures(measured, measured.num_predicted),
        "unknown_share": measured.num_unknown / measured.num_predicted,
    }
    if source.num_standard_tokens:
        result["standard"] = _figures(measured, source.num_standard_tokens)
    if values.output:
        files.write_json(pathlib.Path(values.output), result)
    print(_describe(result))


def _of_texts(
    sources: dict[str, pathlib.Path], model: LanguageModel, target_length: int
) -> _Source:
    text = word_segments.read_text(sources, model)
    num_lanes = flags.FLAGS.lanes or 1
    return _Source(
        batches=word_segments.segments(text, num_lanes, target_length),
        num_lanes=num_lanes,
        num_predicted=len(text.token_ids) - 1,
        facts={
            "text": list(sources),
            "lines": text.num_lines,
            "blank_lines": text.num_blank_lines,
        },
        num_standard_tokens=text.num_standard_tokens,
    )


def _of_records(
    folder: pathlib.Path, model: LanguageModel, target_length: int
) -> _Source:
    split = flags.FLAGS.split
    num_lanes = flags.FLAGS.lanes or model.inputs.validation_lanes
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
    word_segments.check_lanes(num_words, num_lanes)
    # All lanes are one batch, so that each keeps its row.
    dataset = inputs.validation_dataset(num_lanes, split=split)
    return _Source(
        batches=dataset.as_numpy_iterator(),
        num_lanes=num_lanes,
        num_predicted=num_words - 1,
        facts={"records": str(folder), "split": split},
    )


def _figures(measured: perplexity.Measured, num_tokens: int) -> dict[str, Any]:
    return {
        "tokens": num_tokens,
        "loss": measured.loss(num_tokens),
        "perplexity": measured.perplexity(num_tokens),
    }


def _describe(result: dict[str, Any]) -> str:
    """The result for people."""
    if "text" in result:
        what = (
            f"{', '.join(result['text'])}: {result['lines']:,} lines, "
            f"{result['blank_lines']:,} of them blank"
        )
    else:
        what = f"{result['records']}, split {result['split']}"
    lines = [
        f"Checkpoint  {result['checkpoint']}",
        f"Text        {what}",
        f"Read with   memory length {result['memory_length']:,}, target length "
        f"{result['target_length']:,}, lanes {result['lanes']:,}",
        f"<unk>       {result['unknown_share']:.2%} of the predicted words",
        "",
        f"{'over':<28}{'tokens':>12}{'loss':>10}{'perplexity':>14}",
        _row("predicted words", result["predicted"]),
    ]
    if "standard" in result:
        lines += [
            _row("standard count, lower bound", result["standard"]),
            "",
            "The standard count of WikiText is of words between white space and an "
            "<eos> a line. It",
            "divides the same losses by more tokens: those of the blank lines' <eos>, "
            "which are not",
            "read, are left out.",
        ]
    else:
        lines.append("")
    lines.append("The very first word is not predicted: none comes before it.")
    return "\n".join(lines)


def _row(name: str, figures: dict[str, Any]) -> str:
    return (
        f"{name:<28}{figures['tokens']:>12,}{figures['loss']:>10.4f}"
        f"{figures['perplexity']:>14,.2f}"
    )


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
