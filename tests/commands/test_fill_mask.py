"""The command that fills masks."""

import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import fill_mask
from seg_tf.inference.masked_lm import MaskFiller
from tests import command_calls

pytestmark = pytest.mark.slow

TEXTS = ["w1 [MASK] w3. [MASK] w5.", "W6 [MASK]."]


def run(run_dir, *arguments):
    command_calls.run(fill_mask, f"--checkpoint={run_dir}", *arguments)


@pytest.mark.parametrize("num_arguments", [0, 1])
def test_the_best_pieces_are_printed(run_dir, tmp_path, capsys, num_arguments):
    path = tmp_path / "masked.txt"
    path.write_text("\n\n".join(TEXTS[num_arguments:]))
    run(run_dir, "--num_best=3", *TEXTS[:num_arguments], f"--file={path}")
    expected = []
    filler = MaskFiller(load_pretrained(run_dir))
    for text, masks in zip(TEXTS, filler.predict(TEXTS, num_best=3), strict=True):
        expected.append(text)
        for number, best in enumerate(masks, start=1):
            pieces = ", ".join(f"{one.piece} {one.probability:.3f}" for one in best)
            expected.append(f"  mask {number}: {pieces}")
    assert capsys.readouterr().out.splitlines() == expected
    assert len(expected) == 5


def test_errors_name_what_is_wrong(run_dir):
    with pytest.raises(ValueError, match=r"as arguments, or --file. Received: none"):
        run(run_dir)
    with pytest.raises(ValueError, match=r"each hold a \[MASK\]. Received: 'W1.'"):
        run(run_dir, "W1.")
    # As a process, too, arguments are no mistake.
    code, _, errors = command_calls.call("fill-mask", "W1.")
    assert (code, "must each hold a [MASK]" in errors) == (1, True)
