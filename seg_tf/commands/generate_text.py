r"""Continues a prompt, with a pretrained (Sega-)Transformer-XL.

  seg-tf generate-text --checkpoint=runs/sega_transformer_xl_base \
    --prompt="The waterwheel was built in" --num_words=200 --seed=0

prints the prompt and then words sampled from the model, one by one: a demonstration of
what a language model has learned. The same seed gives the same text.

--temperature below 1 favours probable words, 0 always takes the most probable one;
--top_k and --top_p exclude improbable ones. `<unk>` is never sampled. `<eos>`, which
ends a paragraph and counts as a word, is printed as a line break, and never sampled
twice in a row.

The last line of a prompt is continued, unless a blank line follows it; lines before it
are paragraphs. --prompt_file=beginning.txt reads the prompt from a file. Without a
prompt, a new paragraph begins.

A word attends to the --memory_length words before it, by default the length of
training. Punkt finds the sentences, by which a Sega-Transformer-XL measures distances,
in the paragraph so far.
"""

import itertools
import pathlib
import sys
from collections.abc import Sequence

import numpy as np
from absl import flags

from seg_tf import command_line
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import model_flags
from seg_tf.inference.generation import Sampling, TextGenerator
from seg_tf.inference.language_model import LanguageModel


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_string("prompt", None, "The text to continue.")
    flags.DEFINE_string("prompt_file", None, "A file with the prompt.")
    flags.DEFINE_integer("num_words", 200, "Words to write.", lower_bound=1)
    flags.DEFINE_float(
        "temperature", 1.0, "0 takes the most probable word.", lower_bound=0.0
    )
    flags.DEFINE_integer(
        "top_k",
        0,
        "Sample from this many of the most probable words; 0: from all.",
        lower_bound=0,
    )
    flags.DEFINE_float(
        "top_p",
        1.0,
        "Sample from the most probable words with this total probability; 1: from all.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer("seed", 0, "Seed of the random draws.", lower_bound=0)
    flags.DEFINE_integer(
        "memory_length",
        None,
        "Previous words that each word attends to. Default: as in training.",
        lower_bound=0,
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    prompt = _prompt()
    sampling = Sampling(
        temperature=values.temperature, top_k=values.top_k, top_p=values.top_p
    )
    model = LanguageModel(model_flags.load_model(values.memory_length))
    generator = TextGenerator(model, prompt)
    text = generator.text
    num_unknown = int(np.sum(text.token_ids == model.vocabulary.unk_id))
    if num_unknown:
        print(
            f"Note: the model does not know {num_unknown:,} of the "
            f"{len(text.token_ids) - 1:,} words of the prompt (with <eos>)",
            file=sys.stderr,
        )
    print(prompt.rstrip("\n"), end="\n" if prompt and text.begins_paragraph else "")
    words = generator.sample(sampling, np.random.default_rng(values.seed))
    for token_id in itertools.islice(words, values.num_words):
        print(text.spell(token_id), end="", flush=True)
    print()


def _prompt() -> str:
    values = flags.FLAGS
    if values.prompt is not None and values.prompt_file is not None:
        raise ValueError(
            "Only one of `--prompt` and `--prompt_file` can be given. Received: both"
        )
    if values.prompt_file is None:
        return values.prompt or ""
    try:
        return pathlib.Path(values.prompt_file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`--prompt_file` must be UTF-8 text. Received: {values.prompt_file}, "
            f"which is not at byte {error.start} ({error.reason})"
        ) from error


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
