r"""Fills masks in texts with a pretrained masked language model.

  seg-tf fill-mask "She opened the [MASK] and went into the house."

prints the most probable word pieces for each [MASK], with their probabilities. By
default, the command uses a model that is included in the package. Pass several texts as
separate arguments, or as the lines of a file (`-` is stdin):

  seg-tf fill-mask --checkpoint=runs/segabert_base --file=masked.txt --num_best=10
"""

from collections.abc import Sequence

from absl import flags

from seg_tf.commands import model_flags
from seg_tf.inference.masked_lm import MaskFiller

_INCLUDED = "segabert_mini_en"
_TEXTS_PER_BATCH = 16
RUN = {"takes_arguments": True}


def define_flags() -> None:
    model_flags.define_model_flags(default=_INCLUDED)
    flags.DEFINE_string("file", None, "File with one text per line; `-` is stdin.")
    flags.DEFINE_integer(
        "num_best", 5, "Number of word pieces to print per mask.", lower_bound=1
    )


def main(argv: Sequence[str]) -> None:
    values = flags.FLAGS
    texts = argv[1:] + (model_flags.read_lines(values.file) if values.file else [])
    if not texts:
        raise ValueError(
            "Pass texts with [MASK] as arguments, or --file. Received: none"
        )
    filler = MaskFiller(model_flags.load_model())
    for begin in range(0, len(texts), _TEXTS_PER_BATCH):
        batch = texts[begin : begin + _TEXTS_PER_BATCH]
        fillings = filler.predict(batch, values.num_best)
        for text, masks in zip(batch, fillings, strict=True):
            print(text)
            for number, best in enumerate(masks, start=1):
                pieces = (f"{piece} {probability:.3f}" for piece, probability in best)
                print(f"  mask {number}: {', '.join(pieces)}")
