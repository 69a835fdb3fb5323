"""Compares our sentence splitter with NLTK's Punkt, with the same parameters.

Times both sides in turn on one core, on slices of the text. Then splits each paragraph
(line) of the text with both and counts those whose sentences differ. If there are any,
exits with status 1. White space around NLTK's sentences is ignored.

A quick run, and a full run with the parameters that NLTK distributes:

  python -m benchmarks.sentence_splitting --limit_mb=10
  python -m benchmarks.sentence_splitting --parameters=punkt_tab/english
"""

import collections
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import flags

from benchmarks import paired, sample_data
from seg_tf import command_line

_INPUT = flags.DEFINE_multi_string(
    "input",
    [
        str(sample_data.WIKIPEDIA),
        str(sample_data.BOOKS),
    ],
    "Folders of text files, one paragraph a line; may be repeated. Default: the "
    "Wikipedia text and the books of the sample data.",
)
_PARAMETERS = flags.DEFINE_string(
    "parameters",
    "english",
    "'english', a JSON file or a punkt_tab folder.",
)
_LIMIT = flags.DEFINE_float("limit_mb", None, "Take so much of each input.", 0)
_ROUND = flags.DEFINE_float("round_mb", 5, "MB of text of a timed round.", 0)
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Counted rounds.", 1)


def _read_paragraphs(folder: pathlib.Path) -> Iterator[str]:
    """Yields the non-blank lines of all files below `folder`, up to the limit."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    if not paths:
        raise ValueError(f"`--input` must hold text files. Received: {folder}")
    left = float("inf") if _LIMIT.value is None else _LIMIT.value * 1e6
    for path in paths:
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            if line.strip() and left > 0:
                left -= len(line.encode())
                yield line


def _nltk_split(parameters) -> Callable[[str], list[str]]:
    from nltk.tokenize import punkt

    theirs = punkt.PunktParameters()
    theirs.abbrev_types = set(parameters.abbreviation_types)
    theirs.collocations = set(parameters.collocations)
    theirs.sent_starters = set(parameters.sentence_starters)
    theirs.ortho_context = collections.defaultdict(int, parameters.orthographic_context)
    return punkt.PunktSentenceTokenizer(theirs).tokenize


def _count_differing(
    paragraphs: Sequence[str],
    ours: Callable[[str], list[str]],
    theirs: Callable[[str], list[str]],
) -> int:
    num_differing = 0
    bar = command_line.progress_bar(len(paragraphs), "comparing", unit=" paragraphs")
    with bar:
        for paragraph in paragraphs:
            expected = [sentence.strip() for sentence in theirs(paragraph)]
            if ours(paragraph) != expected:
                num_differing += 1
                if num_differing <= 5:
                    bar.write(f"differs: {paragraph[:300]!r}", file=sys.stderr)
            bar.update()
    return num_differing


def _slices(paragraphs: Sequence[str], size: float) -> list[list[str]]:
    """Splits `paragraphs` into runs of at least `size` bytes, except the last."""
    slices, length = [[]], 0
    for paragraph in paragraphs:
        if length >= size:
            slices.append([])
            length = 0
        slices[-1].append(paragraph)
        length += len(paragraph.encode())
    return slices


def _timed(split: Callable[[str], list[str]], slices: list[list[str]]) -> Callable:
    """Returns a side for `paired.interleave` that splits the next slice per call."""
    sizes = [sum(len(p.encode()) for p in paragraphs) for paragraphs in slices]
    turn = iter(range(sys.maxsize))

    def work() -> float:
        number = next(turn) % len(slices)
        for paragraph in slices[number]:
            split(paragraph)
        return sizes[number]

    return work


def main(_: Sequence[str]) -> None:
    from seg_tf.text.punkt import SentenceSplitter
    from seg_tf.text.splitters import load_parameters

    paired.pin_to_one_core()
    parameters = load_parameters(_PARAMETERS.value)
    splitter = SentenceSplitter(parameters)
    theirs = _nltk_split(parameters)
    paired.print_machine()
    print(f"parameters {parameters.name}, checksum {parameters.checksum[:16]}")
    differing = 0
    for name in _INPUT.value:
        paragraphs = list(_read_paragraphs(pathlib.Path(name)))
        size = sum(len(paragraph.encode()) for paragraph in paragraphs)
        print(f"{name}: {size / 1e6:.1f} MB, {len(paragraphs)} paragraphs, one core")
        # Spread over the text, so that the timed words are not all known already.
        slices = _slices(paragraphs, _ROUND.value * 1e6)
        slices = slices[:: max(1, len(slices) // (_ROUNDS.value + 1))]
        rates = paired.interleave(
            {
                "ours": _timed(SentenceSplitter(parameters).split, slices),
                "NLTK": _timed(theirs, slices),
            },
            _ROUNDS.value,
        )
        paired.report(
            rates, of="ours", against="NLTK", unit="MB/s", scale=1e-6, target=3
        )
        num_differing = _count_differing(paragraphs, splitter.split, theirs)
        print(f"  differing paragraphs: {num_differing} of {len(paragraphs)}")
        differing += num_differing
    paired.print_machine()
    if differing:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(command_line.run(main))
