r"""Measures the perplexity of a text under a (Sega-)Transformer-XL.

  seg-tf evaluate-perplexity --checkpoint=runs/sega_transformer_xl_base \
    --text=wikitext-103/wiki.test.tokens

In plain text, each line is a paragraph. An `<eos>` follows the last word of each
paragraph. Several texts (repeated --text flags, or a folder) are read as one.
--records_dir evaluates the validation documents of records instead.

A text is read as a single stream (lane), so that only the first words lack memory.
Records are read in as many lanes as in validation during training. The loss (in nats)
and perplexity are per predicted word and, for WikiText, also per token of its standard
count, which includes an `<eos>` for each blank line (docs/language_modelling.md).
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from absl import flags

from seg_tf import command_line
from seg_tf.commands import model_flags
from seg_tf.config import build_from
from seg_tf.inference import texts
from seg_tf.inference.language_model import LanguageModel, check_lanes, standard_count


def define_flags() -> None:
    model_flags.define_model_flags()
    model_flags.define_memory_flag()
    model_flags.define_text_flags()
    model_flags.define_output_flag("the result as JSON")
    flags.DEFINE_multi_string("text", [], "Text file or folder; may be repeated.")
    flags.DEFINE_string("records_dir", None, "Folder of word records to read instead.")
    flags.DEFINE_enum("split", "validation", ["validation", "train"], "Record split.")
    flags.DEFINE_integer(
        "target_length", None, "Words per segment. Default: as in training.", 1
    )
    flags.DEFINE_integer(
        "lanes",
        None,
        "Number of parts of the text that are read in parallel. Default: 1; for "
        "records, as in validation during training.",
        lower_bound=1,
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    if bool(values.text) == bool(values.records_dir):
        raise ValueError(
            "One of `--text` and `--records_dir` must be given. Received: "
            f"{'both' if values.text else 'neither'}"
        )
    sources = texts.list_files(values.text) if values.text else {}
    output = model_flags.output_file()
    pretrained = model_flags.load_language_model()
    model = LanguageModel(pretrained)
    target_length = values.target_length or model.inputs.target_length
    num_standard_tokens = None
    if sources:
        paragraphs = map(model_flags.read_paragraphs, sources.values())
        text = model.word_text(itertools.chain.from_iterable(paragraphs))
        num_lanes, num_words = values.lanes or 1, len(text.token_ids)
        batches = text.segments(num_lanes, target_length)
        num_standard_tokens = standard_count(sources.values())
        num_paragraphs = len(np.unique(text.paragraphs))
        facts = {"text": list(sources), "paragraphs": num_paragraphs}
    else:
        num_lanes = values.lanes or model.inputs.validation_lanes
        num_words, batches = _records(model, target_length, num_lanes)
        facts = {"records": values.records_dir, "split": values.split}
    with command_line.progress_bar(num_words - 1, "predicted", "words") as bar:
        measured = model.measure(batches, bar.update)
    counts = {"predicted": measured.num_predicted, "standard": num_standard_tokens}
    result = {
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        **facts,
        "memory_length": model.encoder.memory_length,
        "target_length": target_length,
        "lanes": num_lanes,
        "unknown_share": measured.num_unknown / measured.num_predicted,
    }
    for name, value in result.items():
        print(f"{name:<16}{value}")
    print(f"\n{'over':<16}{'tokens':>12}{'loss':>10}{'perplexity':>14}")
    for name, count in counts.items():
        if count:
            loss, perplexity = measured.loss(count), measured.perplexity(count)
            result[name] = {"tokens": count, "loss": loss, "perplexity": perplexity}
            print(f"{name:<16}{count:>12,}{loss:>10.4f}{perplexity:>14,.2f}")
    model_flags.write_result(output, result)


def _records(
    model: LanguageModel, target_length: int, num_lanes: int
) -> tuple[int, Iterable[dict[str, Any]]]:
    """Returns the number of words in the records, and their batches."""
    folder, split = pathlib.Path(flags.FLAGS.records_dir), flags.FLAGS.split
    config = dataclasses.replace(
        model.inputs, target_length=target_length, validation_lanes=num_lanes
    )
    inputs = build_from(
        config, records_dir=folder, seed=0, vocab_size=model.vocabulary.size
    )
    if inputs.vocab_checksum != model.vocabulary.checksum:
        raise ValueError(
            "`--records_dir` must have the vocabulary of the checkpoint, whose sha256 "
            f"is {model.vocabulary.checksum}. Received: {folder}, with "
            f"{inputs.vocab_checksum}"
        )
    num_words = inputs.manifest.count("pieces", split)
    check_lanes(num_words, num_lanes)
    # Each batch contains all lanes, so that each lane keeps its row.
    dataset = inputs.validation_dataset(num_lanes, split=split)
    return num_words, dataset.as_numpy_iterator()


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
