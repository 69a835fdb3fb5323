"""A corpus with short lines, short documents, two languages and planted duplicates."""

import json
import random

from data_pipelines.builds.documents import build_documents
from tests.data_pipelines import small_corpus

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.!?é"
TEXT = (
    "the a man woman ship sailed came saw went home away now then river stone "
    "bread wind field night morning letter window road garden winter song"
)
WORDS = TEXT.split()


def random_lines(generator, num_lines):
    return [
        " ".join(generator.choice(WORDS) for _ in range(generator.randint(1, 30)))
        for _ in range(num_lines)
    ]


def with_words_changed(lines, generator, num_changes):
    """The same lines with so many words replaced by others."""
    words = [line.split() for line in lines]
    for _ in range(num_changes):
        line = generator.choice(words)
        line[generator.randrange(len(line))] = generator.choice(LETTERS[:36]) * 7
    return [" ".join(line) for line in words]


def documents():
    """Lists of lines: random ones, and copies with none to many words changed."""
    generator = random.Random(1)
    found = [random_lines(generator, generator.randint(1, 12)) for _ in range(30)]
    for number in range(40):
        original = found[number // 2]
        changed = with_words_changed(original, generator, number % 6)
        # A copy need not come right after, nor in the same file.
        found.insert(generator.randint(number // 2 + 1, len(found)), changed)
    found.insert(24, [line.upper() + "  " for line in found[3]])
    found.insert(9, ["é è ê ç"] * 8)
    found.insert(40, ["two words"])
    found.insert(57, ["two words"])
    return found


def write(folder):
    """Writes the corpus in several files, a bad line among them, and a vocabulary.

    Returns:
        The documents by their numbers.
    """
    text = folder / "text"
    text.mkdir(parents=True)
    found = documents()
    lines = [json.dumps({"text": "\n".join(lines)}) for lines in found]
    lines.insert(5, "{broken")
    for number, begin in enumerate(range(0, len(lines), 25)):
        part = "\n".join(lines[begin : begin + 25]) + "\n"
        (text / f"part-{number}.jsonl").write_text(part)
    words = [word for word in dict.fromkeys(WORDS) if word not in LETTERS]
    small_corpus.write_vocabulary(folder, *words, letters=LETTERS)
    # The reader strips each line.
    return [[line.strip() for line in lines] for lines in found]


def options(folder, cleaning, **overrides):
    settings = {"slice_megabytes": 0.005, **overrides, "cleaning": cleaning}
    return small_corpus.options_of(folder / "text", folder / "vocab.txt", **settings)


def build(folder, output_dir, cleaning, num_workers=1, **overrides):
    return build_documents(
        options(folder, cleaning, **overrides), output_dir, num_workers=num_workers
    )
