r"""Scores a sentence splitter against a treebank, whose sentences people have marked.

  python -m seg_tf.commands.evaluate_sentences --gold=en_ewt-ud-test.conllu \
    --sentence_parameters=english,universal --errors=20

--gold is a CoNLL-U file with `# newpar` where paragraphs begin, as those of Universal
Dependencies, which has one for most languages. Splitters are named as for
`build_records`. For each, it prints the share of the ends it finds that are right
(precision), the share of the right ones that it finds (recall) and their F1: of ends
inside paragraphs, which it has to find, and of all, with the ends of paragraphs, which
it is given. --errors lists the first ends that are wrong (+) and missed (-).

Much of what is missed has no mark at all: headings, signatures, a sentence in
brackets. A table of abbreviations changes the precision more than the recall.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Sequence

from absl import flags

from seg_tf import command_line
from seg_tf.text.splitters import load_parameters, make_splitter

_CONTEXT = 30


@dataclasses.dataclass(frozen=True)
class GoldParagraph:
    """A paragraph and where its sentences end, the last at the end of the text."""

    text: str
    ends: tuple[int, ...]


@dataclasses.dataclass
class BoundaryCounts:
    """Ends of sentences inside paragraphs, in numbers.

    Attributes:
        right: ends that were found and are some.
        found: ends that were found.
        gold: ends that there are.
        num_paragraphs: paragraphs, whose own ends are not among these.
    """

    right: int = 0
    found: int = 0
    gold: int = 0
    num_paragraphs: int = 0

    def scores(self, *, paragraph_ends: bool) -> tuple[float, float, float]:
        """Precision, recall and F1, with or without the ends of paragraphs."""
        given = self.num_paragraphs if paragraph_ends else 0
        right, found, gold = (n + given for n in (self.right, self.found, self.gold))
        return (
            right / found if found else 1.0,
            right / gold if gold else 1.0,
            2 * right / (found + gold) if found + gold else 1.0,
        )


def read_gold(path: pathlib.Path) -> list[GoldParagraph]:
    """The paragraphs of a CoNLL-U file.

    Sentences are joined by a blank, or by nothing where the last word says
    SpaceAfter=No.

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
        glued = "SpaceAfter=No" in lines[-1].split("\t")[-1]
        paragraphs.append((text + " " * (not glued), [*ends, len(text)]))
    if not paragraphs:
        raise ValueError(f"`--gold` must hold sentences. Received: {path}")
    return [GoldParagraph(text.rstrip(), tuple(ends)) for text, ends in paragraphs]


def found_ends(
    spans: Callable[[str], Iterable[tuple[int, int]]], paragraph: GoldParagraph
) -> tuple[set[int], set[int]]:
    """The ends inside `paragraph` that a splitter finds, and those that there are."""
    end = len(paragraph.text)
    found = {stop for _, stop in spans(paragraph.text)} - {end}
    return found, set(paragraph.ends) - {end}


def count_boundaries(
    spans: Callable[[str], Iterable[tuple[int, int]]],
    paragraphs: Iterable[GoldParagraph],
) -> BoundaryCounts:
    """Counts the ends that a splitter finds in `paragraphs`.

    Args:
        spans: a splitter's function from a paragraph to the spans of its sentences.
        paragraphs: what to split.
    """
    counts = BoundaryCounts()
    for paragraph in paragraphs:
        found, gold = found_ends(spans, paragraph)
        counts.right += len(found & gold)
        counts.found += len(found)
        counts.gold += len(gold)
        counts.num_paragraphs += 1
    return counts


def _errors(
    spans: Callable[[str], Iterable[tuple[int, int]]],
    paragraphs: Iterable[GoldParagraph],
) -> Iterable[str]:
    """A line for each end that is wrong or missed."""
    for paragraph in paragraphs:
        found, gold = found_ends(spans, paragraph)
        text = paragraph.text
        for end in sorted(found ^ gold):
            before = text[max(0, end - _CONTEXT) : end]
            after = text[end : end + _CONTEXT]
            yield f"  {'+' if end in found else '-'} {before!r} {after!r}"


def define_flags() -> None:
    flags.DEFINE_string("gold", None, "CoNLL-U file.", required=True)
    flags.DEFINE_list(
        "sentence_parameters",
        ["english"],
        "Splitters, comma-separated, each named as for `build_records`.",
    )
    flags.DEFINE_integer("errors", 0, "List so many errors of each splitter.", 0)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    paragraphs = read_gold(pathlib.Path(values.gold))
    num_sentences = sum(len(paragraph.ends) for paragraph in paragraphs)
    print(f"{values.gold}: {num_sentences} sentences, {len(paragraphs)} paragraphs")
    for name in values.sentence_parameters:
        spans = make_splitter(load_parameters(name)).spans
        counts = count_boundaries(spans, paragraphs)
        wrong, missed = counts.found - counts.right, counts.gold - counts.right
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
