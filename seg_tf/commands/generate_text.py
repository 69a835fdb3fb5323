r"""Continues a prompt with words sampled from a (Sega-)Transformer-XL.

  seg-tf generate-text --checkpoint=runs/sega_transformer_xl_base \
    --prompt="The waterwheel was built in" --num_words=200 --seed=0

The last line of the prompt is continued. The lines before it are paragraphs. `<unk>` is
never sampled. `<eos>`, the end of a paragraph, is printed as a line break.
"""

from collections.abc import Sequence

from absl import flags

from seg_tf.commands import model_flags
from seg_tf.inference.language_model import LanguageModel, Sampling


def define_flags() -> None:
    model_flags.define_model_flags()
    model_flags.define_memory_flag()
    flags.DEFINE_string("prompt", "", "Text to continue.")
    flags.DEFINE_integer("num_words", 200, "Number of words.", lower_bound=1)
    flags.DEFINE_float(
        "temperature", 1.0, "Sampling temperature; 0 selects the most probable word."
    )
    flags.DEFINE_integer("top_k", 0, "Sample from the K most probable words; 0: all.")
    flags.DEFINE_float(
        "top_p", 1.0, "Sample from the most probable words with this total probability."
    )
    flags.DEFINE_integer("seed", 0, "Seed of the random draws.", lower_bound=0)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    sampling = Sampling(
        temperature=values.temperature, top_k=values.top_k, top_p=values.top_p
    )
    model = LanguageModel(model_flags.load_language_model())
    print(model.generate(values.prompt, values.num_words, sampling, values.seed))
