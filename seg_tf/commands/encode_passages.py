r"""Encodes each paragraph of documents as a vector, in the context of its document.

  seg-tf encode-passages --checkpoint=segabert_mini_en --text=articles/ \
    --output_dir=passages

The output folder is input for a vector index:

  vectors.npy       float32 (P, D): the vector of each passage
  passages.jsonl    for each passage the file, document, start and stop characters in
                    the document (its paragraphs joined by line feeds), and text

A passage is encoded together with its document, or with as much of it as fits into a
row of the model. --isolated encodes each passage alone, and docs/export.md#passages
compares the recall of both. Encode queries with `SentenceEncoder.encode`.
"""

from collections.abc import Sequence

import numpy as np
from absl import flags

from seg_tf import command_line, files
from seg_tf.commands import model_flags
from seg_tf.inference import texts
from seg_tf.inference.sentence_encoder import SentenceEncoder


def define_flags() -> None:
    model_flags.define_model_flags()
    model_flags.define_text_flags()
    flags.DEFINE_list("text", [], "Comma-separated text files or folders.")
    flags.DEFINE_bool("isolated", False, "Encode each passage without its document.")
    flags.DEFINE_string("output_dir", None, "New or empty folder.", required=True)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    sources = texts.list_files(values.text)
    folder = command_line.folder_path(values.output_dir)
    files.check_new_folder(folder)
    encoder = SentenceEncoder(model_flags.load_model())
    vectors, passages = [], []
    for name, path in sources.items():
        for number, paragraphs in enumerate(model_flags.read_documents(path)):
            document = "\n".join(paragraphs)
            encoded = encoder.encode_passages(document)
            spans = [document[begin:end] for begin, end in encoded.spans]
            vectors.append(
                encoder.encode(spans) if values.isolated else encoded.vectors
            )
            for (begin, end), text in zip(encoded.spans, spans, strict=True):
                place = {"file": name, "document": number, "start": begin, "stop": end}
                passages.append({**place, "text": text})
        print(f"{name}: {len(passages):,} passages", flush=True)
    if not passages:
        raise ValueError(f"`--text` must hold a sentence. Received: {values.text}")
    with files.new_folder(folder) as unfinished:
        np.save(unfinished / "vectors.npy", np.concatenate(vectors))
        files.write_json_lines(unfinished / "passages.jsonl", passages)
    print(f"{len(passages):,} passages of {len(sources):,} files: {folder}")
