r"""Measures the perplexity of a text under a (Sega-)Transformer-XL.

  seg-tf evaluate-perplexity --checkpoint=runs/sega_transformer_xl_base \
    --text=wikitext-103/wiki.test.tokens

An `<eos>` follows the last word of each paragraph. Several texts (a folder, or repeated
--text flags) are read as a single stream, so that only the first words lack memory.

The loss (in nats) and perplexity are per predicted word and, for WikiText, also per
token of its standard count, which includes an `<eos>` for each blank line
(docs/language_modelling.md).
"""

import itertools
from collections.abc import Sequence

import numpy as np
from absl import flags

from seg_tf import command_line
from seg_tf.commands import model_flags
from seg_tf.inference import texts
from seg_tf.inference.language_model import LanguageModel, standard_count


def define_flags() -> None:
    model_flags.define_model_flags()
    model_flags.define_memory_flag()
    model_flags.define_text_flags()
    model_flags.define_output_flag("the result as JSON")
    flags.DEFINE_multi_string(
        "text", None, "Text file or folder; may be repeated.", required=True
    )
    flags.DEFINE_integer(
        "target_length", None, "Words per segment. Default: as in training.", 1
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    sources = texts.list_files(values.text)
    output = model_flags.output_file()
    pretrained = model_flags.load_language_model()
    model = LanguageModel(pretrained)
    target_length = values.target_length or model.inputs.target_length
    paragraphs = map(model_flags.read_paragraphs, sources.values())
    text = model.word_text(itertools.chain.from_iterable(paragraphs))
    num_words = len(text.token_ids) - 1
    with command_line.progress_bar(num_words, "predicted", "words") as bar:
        measured = model.measure(text.segments(target_length), bar.update)
    counts = {
        "predicted": measured.num_predicted,
        "standard": standard_count(sources.values()),
    }
    result = {
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        "text": list(sources),
        "paragraphs": len(np.unique(text.paragraphs)),
        "memory_length": model.encoder.memory_length,
        "target_length": target_length,
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
