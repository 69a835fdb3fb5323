"""Documents of whole words: built from text, checked, read, and refused elsewhere."""

from collections import Counter

import numpy as np
import pytest

from data_pipelines import BuildError, check_records
from data_pipelines.build_vocab import VocabularyOptions, build_vocabulary
from data_pipelines.builds.documents import DocumentOptions, build_documents
from seg_tf.data.lane_inputs import LaneInputs
from tests.data_pipelines.builders import read_all
from tests.sample_data import sample_data

pytestmark = pytest.mark.slow

WORDS = ["<eos>", "<unk>", "The", "dog", "ran", ".", "sat", "!", "(", ")"]
TEXT = "The dog ran. The cat sat!\n\n\x01\x02\n\nThe dog (cat) ran."


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(TEXT)
    (folder / "nothing.txt").write_text("\x01\x02")
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    return folder


def options(corpus, **overrides):
    settings = {
        "format": "plain_text",
        "input": str(corpus),
        "vocab_file": str(corpus.parent / "words.txt"),
        "tokenizer": "words",
        "validation_fraction": 0.5,
    }
    return DocumentOptions(**{**settings, **overrides})


def words_of(tree):
    return " ".join(WORDS[token_id] for token_id in tree.token_ids)


def test_every_paragraph_ends_with_its_mark(corpus, tmp_path):
    manifest = build_documents(options(corpus), tmp_path / "out")
    trees = read_all(tmp_path / "out")
    assert len(trees) == 3
    for tree in trees:
        assert words_of(tree) == (
            "The dog ran . The <unk> sat ! <eos> The dog ( <unk> ) ran . <eos>"
        )
        assert tree.sentence_lengths.tolist() == [4, 5, 8]
        assert tree.paragraph_lengths.tolist() == [2, 1]
    assert manifest.vocabulary["special_ids"] == {"unk": 1, "eos": 0}
    assert manifest.rejected == {"no_words": 1}
    assert not list(check_records.check_folder(tmp_path / "out"))
    # Another tokenizer or casing is another build.
    for overrides in ({"tokenizer": "whitespace"}, {"lower_case": True}):
        (name,) = overrides
        with pytest.raises(BuildError, match=rf"`vocabulary\.{name}`"):
            build_documents(options(corpus, **overrides), tmp_path / "out")
    with pytest.raises(ValueError, match="one of word_pieces, words, whitespace"):
        options(corpus, tokenizer="characters")
    # Training reads the build.
    inputs = LaneInputs(
        target_length=5, validation_lanes=2, records_dir=tmp_path / "out", seed=0
    )
    batch = next(iter(inputs.train_dataset(2)))
    assert " ".join(WORDS[i] for i in batch["token_ids"][0]) == "The dog ran . The"
    assert batch["stream_sentence"][0].numpy().tolist() == [0, 0, 0, 0, 1]
    assert inputs.text_preparation.tokenizer == "words"


def test_tokens_of_wikitext_are_its_words_and_paragraphs(tmp_path):
    """A published count of tokens has an <eos> for blank lines too."""
    path = sample_data("wikitext-2", "wiki.valid.tokens")
    vocabulary = build_vocabulary(
        "wikitext",
        str(path),
        VocabularyOptions(tokenizer="whitespace", min_count=1),
    )
    words_file = tmp_path / "words.txt"
    words_file.write_bytes(vocabulary.to_bytes())
    settings = {
        "format": "wikitext",
        "input": str(path),
        "vocab_file": str(words_file),
        "tokenizer": "whitespace",
        "validation_fraction": 0.0,
    }
    manifest = build_documents(DocumentOptions(**settings), tmp_path / "out")
    lines = path.read_text(encoding="utf-8").splitlines()
    blank = sum(not line.strip() for line in lines)
    assert manifest.count("paragraphs") == len(lines) - blank
    assert manifest.count("pieces") + blank == 217_646
    # Word by word, too: nothing is lost, changed or out of place.
    ids = np.concatenate([tree.token_ids for tree in read_all(tmp_path / "out")])
    expected = " <eos> ".join(line for line in lines if line.strip()).split()
    assert [vocabulary.tokens[i] for i in ids] == [*expected, "<eos>"]
    assert Counter(ids.tolist())[vocabulary.unk_id] == expected.count("<unk>")


# --- Readers of the records -------------------------------------------------------
