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

A model that was fine-tuned on SQuAD likewise answers questions:

  python run_export.py --checkpoint=runs/segabert_base --finetuned_model=squad.keras \
    --null_threshold=0 --output_dir=exported/squad

Its `serving_default` takes `question` and `context`, of any length, and gives `answer`,
its `start` and `end` in characters of the context and its `score`. --null_threshold is
for SQuAD 2.0, where there may be no answer: `null_odds` above it mean that. Windows and
the choice of answers are set by --max_length, --stride, --max_question_pieces,
--max_answer_pieces and --num_best; they are those of fine-tuning by default.

docs/export.md lists what signatures give; what an exported model takes is measured by
`python -m seg_tf.commands.serve_check`.
"""

import dataclasses
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.export import saved_model
from seg_tf.export.served_classifier import ServedClassifier
from seg_tf.export.served_encoder import ServedEncoder, ServedModel
from seg_tf.export.served_extractor import ServedExtractor
from seg_tf.export.served_rows import ServedRows
from seg_tf.finetuning.classification.text_classifier import TextClassifier
from seg_tf.finetuning.model_files import load_finetuned
from seg_tf.finetuning.spans.span_extractor import SpanExtractor
from seg_tf.finetuning.spans.squad_examples import window_sizes
from seg_tf.text.graph.sentences import GraphSentenceSplitter

_FORMAT_VERSION = 1
# What a fine-tuned model of one kind has a use for, and others not.
_OF_CLASSIFIERS = ("num_texts", "labels")
_OF_WINDOWS = ("stride", "max_question_pieces")
_OF_ANSWERS = ("max_answer_pieces", "num_best", "null_threshold")
_OF_FINETUNED = (*_OF_CLASSIFIERS, "max_length", *_OF_WINDOWS, *_OF_ANSWERS)


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_string(
        "output_dir", None, "The folder of the SavedModel.", required=True
    )
    flags.DEFINE_bool("overwrite", False, "Replace a SavedModel that stands there.")
    flags.DEFINE_string(
        "finetuned_model",
        None,
        "What was fine-tuned from the checkpoint, a classifier or a model that answers "
        "questions: a .keras file.",
    )
    flags.DEFINE_integer(
        "num_texts",
        1,
        "Texts of a classifier's examples.",
        lower_bound=1,
        upper_bound=2,
    )
    flags.DEFINE_list("labels", [], "Names of its classes, in the order of numbers.")
    flags.DEFINE_integer(
        "max_length",
        None,
        "The most positions of a fine-tuned model's rows; those of fine-tuning.",
    )
    flags.DEFINE_integer(
        "stride", None, "Word pieces from a window of a context to the next."
    )
    flags.DEFINE_integer(
        "max_question_pieces", None, "Word pieces that are read of a question."
    )
    flags.DEFINE_integer(
        "max_answer_pieces", 30, "Word pieces of the longest answer.", lower_bound=1
    )
    flags.DEFINE_integer("num_best", 1, "Answers to each question.", lower_bound=1)
    flags.DEFINE_float(
        "null_threshold",
        None,
        "Of a model for SQuAD 2.0: the odds of no answer above which none is given. "
        "Without it every question has an answer.",
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    folder = output_paths.folder_path(values.output_dir)
    # Whatever can be refused, before a model is loaded.
    saved_model.check_output_dir(folder, values.overwrite)
    if values.finetuned_model is None:
        _check_unused("without a --finetuned_model", *_OF_FINETUNED)
    begin = time.perf_counter()
    pretrained, splitter = model_flags.load_model()
    graph_splitter = GraphSentenceSplitter(splitter.parameters)
    model, settings = _model(pretrained, graph_splitter)
    description = {
        "format_version": _FORMAT_VERSION,
        "checkpoint": str(pretrained.folder),
        "run": pretrained.config.name,
        "checkpoint_weights_sha256": pretrained.weights_checksum,
        "vocab_sha256": pretrained.vocabulary.checksum,
        "lower_case": pretrained.lower_case,
        "sentence_splitter": splitter.name,
        "sentence_parameters_sha256": splitter.parameters_checksum,
        "signatures": list(model.functions),
        **settings,
    }
    saved_model.write(model, folder, description)
    megabytes = (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    )
    print(
        f"{folder}: {pretrained.config.name}, signatures {', '.join(model.functions)}, "
        f"{megabytes:,.0f} MB, {time.perf_counter() - begin:.0f} s"
    )


def _model(
    pretrained: Pretrained, splitter: GraphSentenceSplitter
) -> tuple[ServedModel, dict[str, Any]]:
    """What is exported, and what it was set to."""
    path = flags.FLAGS.finetuned_model
    if path is None:
        rows = ServedRows(pretrained, splitter)
        return ServedEncoder(pretrained, rows), {
            "most_pieces": rows.layout.text_capacity.num_pieces,
            "most_sentences": rows.layout.text_capacity.num_sentences,
        }
    finetuned = load_finetuned(pathlib.Path(path), pretrained, flags.FLAGS.num_texts)
    make = _extractor if isinstance(finetuned, SpanExtractor) else _classifier
    model, settings = make(finetuned, pretrained, splitter)
    return model, {
        "finetuned_model": path,
        "finetuned_model_sha256": files.checksum(pathlib.Path(path)),
        **settings,
    }


def _classifier(
    classifier: TextClassifier, pretrained: Pretrained, splitter: GraphSentenceSplitter
) -> tuple[ServedModel, dict[str, Any]]:
    values = flags.FLAGS
    _check_unused("for a classifier", *_OF_WINDOWS, *_OF_ANSWERS)
    labels = values.labels
    if not labels and classifier.num_classes > 1:
        labels = [str(number) for number in range(classifier.num_classes)]
    layout = pretrained.layout(values.max_length)
    model = ServedClassifier(
        classifier,
        ServedRows(pretrained, splitter),
        labels,
        values.num_texts,
        layout.capacity(values.num_texts),
    )
    return model, {
        "num_texts": values.num_texts,
        "labels": labels,
        "max_length": layout.max_length,
    }


def _extractor(
    extractor: SpanExtractor, pretrained: Pretrained, splitter: GraphSentenceSplitter
) -> tuple[ServedModel, dict[str, Any]]:
    values = flags.FLAGS
    _check_unused("for a model that answers questions", *_OF_CLASSIFIERS)
    sizes = window_sizes(
        pretrained,
        max_length=values.max_length,
        **{name: values[name].value for name in _OF_WINDOWS},
    )
    choice = {name: values[name].value for name in _OF_ANSWERS}
    model = ServedExtractor(extractor, pretrained, splitter, sizes, **choice)
    return model, {"windows": dataclasses.asdict(sizes), **choice}


def _check_unused(where: str, *names: str) -> None:
    """Refuses flags that would do nothing.

    Raises:
        ValueError: if one of them is given.
    """
    given = [name for name in names if flags.FLAGS[name].present]
    if given:
        raise ValueError(
            f"`--{given[0]}` does nothing {where}. Received: "
            f"--{given[0]}={flags.FLAGS[given[0]].value}"
        )


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
