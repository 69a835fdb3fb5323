"""Files, documents, sentences and contexts."""

import pytest

from seg_tf.inference import texts
from seg_tf.inference.texts import Sentence
from seg_tf.text.punkt import SentenceSplitter

SPLITTER = SentenceSplitter()


def test_sentences_know_their_document_and_paragraph():
    documents = [["One. Two."], ["Three.\r", " \t", "Four. "], ["\u2028", "Five."]]
    found = list(texts.split_documents(documents, "book", SPLITTER))
    assert found == [
        Sentence("One.", "book", 1, 0),
        Sentence("Two.", "book", 1, 0),
        Sentence("Three.", "book", 2, 0),
        Sentence("Four.", "book", 2, 1),
        Sentence("Five.", "book", 3, 0),
    ]
    assert texts.split_text("One.\n \n\nTwo.\r", SPLITTER) == [
        Sentence("One."),
        Sentence("Two.", paragraph=1),
    ]


def test_context_is_what_stands_before_in_the_document():
    places = [("a", 1)] * 4 + [("a", 2)] * 2 + [("b", 2)]
    sentences = [
        Sentence(str(number), file, document)
        for number, (file, document) in enumerate(places)
    ]

    found = texts.in_context(sentences)
    contexts = ["".join(one.text for one in group) for group in found]
    assert contexts == ["0", "01", "12", "23", "4", "45", "6"]


def test_files_are_listed_in_the_order_of_their_names(tmp_path):
    for name in ("b.txt", "a/z.txt", "a.txt", ".hidden", "a/.git/x", "a/b.md"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"In {name}.")
    (tmp_path / "alone.txt").write_text("Alone.")
    sources = texts.list_files([str(tmp_path / "alone.txt"), str(tmp_path / "corpus")])
    assert list(sources) == ["alone.txt", "a.txt", "a/b.md", "a/z.txt", "b.txt"]


def test_what_is_wrong_with_files_is_named(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_text("Fine.")
    with pytest.raises(FileNotFoundError, match="Received: '/nowhere'"):
        texts.list_files(["/nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="must contain files"):
        texts.list_files([str(tmp_path / "empty")])
    with pytest.raises(ValueError, match="must be unique"):
        texts.list_files([str(path), str(tmp_path)])


@pytest.mark.parametrize(
    "given, message",
    [
        ((), r"`texts` must hold at least one text\. Received: none"),
        ("abc", "`texts` must be a sequence of texts. Received: the string 'abc'"),
        (["a", b"b"], r"`texts` must hold texts\. Received: texts\[1\]=b'b'"),
    ],
)
def test_arguments_that_are_no_texts(given, message):
    with pytest.raises(ValueError, match=message):
        texts.check_texts(given, "texts")
    assert texts.check_texts(iter(["a", "b"]), "texts") == ["a", "b"]
