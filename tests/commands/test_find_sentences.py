"""The command that finds the sentences nearest to a query."""

import json

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import find_sentences
from seg_tf.inference import texts
from seg_tf.inference.sentence_encoder import SentenceEncoder
from tests import command_calls
from tests.inference.tiny_slm import SPLITTER, sentence

pytestmark = pytest.mark.slow

NUM_SENTENCES = 60
DISCOURSE_QUERIES = command_calls.REPOSITORY / "examples" / "discourse_queries.txt"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A file of documents of four sentences, two a line."""
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    sentences = [
        sentence(generator, int(generator.integers(1, 12)))
        for _ in range(NUM_SENTENCES)
    ]
    with open(path, "w") as file:
        for begin in range(0, NUM_SENTENCES, 4):
            one, two, three, four = sentences[begin : begin + 4]
            file.write(f"{one} {two}\n{three} {four}\n\n")
    return path


@pytest.fixture(scope="module")
def index_dir(run_dir, corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    run(run_dir, f"--corpus={corpus}", f"--index_dir={folder}")
    return folder


def run(run_dir, *arguments):
    command_calls.run(find_sentences, f"--checkpoint={run_dir}", *arguments)


def test_answers_equal_brute_force(run_dir, corpus, index_dir, tmp_path):
    generator = np.random.default_rng(1)
    queries = [
        f"{sentence(generator, 3)} {sentence(generator, 4)}",
        f"{sentence(generator, 3)} {sentence(generator, 3)} {sentence(generator, 6)}",
        sentence(generator, 5),
    ]
    (tmp_path / "queries.txt").write_text("\n".join(queries[1:]) + "\n\n")
    output = tmp_path / "neighbours.jsonl"
    run(
        run_dir,
        f"--index_dir={index_dir}",
        f"--query={queries[0]}",
        f"--queries={tmp_path / 'queries.txt'}",
        "--num_neighbours=7",
        f"--output={output}",
    )
    answers = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(answers) == 3

    # All of it again, without shards, index or any of the command's code.
    model = SentenceEncoder(load_pretrained(run_dir))
    documents = corpus.read_text().rstrip().split("\n\n")
    lines = (document.split("\n") for document in documents)
    stream = texts.split_documents(lines, "corpus.txt", SPLITTER)
    in_context = list(texts.in_context(stream))
    assert len(in_context) == NUM_SENTENCES
    vectors, _ = model.encode_in_context(in_context)
    for query, answer in zip(queries, answers, strict=True):
        spoken = texts.split_text(query, SPLITTER)[-2:]
        vector, _ = model.encode_in_context([spoken])
        cosines = vectors @ vector[0]
        nearest = np.argsort(-cosines)[:7]
        assert answer["query"] == [one.text for one in spoken]
        found = answer["neighbours"]
        assert [one["rank"] for one in found] == [1, 2, 3, 4, 5, 6, 7]
        np.testing.assert_allclose(
            [one["cosine"] for one in found], cosines[nearest], atol=1e-4
        )
        for one, number in zip(found, nearest, strict=True):
            assert one["sentences"] == [some.text for some in in_context[number]]
            assert one["document"] == 1 + number // 4
            assert one["paragraph"] == 1 + number % 4 // 2
            assert one["file"] == "corpus.txt"


def test_a_pair_of_the_corpus_is_its_own_neighbour(run_dir, corpus, index_dir, capsys):
    pair = corpus.read_text().split("\n")[3]  # the second document's first line
    stamps = {path: path.stat().st_mtime_ns for path in index_dir.iterdir()}
    run(
        run_dir,
        f"--corpus={corpus}",
        f"--index_dir={index_dir}",
        f"--query={pair}",
        "--num_neighbours=2",
    )
    output = capsys.readouterr().out
    assert f"60 sentences in {index_dir}" in output
    before, last = SPLITTER.split(pair)
    shown = f"{before} **{last}**"
    query, first, nearest, second, _ = output.splitlines()[-5:]
    assert query == f"Query: {shown}"
    assert first == "   1  1.0000  corpus.txt, document 2, paragraph 1"
    assert nearest == f"      {shown}"
    assert second.startswith("   2  ")
    # A query makes nothing anew.
    assert len(stamps) == 3
    assert stamps == {path: path.stat().st_mtime_ns for path in index_dir.iterdir()}


def test_there_is_a_query_for_each_discourse_relation(run_dir, index_dir, tmp_path):
    output = tmp_path / "neighbours.jsonl"
    queries = f"--queries={DISCOURSE_QUERIES}"
    run(run_dir, f"--index_dir={index_dir}", queries, f"--output={output}")
    answers = [json.loads(line)["query"] for line in output.read_text().splitlines()]
    assert len(answers) == 6  # rows of table 6
    for before, last in answers:
        assert f"\n{before} {last}\n" in DISCOURSE_QUERIES.read_text()


def test_users_errors_name_what_is_wrong(run_dir, index_dir, corpus, tmp_path):
    new = f"--index_dir={tmp_path / 'new'}"
    with pytest.raises(ValueError, match=r"`--corpus` or `--query` must.* neither"):
        run(run_dir, new)
    with pytest.raises(ValueError, match=r"`--index_dir` must hold.*--corpus"):
        run(run_dir, f"--index_dir={tmp_path}", "--query=W1.")
    with pytest.raises(ValueError, match="`--query` must hold a sentence"):
        run(run_dir, f"--index_dir={index_dir}", "--query= ")
    with pytest.raises(ValueError, match="vectors: sent there, mean now"):
        run(run_dir, f"--index_dir={index_dir}", "--query=W1.", "--vectors=mean")
    with pytest.raises(ValueError, match="`--output` must name a file"):
        run(run_dir, new, f"--corpus={corpus}", f"--output={tmp_path}")
    assert not (tmp_path / "new").exists()
