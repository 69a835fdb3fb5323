"""The command that makes the vectors of the sentences of long texts."""

import json

import numpy as np
import pytest

from seg_tf.checkpoints.pretrained import load_pretrained
from seg_tf.commands import encode_text
from seg_tf.inference.mask_filling import MaskFiller
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.texts import Sentence
from seg_tf.text.splitters import SentenceFunction
from tests import command_calls
from tests.inference import tiny_reat, tiny_slm
from tests.inference.tiny_slm import sentence

pytestmark = pytest.mark.slow

# Words of the sentences of each paragraph; paragraphs are parted in any way.
PARAGRAPHS = ([3, 1], [7], [30, 2, 4], [5])
TEMPLATE = "\ufeff{}\n\n{}\n \n\n{}\n{}"


@pytest.fixture(name="reat_dir", scope="module")
def _reat_dir(tmp_path_factory):
    return tiny_slm.write_checkpoint(tmp_path_factory.mktemp("reat"), tiny_reat.CONFIG)


@pytest.fixture(name="sentences")
def _sentences():
    generator = np.random.default_rng(1)
    return [[sentence(generator, count) for count in counts] for counts in PARAGRAPHS]


@pytest.fixture(name="chapter")
def _chapter(tmp_path, sentences):
    path = tmp_path / "chapter.txt"
    text = TEMPLATE.format(*(" ".join(of_paragraph) for of_paragraph in sentences))
    path.write_text(text, encoding="utf-8")
    return path


def run(reat_dir, *arguments):
    command_calls.run(encode_text, f"--checkpoint={reat_dir}", *arguments)


def test_archive_holds_what_the_padded_array_gives(
    reat_dir, chapter, sentences, tmp_path, capsys
):
    output = tmp_path / "chapter.npz"
    output.write_text("of an earlier run")
    run(reat_dir, f"--text={chapter}", f"--output={output}")
    with np.load(output) as found:
        found = dict(found)
    everything = [one for of_paragraph in sentences for one in of_paragraph]
    assert json.loads(str(found["sentences"])) == everything
    assert found["paragraphs"].tolist() == [0, 0, 1, 2, 2, 2, 3]

    # Blank lines or not, all seven see each other; the long one does so in parts.
    pieces = tiny_reat.pieces_of(everything)
    long = pieces[3]
    assert len(long) == 31
    parts = [*pieces[:3], long[:11], long[11:21], long[21:], *pieces[4:]]
    pretrained = load_pretrained(reat_dir)
    vectors = tiny_reat.padded_vectors(pretrained.encoder, parts)
    expected = [*vectors[:3], vectors[3:6].mean(axis=0), *vectors[6:]]
    assert found["vectors"].dtype == np.float32
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-5)

    settings = json.loads(str(found["settings"]))
    assert settings["text"]["name"] == "chapter.txt"
    assert settings["weights_sha256"] == pretrained.weights_checksum
    num_words = 3 + 1 + 7 + 30 + 2 + 4 + 5
    # A period is a piece too, as are three special tokens of each part.
    num_positions = num_words + 7 + 3 * 9
    assert settings["words"] == num_words
    assert settings["parts"] == 9
    assert settings["positions"] == num_positions
    assert settings["passes"] == 1
    output, errors = capsys.readouterr()
    assert output.startswith(
        f"chapter.txt: {num_words} words in 7 sentences, {num_positions} positions in "
        "one pass, "
    )
    assert "do not see" not in errors


def test_files_of_a_folder_are_texts_of_their_own(reat_dir, tmp_path, capsys):
    generator = np.random.default_rng(2)
    books = {
        "one.txt": [sentence(generator, 3) for _ in range(3)],
        "more/long.txt": [sentence(generator, 2) for _ in range(45)],
    }
    (tmp_path / "books" / "more").mkdir(parents=True)
    for name, lines in books.items():
        (tmp_path / "books" / name).write_text("\n\n".join(lines))
    folder = tmp_path / "new" / "vectors"
    run(reat_dir, f"--text={tmp_path / 'books'}", f"--output_dir={folder}")
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    assert written == {f"{name}.npz" for name in books}
    encoder = load_pretrained(reat_dir).encoder
    for name, lines in books.items():
        # Of 45 sentences three times 15; no model takes more than 20 at once.
        step = 15 if len(lines) == 45 else 20
        expected = [
            tiny_reat.padded_vectors(
                encoder, tiny_reat.pieces_of(lines[begin : begin + step])
            )
            for begin in range(0, len(lines), step)
        ]
        with np.load(folder / f"{name}.npz") as found:
            np.testing.assert_allclose(
                found["vectors"], np.concatenate(expected), atol=1e-5
            )
    output, errors = capsys.readouterr()
    assert "more/long.txt: 90 words in 45 sentences" in output
    assert "in 3 passes" in output
    assert "more/long.txt has 45 sentences" in errors
    assert "a row takes 260 word pieces and 20 sentences: it was read in 3" in errors
    assert "one.txt has" not in errors


def test_shown_are_nearest_other_sentences(reat_dir, chapter, tmp_path, capsys):
    output = tmp_path / "chapter.npz"
    run(reat_dir, f"--text={chapter}", f"--output={output}", "--show=2")
    shown = capsys.readouterr().out.splitlines()[1:]
    with np.load(output) as found:
        vectors = found["vectors"]
        texts = json.loads(str(found["sentences"]))
    expected = []
    for one in (1, 5):  # the middles of the halves of seven
        best, nearest = max(
            (
                vectors[one]
                @ vectors[other]
                / np.sqrt((vectors[one] ** 2).sum() * (vectors[other] ** 2).sum()),
                other,
            )
            for other in range(7)
            if other != one
        )
        expected += [
            f"nearest to sentence {one + 1}: {texts[one]}",
            f"{best:.4f} is sentence {nearest + 1}: {texts[nearest]}",
        ]
    assert [line.strip() for line in shown] == expected


def test_a_sentence_alone_has_no_nearest(reat_dir, tmp_path, capsys):
    (tmp_path / "short.txt").write_text("W1 w2.")
    run(
        reat_dir,
        f"--text={tmp_path / 'short.txt'}",
        f"--output={tmp_path / 'short.npz'}",
        "--show=3",
    )
    assert "There is no other sentence" in capsys.readouterr().out


def test_nothing_is_nearest_to_a_sentence_without_pieces():
    sentences = [Sentence(f"{number}.", "file", 1, number) for number in range(3)]
    lines = encode_text.nearest(sentences, np.eye(3)[[0, 0, 1]] * [[1], [0], [1]], 3)
    assert [line.split()[0] for line in lines[1::2]] == ["0.0000"] * 3


def test_what_can_be_refused_is_refused_before_anything_is_encoded(
    reat_dir, chapter, tmp_path, monkeypatch
):
    monkeypatch.setattr(SentenceEncoder, "encode_documents", None)
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"W1.\nCaf\xe9.\n")
    output, output_dir = f"--output={tmp_path}/a.npz", f"--output_dir={tmp_path}/new"
    text = f"--text={chapter}"
    for arguments, expected in (
        ([output], "at least one file. Received: none"),
        (["--text=/nowhere", output], "Received: '/nowhere'"),
        ([text], "`--output` and `--output_dir`.*Received: neither"),
        ([text, output, output_dir], "Received: both"),
        ([f"{text},{tmp_path}/blank.txt", output], "takes the vectors of one text"),
        ([f"{text},{tmp_path}/blank.txt", output_dir], "hold a sentence.*blank.txt"),
        ([f"--text={tmp_path}/latin.txt", output], "latin.txt, .*: Expected UTF-8"),
        ([text, f"--output={tmp_path}"], "which is a folder"),
        ([text, f"--output={tmp_path}/no/a"], "/no/a, whose folder does not exist"),
        ([text, f"--output={chapter}"], "a text that is read"),
        ([text, f"--output_dir={chapter}/a"], "chapter.txt is a file"),
    ):
        with pytest.raises(ValueError, match=expected):
            run(reat_dir, *arguments)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    for argument in (output, output_dir):
        with pytest.raises(ValueError, match="may not be written to"):
            run(reat_dir, text, argument)
    assert {path.name for path in tmp_path.iterdir()} == {
        "blank.txt",
        "chapter.txt",
        "latin.txt",
    }


def test_nothing_else_is_replaced(reat_dir, tmp_path):
    folder = tmp_path / "books"
    (folder / "out" / "a.txt.npz").mkdir(parents=True)
    (folder / "a.txt").write_text("A sentence.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.txt\.npz, a folder"):
        run(reat_dir, f"--text={folder / 'a.txt'}", f"--output_dir={folder / 'out'}")
    # Another text of the same run.
    (folder / "b.txt.npz").write_text("A text by chance.", encoding="utf-8")
    (folder / "b.txt").write_text("A sentence.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a text that is read.*b\.txt\.npz"):
        run(reat_dir, f"--text={folder}", f"--output_dir={folder}")
    # A file where the texts have a folder.
    texts = tmp_path / "texts" / "more"
    texts.mkdir(parents=True)
    (texts / "a.txt").write_text("A sentence.", encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "more").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"room for a folder.*more, a file"):
        run(reat_dir, f"--text={texts.parent}", f"--output_dir={tmp_path / 'out'}")


def test_other_encoders_read_windows(run_dir, chapter, tmp_path):
    output = tmp_path / "a.npz"
    run(run_dir, f"--text={chapter}", f"--output={output}")
    pretrained = load_pretrained(run_dir)
    with np.load(output) as found:
        sentences = json.loads(str(found["sentences"]))
        document = [
            Sentence(text, "", paragraph=int(paragraph))
            for text, paragraph in zip(sentences, found["paragraphs"], strict=True)
        ]
        (expected,) = SentenceEncoder(pretrained).encode_documents([document])
        np.testing.assert_allclose(found["vectors"], expected.vectors, atol=1e-5)
        assert json.loads(str(found["settings"]))["num_sentences"] == 4


def test_a_model_of_other_texts_is_refused(language_model_dir, chapter, tmp_path):
    with pytest.raises(ValueError, match="`checkpoint` must be of an encoder of texts"):
        run(language_model_dir, f"--text={chapter}", f"--output={tmp_path / 'a.npz'}")


def test_a_function_that_only_the_checkpoint_names_is_not_run(tmp_path, chapter):
    slm_dir = tiny_slm.write_checkpoint(
        tmp_path / "slm",
        sentence_parameters=SentenceFunction("textwrap:wrap").to_bytes(),
        sentence_splitter={"name": "function:textwrap:wrap"},
    )
    output = tmp_path / "chapter.npz"
    arguments = [f"--text={chapter}", f"--output={output}"]
    message = (
        r"sentence_parameters\.json names it.* give --sentence_function=textwrap:w"
    )
    with pytest.raises(ValueError, match=message):
        run(slm_dir, *arguments)
    with pytest.raises(ValueError, match=r"Received: 'os:system', but .* 'textwrap:w"):
        run(slm_dir, *arguments, "--sentence_function=os:system")
    assert not output.exists()
    run(slm_dir, *arguments, "--sentence_function=textwrap:wrap")
    assert output.exists()
    with pytest.raises(ValueError, match=message):
        MaskFiller.from_preset(slm_dir)
    MaskFiller.from_preset(slm_dir, sentence_function="textwrap:wrap")
