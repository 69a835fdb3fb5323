r"""Evaluates sentence splitters on a treebank with annotated sentences.

  python -m benchmarks.sentence_boundaries --gold=en_ewt-ud-test.conllu \
    --sentence_parameters=english,universal --errors=20

--gold is a CoNLL-U file in which `# newpar` marks the beginning of each paragraph, as
in Universal Dependencies. The command prints precision, recall and F1 of sentence ends
inside paragraphs, and of all sentence ends, where paragraph ends count as correct.
--errors lists the first false (+) and missed (-) ends.
"""

import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from absl import flags

from benchmarks.sample_data import SAMPLE_DATA
from seg_tf import command_line
from seg_tf.text.splitters import load_parameters, make_splitter

_CONTEXT = 30

# Maps a paragraph to the start and stop of each sentence.
Spans = Callable[[str], Iterable[tuple[int, int]]]


class GoldParagraph(NamedTuple):
    """A paragraph and the end offsets of its sentences, including the last one."""

    text: str
    ends: tuple[int, ...]

    def inner_ends(self, spans: Spans) -> tuple[set[int], set[int]]:
        """Returns the predicted and the true sentence ends inside the paragraph."""
        predicted = {stop for _, stop in spans(self.text)}
        return predicted - {len(self.text)}, set(self.ends) - {len(self.text)}


def read_gold(path: pathlib.Path) -> list[GoldParagraph]:
    """Reads the paragraphs of a CoNLL-U file.

    Sentences are joined by a space, except after `SpaceAfter=No`. Raises ValueError if
    a sentence has no line `# text = `.
    """
    paragraphs: list[tuple[str, list[int]]] = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
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
    return [GoldParagraph(text.rstrip(), tuple(ends)) for text, ends in paragraphs]


def boundary_scores(
    spans: Spans, paragraphs: Sequence[GoldParagraph], *, paragraph_ends: bool = False
) -> tuple[float, float, float]:
    """Returns precision, recall and F1 of sentence ends (1.0 if there are none)."""
    ends = [paragraph.inner_ends(spans) for paragraph in paragraphs]
    right, num_predicted, num_gold = (
        sum(map(len, sets)) + len(paragraphs) * paragraph_ends
        for sets in (
            [predicted & gold for predicted, gold in ends],
            [predicted for predicted, _ in ends],
            [gold for _, gold in ends],
        )
    )
    return (
        right / num_predicted if num_predicted else 1.0,
        right / num_gold if num_gold else 1.0,
        2 * right / (num_predicted + num_gold) if num_predicted + num_gold else 1.0,
    )


def define_flags() -> None:
    flags.DEFINE_string(
        "gold",
        str(SAMPLE_DATA / "ud_english_ewt" / "en_ewt-ud-dev.conllu"),
        "Annotated CoNLL-U file.",
    )
    flags.DEFINE_list(
        "sentence_parameters", ["english"], "Splitters, as for `build-records`."
    )
    flags.DEFINE_integer("errors", 0, "Number of errors to list per splitter.", 0)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    paragraphs = read_gold(pathlib.Path(values.gold))
    num_sentences = sum(len(paragraph.ends) for paragraph in paragraphs)
    print(f"{values.gold}: {num_sentences} sentences, {len(paragraphs)} paragraphs")
    for name in values.sentence_parameters:
        spans = make_splitter(load_parameters(name)).spans
        errors = []
        for text, predicted, gold in (
            (paragraph.text, *paragraph.inner_ends(spans)) for paragraph in paragraphs
        ):
            for end in sorted(predicted ^ gold):
                before, after = text[max(0, end - _CONTEXT) : end], text[end:]
                sign = "+" if end in predicted else "-"
                errors.append(f"  {sign} {before!r} {after[:_CONTEXT]!r}")
        num_wrong = sum(line.startswith("  +") for line in errors)
        print(f"{name}: {num_wrong} wrong, {len(errors) - num_wrong} missed")
        for title, paragraph_ends in (("inside paragraphs", False), ("all", True)):
            scores = boundary_scores(spans, paragraphs, paragraph_ends=paragraph_ends)
            precision, recall, f1 = (f"{100 * score:.1f}" for score in scores)
            print(f"  {title:18}precision {precision}, recall {recall}, F1 {f1}")
        for line in errors[: values.errors]:
            print(line)


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
