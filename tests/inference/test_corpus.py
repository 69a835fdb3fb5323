"""Vectors of a corpus: exact, whole or not at all."""

import numpy as np
import pytest

from seg_tf import files
from seg_tf.inference import corpus as corpus_module
from seg_tf.inference import texts
from seg_tf.inference.corpus import CorpusVectors
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from tests.inference.test_sentence_encoder import vector_alone
from tests.inference.tiny_slm import SPLITTER, sentence

pytestmark = pytest.mark.slow


def documents(num_documents=8, seed=0):
    """Paragraphs of some sentences for each document."""
    generator = np.random.default_rng(seed)
    return [
        [
            " ".join(
                sentence(generator, int(generator.integers(1, 14)))
                for _ in range(generator.integers(1, 5))
            )
            for _ in range(generator.integers(1, 4))
        ]
        for _ in range(num_documents)
    ]


def make(folder, pretrained, given, **settings):
    settings = {"vectors": None, **settings}
    description = corpus_module.describe({}, "of weights", "of words", settings)
    return corpus_module.encode_corpus(
        folder,
        lambda: texts.split_documents(given, "text", SPLITTER),
        SentenceEncoder(pretrained),
        description,
    )


@pytest.fixture(scope="module")
def corpus(pretrained, tmp_path_factory):
    # Less than the sentences of a document's context at a time.
    before, corpus_module._AT_A_TIME = corpus_module._AT_A_TIME, 12
    folder = tmp_path_factory.mktemp("corpus") / "index"
    made = make(folder, pretrained, documents())
    corpus_module._AT_A_TIME = before
    return made


def test_vectors_are_those_of_each_row_alone(corpus, pretrained):
    sentences = list(texts.split_documents(documents(), "text", SPLITTER))
    assert corpus.manifest["num_sentences"] == len(sentences) > 24
    vectors = corpus.vectors
    assert vectors.dtype == np.float32
    kept = corpus.sentences(range(len(sentences)))
    starts = 0
    for number, one in enumerate(sentences):
        # The sentence before it, but of no other document.
        before = sentences[number - 1] if number else None
        same = before and before.document == one.document
        in_context = [before, one] if same else [one]
        starts += not same
        assert kept[number] == in_context
        np.testing.assert_allclose(
            vectors[number], vector_alone(pretrained, in_context), atol=2e-5
        )
    assert starts == 8


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_nearest_vectors_equal_brute_force_with_ties(tmp_path, count):
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(60, 16)).astype("f4")
    vectors[41] = vectors[17]  # the earlier sentence comes first
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors.tofile(tmp_path / "vectors.f32")
    manifest = {"format_version": 4, "num_sentences": len(vectors)}
    files.write_json(tmp_path / "manifest.json", manifest)
    queries = np.concatenate([vectors[::-7], vectors[17:18]])
    exact = queries.astype("f8") @ vectors.T.astype("f8")
    nearest = CorpusVectors(tmp_path).nearest(queries, count)
    for cosines, found in zip(exact, nearest, strict=True):
        expected = np.argsort(-cosines, kind="stable")[:count]
        assert [number for number, _ in found] == expected.tolist()
        np.testing.assert_allclose(
            [cosine for _, cosine in found], cosines[expected], atol=1e-6
        )
    if count > 1:
        assert [number for number, _ in found[:2]] == [17, 41]


def test_vectors_are_made_once_and_others_refused(corpus, pretrained, tmp_path):
    again = make(corpus.folder, pretrained, [])
    np.testing.assert_array_equal(again.vectors, corpus.vectors)
    with pytest.raises(ValueError, match=r"settings\.vectors: None there, mean now"):
        make(corpus.folder, pretrained, [], vectors="mean")
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ValueError, match="must be new, or a folder that is empty"):
        make(tmp_path, pretrained, documents(1))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_folders_without_a_manifest_or_of_another_version_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no manifest\.json.*--corpus"):
        CorpusVectors(tmp_path)
    files.write_json(tmp_path / "manifest.json", {"format_version": 3})
    with pytest.raises(ValueError, match=r"version 4, found 3\. Encode the corpus aga"):
        CorpusVectors(tmp_path)


def test_a_corpus_without_sentences_is_refused(pretrained, tmp_path):
    with pytest.raises(ValueError, match="`--corpus` must hold sentences"):
        make(tmp_path / "index", pretrained, [["", " "]])
    assert not list(tmp_path.iterdir())


def test_cut_sentences_are_reported(pretrained, tmp_path, capsys):
    generator = np.random.default_rng(0)
    text = [[f"{sentence(generator, 100)} W1 w2."]]
    corpus = make(tmp_path / "index", pretrained, text)
    output = capsys.readouterr().out
    assert "Sentences that were truncated to one row: 1\n" in output
    assert corpus.sentences([1])[1][-1] == Sentence("W1 w2.", "text")
