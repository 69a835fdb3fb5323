r"""Encodes each sentence of one or more texts as a vector, in context.

  seg-tf encode-text --checkpoint=runs/reat_small --text=chapters/ --output_dir=vectors

Each file is one text of any length. Split books into one file per chapter. ReAT encodes
a text in one pass, so each sentence attends to the whole text. Other encoders split the
text into rows of whole sentences, which are encoded independently.

The vectors of each text are written to a NumPy archive, <file name>.npz:

  vectors     float32 (S, D): the pooled <SS> of each sentence (ReAT), the output at its
              [SENT] (SLM), or the mean over its word pieces (BERT, SegaBERT)
  sentences   JSON list of the S sentences
  paragraphs  int32 (S,): paragraph index of each sentence, from 0
  settings    JSON object: text, weights and settings that the vectors depend on

If a sentence is longer than a block or row, its vector is the mean over its parts.
"""

import dataclasses
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from seg_tf import command_line, files
from seg_tf.commands import model_flags
from seg_tf.inference import texts
from seg_tf.inference.sentence_encoder import SentenceEncoder

_FORMAT_VERSION = 3


def define_flags() -> None:
    model_flags.define_model_flags()
    model_flags.define_text_flags()
    flags.DEFINE_list("text", [], "Comma-separated text files or folders.")
    flags.DEFINE_string("output_dir", None, "Folder for the archives.", required=True)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    sources = texts.list_files(values.text)
    folder = command_line.folder_path(values.output_dir)
    for path in sources.values():  # before anything is encoded
        if not model_flags.read_paragraphs(path):
            raise ValueError(f"`--text` must hold a sentence. Received: {path}")
    pretrained = model_flags.load_model()
    splitter, capacity = pretrained.splitter(), pretrained.layout().text_capacity
    encoder = SentenceEncoder(pretrained)
    settings = {
        "format_version": _FORMAT_VERSION,
        "checkpoint": str(pretrained.folder),
        "weights_sha256": pretrained.weights_checksum,
        "vocab_sha256": pretrained.vocabulary.checksum,
        **pretrained.normalization.described(),
        "sentence_splitter": splitter.parameters.name,
        "sentence_parameters_sha256": splitter.parameters.checksum,
        **dataclasses.asdict(capacity),
    }
    for name, path in sources.items():
        document = model_flags.read_paragraphs(path)
        sentences = list(texts.split_documents([document], name, splitter))
        begin = time.perf_counter()
        (encoded,) = encoder.encode_documents([sentences])
        seconds = time.perf_counter() - begin
        facts = {
            "words": sum(len(sentence.text.split()) for sentence in sentences),
            "sentences": len(sentences),
            "passes": encoded.num_passes,
        }
        text = {"name": name, "sha256": files.checksum(path)}
        output = folder / f"{name}.npz"
        output.parent.mkdir(parents=True, exist_ok=True)
        with files.written_aside(output) as aside, open(aside, "wb") as file:
            np.savez_compressed(
                file,
                vectors=encoded.vectors,
                # An array of strings would pad each one to the longest.
                sentences=_json_array([sentence.text for sentence in sentences]),
                paragraphs=np.array([one.paragraph for one in sentences], np.int32),
                settings=_json_array({"text": text, **facts, **settings}),
            )
        counts = ", ".join(f"{count:,} {fact}" for fact, count in facts.items())
        print(f"{output}: {counts}, {seconds:.1f} s", flush=True)


def _json_array(value: Any) -> np.ndarray:
    return np.array(json.dumps(value, ensure_ascii=False))
