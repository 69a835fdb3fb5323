"""The command that makes the vectors of the sentences of long texts."""

import json

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import encode_passages, encode_text
from seg_tf.inference.masked_lm import MaskFiller
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from seg_tf.text.splitters import SentenceFunction
from tests import command_calls
from tests.inference import tiny_slm
from tests.inference.tiny_slm import sentence

pytestmark = pytest.mark.slow


@pytest.fixture(name="chapter")
def _chapter(tmp_path):
    path = tmp_path / "chapter.txt"
    path.write_text("W1 w2. W3.\n", encoding="utf-8")
    return path


def run(reat_dir, *arguments):
    command_calls.run(encode_text, f"--checkpoint={reat_dir}", *arguments)


def test_each_file_of_a_folder_gets_an_archive(reat_dir, tmp_path, capsys):
    generator = np.random.default_rng(1)
    words = {"one.txt": ([3, 1], [7], [30, 2, 4], [5]), "more/long.txt": ([2],) * 45}
    texts = {
        name: [
            [sentence(generator, count) for count in counts] for counts in paragraphs
        ]
        for name, paragraphs in words.items()
    }
    (tmp_path / "books" / "more").mkdir(parents=True)
    for name, paragraphs in texts.items():
        content = "\ufeff" + "\n \n".join(map(" ".join, paragraphs))
        (tmp_path / "books" / name).write_text(content, encoding="utf-8")
    folder = tmp_path / "new" / "vectors"
    run(reat_dir, f"--text={tmp_path / 'books'}", f"--output_dir={folder}")
    output = capsys.readouterr().out
    pretrained = load_pretrained(reat_dir)
    encoder = SentenceEncoder(pretrained)
    for name, paragraphs in texts.items():
        document = [
            Sentence(text, paragraph=number)
            for number, paragraph in enumerate(paragraphs)
            for text in paragraph
        ]
        # Blank lines or not, all sentences of a file are one document.
        (expected,) = encoder.encode_documents([document])
        with np.load(folder / f"{name}.npz") as found:
            found = dict(found)
        assert json.loads(str(found["sentences"])) == [one.text for one in document]
        assert found["paragraphs"].tolist() == [one.paragraph for one in document]
        assert found["vectors"].dtype == np.float32
        np.testing.assert_allclose(found["vectors"], expected.vectors, atol=1e-5)
        settings = json.loads(str(found["settings"]))
        assert settings["text"]["name"] == name
        assert settings["weights_sha256"] == pretrained.weights_checksum
        assert settings["words"] == sum(map(sum, words[name]))
        assert settings["passes"] == expected.num_passes
        assert f"{name}.npz: {settings['words']} words, {len(document)} " in output


def test_passages_are_in_the_context_of_their_file(reat_dir, chapter, tmp_path):
    chapter.write_text("W1 w2. W3.\nW4.\n")
    arguments = (f"--checkpoint={reat_dir}", f"--text={chapter}")
    encoder, texts = SentenceEncoder.from_preset(reat_dir), ("W1 w2. W3.", "W4.")
    for option, expected in (
        ("--noisolated", encoder.encode_passages("\n".join(texts)).vectors),
        ("--isolated", encoder.encode(texts)),
    ):
        folder = tmp_path / option
        command_calls.run(encode_passages, *arguments, option, f"--output_dir={folder}")
        lines = (folder / "passages.jsonl").read_text().splitlines()
        file = {"file": "chapter.txt", "document": 0}
        assert list(map(json.loads, lines)) == [
            {**file, "start": 0, "stop": 10, "text": texts[0]},
            {**file, "start": 11, "stop": 14, "text": texts[1]},
        ]
        np.testing.assert_allclose(np.load(folder / "vectors.npy"), expected, atol=1e-5)


def test_what_can_be_refused_is_refused_before_anything_is_encoded(
    reat_dir, chapter, tmp_path, monkeypatch
):
    monkeypatch.setattr(SentenceEncoder, "encode_documents", None)
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"W1.\nCaf\xe9.\n")
    output, text = f"--output_dir={tmp_path}/new", f"--text={chapter}"
    for arguments, expected in (
        ([output], r"file of text \(--text\). Received: \[\]"),
        ([f"{text},{tmp_path}/blank.txt", output], "hold a sentence.*blank.txt"),
        ([f"--text={tmp_path}/latin.txt", output], "latin.txt, .*: Expected UTF-8"),
        ([text, f"--output_dir={chapter}/a"], "in .*chapter.txt$"),
    ):
        with pytest.raises(ValueError, match=expected):
            run(reat_dir, *arguments)
    assert not (tmp_path / "new").exists()


def test_a_model_of_other_texts_is_refused(language_model_dir, chapter, tmp_path):
    with pytest.raises(ValueError, match="`checkpoint` must be of an encoder of texts"):
        run(language_model_dir, f"--text={chapter}", f"--output_dir={tmp_path}")


def test_a_function_that_only_the_checkpoint_names_is_not_run(tmp_path, chapter):
    slm_dir = tiny_slm.write_checkpoint(
        tmp_path / "slm",
        sentence_parameters=SentenceFunction("textwrap:wrap").to_bytes(),
        sentence_splitter={"name": "function:textwrap:wrap"},
    )
    output = tmp_path / "chapter.txt.npz"
    arguments = [f"--text={chapter}", f"--output_dir={tmp_path}"]
    message = (
        r"sentence_parameters\.json names it.* give --sentence_function=textwrap:w"
    )
    with pytest.raises(ValueError, match=message):
        run(slm_dir, *arguments)
    with pytest.raises(ValueError, match=r"'textwrap:wrap'.* Received: 'os:system'"):
        run(slm_dir, *arguments, "--sentence_function=os:system")
    assert not output.exists()
    run(slm_dir, *arguments, "--sentence_function=textwrap:wrap")
    assert output.exists()
    with pytest.raises(ValueError, match=message):
        MaskFiller.from_preset(slm_dir)
    MaskFiller.from_preset(slm_dir, sentence_function="textwrap:wrap")
