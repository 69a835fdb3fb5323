r"""Exports a model as a SavedModel that takes text.

  python run_export.py --checkpoint=runs/segabert_base --output_dir=exported/segabert

Splitting into paragraphs and sentences, word pieces and indices are part of its graph,
so that a process which loads it needs TensorFlow and tensorflow-text, and nothing of
this project:

  import tensorflow as tf
  import tensorflow_text  # its operators

  model = tf.saved_model.load("exported/segabert")
  found = model.signatures["serving_default"](text=tf.constant(["First. Second."]))
  found["sentence_vectors"], found["sentence_mask"], found["pooled_output"]

Signatures of a pretrained encoder (BERT, SegaBERT, SLM, mixtures of them, ReAT):

  serving_default  `text`: documents, a line is a paragraph, read as in pretraining, up
                   to the last sentence that fits into a row; `is_cut` says where a text
                   goes on
  encode_pairs     `text` and `second_text`: in one row, as in fine-tuning, the longer
                   one cut to what a row has room for
  encode_ids       the features of rows

All give `sequence_output`, `pooled_output`, `sentence_vectors` and `sentence_mask`,
which tells where there is a sentence. The vector of a sentence is that of its [SENT]
(SLM), its pooled <SS> (ReAT) or the mean over its word pieces; the pooled vector is
that of [CLS], or the mean of the sentences' (ReAT).

A classifier that was fine-tuned, and saved by Keras, comes with the checkpoint that it
started from, whose vocabulary and rows it reads:

  python run_export.py --checkpoint=runs/segabert_base --finetuned_model=mrpc.keras \
    --num_texts=2 --labels=different,same --output_dir=exported/mrpc

Its `serving_default` takes `text` (and `second_text`), and gives `label` and
`probabilities`; that of a regression gives `value`.

`python -m seg_tf.serve_check` measures what an exported model takes.
"""

import pathlib
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from seg_tf import command_line
from seg_tf.export import saved_model
from seg_tf.export.model_rows import ModelRows, model_rows
from seg_tf.export.served_classifier import ServedClassifier
from seg_tf.export.served_encoder import ServedEncoder, ServedModel
from seg_tf.finetuning.saved_models import load_classifier
from seg_tf.finetuning.text_layout import TextLayout, text_layout
from seg_tf.inference import model_flags
from seg_tf.text.graph_sentences import GraphSentenceSplitter
from seg_tf.training.errors import CheckpointError
from seg_tf.training.pretrained import Pretrained

_FORMAT_VERSION = 1


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.adopt_module_key_flags(model_flags)  # for --help
    flags.DEFINE_string(
        "output_dir", None, "The folder of the SavedModel.", required=True
    )
    flags.DEFINE_bool("overwrite", False, "Replace a SavedModel that stands there.")
    flags.DEFINE_string(
        "finetuned_model",
        None,
        "A classifier that was fine-tuned from the checkpoint: a .keras file.",
    )
    flags.DEFINE_integer(
        "num_texts", 1, "Texts of its examples.", lower_bound=1, upper_bound=2
    )
    flags.DEFINE_list("labels", [], "Names of its classes, in the order of numbers.")
    flags.DEFINE_integer(
        "max_length", None, "The most positions of its rows; those of pretraining."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    folder = pathlib.Path(values.output_dir)
    # Whatever can be refused, before a model is loaded.
    saved_model.check_output_dir(folder, values.overwrite)
    begin = time.perf_counter()
    pretrained, splitter = model_flags.load_model()
    rows = model_rows(pretrained, GraphSentenceSplitter(splitter.parameters))
    model = _model(pretrained, rows)
    description = {
        "format_version": _FORMAT_VERSION,
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        "weights_sha256": pretrained.weights_checksum,
        "vocab_sha256": pretrained.vocabulary.checksum,
        "lower_case": pretrained.lower_case,
        "sentence_splitter": splitter.name,
        "sentence_parameters_sha256": splitter.parameters_checksum,
        "signatures": list(model.functions),
        **_limits(pretrained, rows),
    }
    saved_model.write(model, folder, description)
    megabytes = (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    )
    print(
        f"{folder}: {pretrained.config.name}, signatures {', '.join(model.functions)}, "
        f"{megabytes:,.0f} MB, {time.perf_counter() - begin:.0f} s"
    )


def _model(pretrained: Pretrained, rows: ModelRows) -> ServedModel:
    values = flags.FLAGS
    if values.finetuned_model is None:
        return ServedEncoder(pretrained, rows)
    classifier = load_classifier(
        pathlib.Path(values.finetuned_model), pretrained, values.num_texts
    )
    labels = values.labels or [str(number) for number in range(classifier.num_classes)]
    room = _layout(pretrained).room(values.num_texts)
    return ServedClassifier(classifier, rows, labels, values.num_texts, room)


def _layout(pretrained: Pretrained) -> TextLayout:
    return text_layout(pretrained, max_length=flags.FLAGS.max_length)


def _limits(pretrained: Pretrained, rows: ModelRows) -> dict[str, Any]:
    """How much text a row takes."""
    values = flags.FLAGS
    if values.finetuned_model is None:
        return {
            "most_pieces": rows.room.num_pieces,
            "most_sentences": rows.room.num_sentences,
        }
    return {
        "finetuned_model": values.finetuned_model,
        "num_texts": values.num_texts,
        "labels": values.labels,
        "max_length": _layout(pretrained).max_length,
    }


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
