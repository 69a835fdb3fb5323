r"""Scores a sentence splitter against a treebank with annotated sentences.

  seg-tf evaluate-sentences --gold=en_ewt-ud-test.conllu \
    --sentence_parameters=english,universal --errors=20

--gold is a CoNLL-U file with `# newpar` where paragraphs begin, as in Universal
Dependencies, which has one for most languages. Splitters are named as for
`build-records`. For each, the command prints precision, recall and F1 of the ends of
sentences: inside paragraphs, where the splitter has to find them, and overall, where
the ends of paragraphs are given. --errors lists the first false (+) and missed (-)
ends.

Most missed ends have no mark at all: headings, signatures, a sentence in brackets. A
table of abbreviations changes the precision more than the recall.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from absl import flags

from seg_tf import command_line
from seg_tf.text.splitters import load_parameters, make_splitter

_CONTEXT = 30

# A paragraph -> start and stop of each sentence.
Spans = Callable[[str], Iterable[tuple[int, int]]]


@dataclasses.dataclass(frozen=True)
class GoldParagraph:
    """A paragraph and the ends of its sentences, the last at the end of the text."""

    text: str
    ends: tuple[int, ...]

    def inner_ends(self, spans: Spans) -> tuple[set[int], set[int]]:
        """Ends inside the paragraph: a splitter's, and the true ones."""
        predicted = {stop for _, stop in spans(self.text)}
        return predicted - {len(self.text)}, set(self.ends) - {len(self.text)}


@dataclasses.dataclass
class BoundaryCounts:
    """Ends of sentences inside paragraphs.

    Attributes:
        right: number of ends that were predicted and are true.
        predicted: number of ends that were predicted.
        gold: number of true ends.
        num_paragraphs: number of paragraphs, whose own ends are not counted.
    """

    right: int = 0
    predicted: int = 0
    gold: int = 0
    num_paragraphs: int = 0

    def scores(self, *, paragraph_ends: bool) -> tuple[float, float, float]:
        """Precision, recall and F1, with or without the ends of paragraphs."""
        extra = self.num_paragraphs if paragraph_ends else 0
        right, predicted, gold = (
            n + extra for n in (self.right, self.predicted, self.gold)
        )
        return (
            right / predicted if predicted else 1.0,
            right / gold if gold else 1.0,
            2 * right / (predicted + gold) if predicted + gold else 1.0,
        )


def read_gold(path: pathlib.Path) -> list[GoldParagraph]:
    """Reads the paragraphs of a CoNLL-U file.

    Sentences are joined by a blank, or by nothing after SpaceAfter=No.

    Raises:
        ValueError: if a sentence has no `# text`, or the file no sentence.
    """
    paragraphs: list[tuple[str, list[int]]] = []
    for block in path.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n\n"):
        lines = block.strip("\n").split("\n")
        if lines == [""]:
            continue
        texts = [line for line in lines if line.startswith("# text = ")]
        if not texts:
            raise ValueError(
                f"`--gold` must be a CoNLL-U file whose sentences have a line "
                f"'# text = '. Received: {path}, which has one that begins {lines[0]!r}"
            )
        if not paragraphs or any(line.startswith("# newpar") for line in lines):
            paragraphs.append(("", []))
        text, ends = paragraphs.pop()
        text += texts[0].removeprefix("# text = ")
        is_glued = "SpaceAfter=No" in lines[-1].split("\t")[-1]
        paragraphs.append((text + " " * (not is_glued), [*ends, len(text)]))
    if not paragraphs:
        raise ValueError(f"`--gold` must hold sentences. Received: {path}")
    return [GoldParagraph(text.rstrip(), tuple(ends)) for text, ends in paragraphs]


def count_boundaries(
    spans: Spans, paragraphs: Iterable[GoldParagraph]
) -> BoundaryCounts:
    """Counts the ends that a splitter finds in paragraphs."""
    counts = BoundaryCounts()
    for paragraph in paragraphs:
        predicted, gold = paragraph.inner_ends(spans)
        counts.right += len(predicted & gold)
        counts.predicted += len(predicted)
        counts.gold += len(gold)
        counts.num_paragraphs += 1
    return counts


def _errors(spans: Spans, paragraphs: Iterable[GoldParagraph]) -> Iterator[str]:
    """A line for each false or missed end."""
    for paragraph in paragraphs:
        predicted, gold = paragraph.inner_ends(spans)
        for end in sorted(predicted ^ gold):
            before = paragraph.text[max(0, end - _CONTEXT) : end]
            after = paragraph.text[end : end + _CONTEXT]
            yield f"  {'+' if end in predicted else '-'} {before!r} {after!r}"


def define_flags() -> None:
    flags.DEFINE_string("gold", None, "CoNLL-U file.", required=True)
    flags.DEFINE_list(
        "sentence_parameters",
        ["english"],
        "Splitters, comma-separated, each named as for `build-records`.",
    )
    flags.DEFINE_integer("errors", 0, "List this many errors of each splitter.", 0)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    paragraphs = read_gold(pathlib.Path(values.gold))
    num_sentences = sum(len(paragraph.ends) for paragraph in paragraphs)
    print(f"{values.gold}: {num_sentences} sentences, {len(paragraphs)} paragraphs")
    for name in values.sentence_parameters:
        spans = make_splitter(load_parameters(name)).spans
        counts = count_boundaries(spans, paragraphs)
        wrong, missed = counts.predicted - counts.right, counts.gold - counts.right
        print(f"{name}: {wrong} wrong, {missed} missed")
        for title, paragraph_ends in (("inside paragraphs", False), ("all", True)):
            precision, recall, f1 = (
                f"{100 * score:.1f}"
                for score in counts.scores(paragraph_ends=paragraph_ends)
            )
            print(f"  {title:18}precision {precision}, recall {recall}, F1 {f1}")
        for line in itertools.islice(_errors(spans, paragraphs), values.errors):
            print(line)


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
