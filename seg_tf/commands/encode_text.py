r"""Encodes texts of any length: a vector for every sentence, in context.

  python -m seg_tf.commands.encode_text --checkpoint=runs/reat_small \
    --text=chapter.txt --output=chapter.npz

reads a text, such as a chapter of a book, with a ReAT in one pass: every sentence sees
all others. Other encoders (BERT, SegaBERT, SLM) read it in stretches of whole
sentences, as many as fit into a row, which do not see each other.

A file (UTF-8) is one text, whatever is in it: each line that is not blank is a
paragraph of it, and blank lines part nothing. A book is better given a chapter a file.
Text whose lines are broken inside of sentences, or of another format, becomes that by

  python -m data_pipelines.readers --format=plain_text --input=gutenberg/chapter.txt \
    --output=chapter.txt

What is written is a NumPy archive:

  found = numpy.load("chapter.npz")
  found["vectors"]      float32 (S, D), of each sentence the model's pooled <SS>
                        (ReAT), its output at [SENT] (SLM), or the mean of its outputs
                        at the word pieces (BERT, SegaBERT)
  found["sentences"]    JSON: the S sentences, a list
  found["paragraphs"]   int32 (S,), number of each sentence's paragraph, from 0
  found["lines"]        int32 (S,), which line of the file, from 1
  found["settings"]     JSON: text, weights and settings that the vectors depend on

Many texts, files or folders of them, become an archive each, <name of the file>.npz:

  python -m seg_tf.commands.encode_text --checkpoint=runs/reat_small --text=chapters/ \
    --output_dir=vectors

A sentence longer than the model's blocks, or rows, is encoded in parts, whose vectors
are averaged. A text of more sentences and parts than a ReAT has places for
(`model.max_sentences` of its run: 128 for the paper's) takes several passes, too; the
output says so.

--show=5 prints, for five sentences spread over the text, which other sentence of it has
the nearest vector, by cosine.
"""

import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.inference import texts
from seg_tf.inference.sentence_encoder import EncodedText, SentenceEncoder
from seg_tf.inference.texts import Sentence
from seg_tf.text.punkt import Splitter

_FORMAT_VERSION = 1
_SUFFIX = ".npz"


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_list(
        "text", [], "Text files or folders, comma-separated; each file is a text."
    )
    flags.DEFINE_string("output", None, "The archive to write, for one text.")
    flags.DEFINE_string(
        "output_dir", None, "Instead, a folder that gets an archive for each text."
    )
    flags.DEFINE_integer(
        "show",
        0,
        "Print the nearest other sentence of so many sentences of each text.",
        lower_bound=0,
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Whatever can be refused, before anything is encoded.
    sources = texts.list_files(values.text)
    outputs = _outputs(list(sources))
    for path in sources.values():
        _check_text(path)
    _check_outputs(outputs.values(), sources.values())
    pretrained = model_flags.load_model()
    splitter = pretrained.splitter()
    model = SentenceEncoder(pretrained)
    settings = _settings(pretrained, splitter)
    for name, path in sources.items():
        sentences = _read(path, name, splitter)
        begin = time.perf_counter()
        (encoded,) = model.encode_documents([sentences])
        seconds = time.perf_counter() - begin
        facts = _facts(sentences, encoded)
        outputs[name].parent.mkdir(parents=True, exist_ok=True)
        text = {"name": name, "sha256": files.checksum(path)}
        _save(
            outputs[name],
            sentences,
            encoded.vectors,
            {"text": text, **facts, **settings},
        )
        print(_describe(name, facts, seconds, outputs[name]), flush=True)
        if encoded.num_passes > 1:
            print(_several_passes(name, encoded, pretrained), file=sys.stderr)
        if values.show:
            print("\n".join(_nearest(sentences, encoded.vectors, values.show)))


def _outputs(names: Sequence[str]) -> Mapping[str, pathlib.Path]:
    """Output path of the vectors of each text."""
    values = flags.FLAGS
    if bool(values.output) == bool(values.output_dir):
        raise ValueError(
            "One of `--output` and `--output_dir` must say where the vectors go. "
            f"Received: {'both' if values.output else 'neither'}"
        )
    if values.output_dir:
        folder = output_paths.folder_path(values.output_dir)
        return {name: folder / (name + _SUFFIX) for name in names}
    if len(names) > 1:
        raise ValueError(
            "`--output` takes the vectors of one text; those of several go to "
            f"`--output_dir`. Received: --output={values.output}, and {len(names)} "
            "texts"
        )
    return {names[0]: output_paths.file_path(values.output, "output")}


def _check_outputs(
    outputs: Iterable[pathlib.Path], sources: Iterable[pathlib.Path]
) -> None:
    """Raises ValueError if an archive would take the place of something else."""
    texts_of_run = {path.resolve() for path in sources}
    for output in outputs:
        if output.resolve() in texts_of_run:
            raise ValueError(
                f"`--output` must not be a text that is read. Received: {output}"
            )
        if output.is_dir():
            raise ValueError(
                f"`--output` must be a file that is new or may be replaced. Received: "
                f"{output}, a folder"
            )
        for folder in output.parents:
            if folder.exists() and not folder.is_dir():
                raise ValueError(
                    f"`--output_dir` must have room for a folder. Received: {folder}, "
                    "a file"
                )


def _check_text(path: pathlib.Path) -> None:
    """Raises ValueError unless a file is UTF-8 and holds a sentence."""
    with open(path, "rb") as file:
        has_words = [bool(line.strip()) for line in texts.decoded(file, str(path))]
    if not any(has_words):
        raise ValueError(f"`--text` must hold a sentence. Received: {path}, without")


def _read(path: pathlib.Path, name: str, splitter: Splitter) -> list[Sentence]:
    """The sentences of a file, which is one text."""
    return list(texts.read_sentences({name: path}, splitter))


def _settings(pretrained: Pretrained, splitter: Splitter) -> dict[str, Any]:
    return {
        "format_version": _FORMAT_VERSION,
        "checkpoint": str(pretrained.folder),
        "weights_sha256": pretrained.weights_checksum,
        "vocab_sha256": pretrained.vocabulary.checksum,
        **pretrained.normalization.described(),
        "sentence_splitter": splitter.name,
        "sentence_parameters_sha256": splitter.parameters_checksum,
        **dataclasses.asdict(pretrained.layout().text_capacity),
    }


def _paragraphs(sentences: Sequence[Sentence]) -> np.ndarray:
    """Number of the paragraph of each sentence; a line is one."""
    _, paragraphs = np.unique([one.line for one in sentences], return_inverse=True)
    return paragraphs.astype(np.int32)


def _facts(sentences: Sequence[Sentence], encoded: EncodedText) -> dict[str, int]:
    return {
        "words": sum(len(one.text.split()) for one in sentences),
        "sentences": len(sentences),
        "parts": encoded.num_parts,
        "positions": encoded.num_positions,
        "passes": encoded.num_passes,
    }


def _save(
    path: pathlib.Path,
    sentences: Sequence[Sentence],
    vectors: np.ndarray,
    settings: Mapping[str, Any],
) -> None:
    with files.written_aside(path) as aside, open(aside, "wb") as file:
        np.savez_compressed(
            file,
            vectors=vectors,
            # As an array of strings each would be as long as the longest.
            sentences=_json_array([one.text for one in sentences]),
            paragraphs=_paragraphs(sentences),
            lines=np.array([one.line for one in sentences], np.int32),
            settings=_json_array(settings),
        )


def _json_array(value: Any) -> np.ndarray:
    return np.array(json.dumps(value, ensure_ascii=False))


def _describe(
    name: str, facts: Mapping[str, int], seconds: float, path: pathlib.Path
) -> str:
    passes = "one pass" if facts["passes"] == 1 else f"{facts['passes']:,} passes"
    return (
        f"{name}: {facts['words']:,} words in {facts['sentences']:,} sentences, "
        f"{facts['positions']:,} positions in {passes}, {seconds:.1f} s: {path}"
    )


def _several_passes(name: str, encoded: EncodedText, pretrained: Pretrained) -> str:
    capacity = pretrained.layout().text_capacity
    sentences = capacity.num_sentences
    limit = "" if sentences is None else f" and {sentences:,} sentences"
    return (
        f"Note: {name} has {encoded.num_parts:,} sentences, parts of long ones "
        f"counted, and a row takes {capacity.num_pieces:,} word pieces{limit}: it was "
        f"read in {encoded.num_passes:,} stretches that do not see each other"
    )


def _nearest(
    sentences: Sequence[Sentence], vectors: np.ndarray, count: int
) -> list[str]:
    """For people: some sentences, and which other is the nearest of each."""
    if len(sentences) < 2:
        return ["  There is no other sentence in it."]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # 0 is the vector of a sentence without word pieces.
    units = vectors / np.where(lengths > 0, lengths, 1)
    lines = []
    # Spread evenly, in the middle of as many stretches.
    count = min(count, len(sentences))
    for number in (2 * np.arange(count) + 1) * len(sentences) // (2 * count):
        cosines = units @ units[number]
        cosines[number] = -np.inf
        nearest = int(np.argmax(cosines))
        lines += [
            f"  nearest to line {sentences[number].line}: {sentences[number].text}",
            f"  {cosines[nearest]:7.4f} is line {sentences[nearest].line}: "
            f"{sentences[nearest].text}",
        ]
    return lines


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
