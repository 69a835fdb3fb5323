r"""Encodes texts of any length: a vector for every sentence, in context.

  seg-tf encode-text --checkpoint=runs/reat_small --text=chapter.txt \
    --output=chapter.npz

A ReAT reads a text, such as a chapter of a book, in one pass: every sentence sees all
others. Other encoders (BERT, SegaBERT, SLM) read it in rows of whole sentences, which
do not see each other.

Each file is one text; encode books by chapter, one file each. In plain text, a line
that is not blank is a paragraph; if the lines look hard-wrapped, blank lines separate
paragraphs. Markdown, JSON lines, CSV and Parquet are recognised by the names of files;
--format reads others.

The output is a NumPy archive:

  archive = numpy.load("chapter.npz")
  archive["vectors"]    float32 (S, D): the pooled <SS> of each sentence (ReAT), the
                        output at its [SENT] (SLM), or the mean of the outputs at its
                        word pieces (BERT, SegaBERT)
  archive["sentences"]  JSON: the S sentences, a list
  archive["paragraphs"] int32 (S,), paragraph of each sentence, from 0
  archive["settings"]   JSON: text, weights and settings that the vectors depend on

Several texts, files or folders of them, get an archive each, <name of the file>.npz:

  seg-tf encode-text --checkpoint=runs/reat_small --text=chapters/ --output_dir=vectors

A sentence longer than the model's blocks, or rows, is encoded in parts, whose vectors
are averaged. A text with more sentences and parts than a ReAT has places
(`model.max_sentences` of its run: 128 for the paper's) needs several passes; the output
says so.

--show=5 prints, for five sentences spread over the text, the other sentence with the
nearest vector, by cosine.
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
from seg_tf.commands import model_flags, text_flags
from seg_tf.inference import texts
from seg_tf.inference.sentence_encoder import SentenceEncoder, normalize
from seg_tf.inference.texts import Sentence

_FORMAT_VERSION = 2
_SUFFIX = ".npz"


def define_flags() -> None:
    model_flags.define_model_flags()
    text_flags.define_text_flags()
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
        "Print the nearest other sentence of this many sentences of each text.",
        lower_bound=0,
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    # Refuse bad input before anything is encoded.
    sources = texts.list_files(values.text)
    outputs = _outputs(list(sources))
    for path in sources.values():
        if not text_flags.read_paragraphs(path):
            raise ValueError(f"`--text` must hold a sentence. Received: {path}")
    _check_outputs(outputs.values(), sources.values())
    pretrained = model_flags.load_model()
    splitter, capacity = pretrained.splitter(), pretrained.layout().text_capacity
    encoder = SentenceEncoder(pretrained)
    settings = {
        "format_version": _FORMAT_VERSION,
        "checkpoint": str(pretrained.folder),
        "weights_sha256": pretrained.weights_checksum,
        "vocab_sha256": pretrained.vocabulary.checksum,
        **pretrained.normalization.described(),
        "sentence_splitter": splitter.name,
        "sentence_parameters_sha256": splitter.parameters_checksum,
        **dataclasses.asdict(capacity),
    }
    for name, path in sources.items():
        document = text_flags.read_paragraphs(path)
        sentences = list(texts.split_documents([document], name, splitter))
        begin = time.perf_counter()
        (encoded,) = encoder.encode_documents([sentences])
        seconds = time.perf_counter() - begin
        facts = {
            "words": sum(len(sentence.text.split()) for sentence in sentences),
            "sentences": len(sentences),
            "parts": encoded.num_parts,
            "positions": encoded.num_positions,
            "passes": encoded.num_passes,
        }
        text = {"name": name, "sha256": files.checksum(path)}
        outputs[name].parent.mkdir(parents=True, exist_ok=True)
        with files.written_aside(outputs[name]) as aside, open(aside, "wb") as file:
            np.savez_compressed(
                file,
                vectors=encoded.vectors,
                # In an array of strings each would be as long as the longest.
                sentences=_json_array([sentence.text for sentence in sentences]),
                paragraphs=np.array(
                    [sentence.paragraph for sentence in sentences], np.int32
                ),
                settings=_json_array({"text": text, **facts, **settings}),
            )
        passes = (
            "one pass" if encoded.num_passes == 1 else f"{encoded.num_passes:,} passes"
        )
        print(
            f"{name}: {facts['words']:,} words in {len(sentences):,} sentences, "
            f"{encoded.num_positions:,} positions in {passes}, {seconds:.1f} s: "
            f"{outputs[name]}",
            flush=True,
        )
        if encoded.num_passes > 1:
            most = capacity.num_sentences
            limit = "" if most is None else f" and {most:,} sentences"
            print(
                f"Note: {name} has {encoded.num_parts:,} sentences, counting parts of "
                f"long ones, and a row takes {capacity.num_pieces:,} word pieces"
                f"{limit}: it was read in {encoded.num_passes:,} rows that do not see "
                "each other",
                file=sys.stderr,
            )
        if values.show:
            print("\n".join(nearest(sentences, encoded.vectors, values.show)))


def _outputs(names: Sequence[str]) -> Mapping[str, pathlib.Path]:
    """The archive of each text."""
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
    """Raises a ValueError if an archive would replace something else."""
    inputs = {path.resolve() for path in sources}
    for output in outputs:
        if output.resolve() in inputs:
            raise ValueError(
                f"`--output` must not be a text that is read. Received: {output}"
            )
        if output.is_dir():
            raise ValueError(
                "`--output` must be a file that is new or may be replaced. Received: "
                f"{output}, a folder"
            )
        for folder in output.parents:
            if folder.exists() and not folder.is_dir():
                raise ValueError(
                    "`--output_dir` must have room for a folder. Received: "
                    f"{folder}, a file"
                )


def _json_array(value: Any) -> np.ndarray:
    return np.array(json.dumps(value, ensure_ascii=False))


def nearest(
    sentences: Sequence[Sentence], vectors: np.ndarray, count: int
) -> list[str]:
    """Describes the nearest other sentence of `count` sentences spread evenly."""
    if len(sentences) < 2:
        return ["  There is no other sentence in it."]
    units = normalize(vectors)
    lines = []
    count = min(count, len(sentences))
    for number in (2 * np.arange(count) + 1) * len(sentences) // (2 * count):
        cosines = units @ units[number]
        cosines[number] = -np.inf
        other = int(np.argmax(cosines))
        lines += [
            f"  nearest to sentence {number + 1}: {sentences[number].text}",
            f"  {cosines[other]:7.4f} is sentence {other + 1}: {sentences[other].text}",
        ]
    return lines


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
