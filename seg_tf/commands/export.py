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
                   to the last sentence that fits into a row; `is_cut` marks cut texts
  encode_pairs     `text` and `second_text`: in one row, as in fine-tuning, the longer
                   one cut to the capacity of a row
  encode_ids       the features of rows

All give `sequence_output`, `pooled_output`, `sentence_vectors` and `sentence_mask`,
which is True at sentences. The vector of a sentence is that of its [SENT]
(SLM), its pooled <SS> (ReAT) or the mean over its word pieces; the pooled vector is
that of [CLS], or the mean of the sentences' (ReAT).

A fine-tuned model, as `run_finetuning.py --save_model` and `save_to_preset` keep it,
says itself which it is:

  python run_export.py --checkpoint=finetuned/mrpc/…/model --output_dir=exported/mrpc

`serving_default` of a classifier takes `text` (and `second_text`), and gives `label`
and `probabilities`; that of a regression gives `value`. One that was fine-tuned on
SQuAD answers questions:

  python run_export.py --checkpoint=finetuned/squad/…/model --null_threshold=0 \
    --output_dir=exported/squad

Its `serving_default` takes `question` and `context`, of any length, and gives `answer`,
its `start` and `end` in characters of the context and its `score`. --null_threshold is
for SQuAD 2.0, where there may be no answer: `null_odds` above it mean that.

--formats=saved_model,onnx also writes `encode_ids` as encode_ids.onnx (extra `onnx`),
for any number of rows of any length. The file is run in onnxruntime and compared with
the model. The largest difference is printed; if it exceeds rounding, nothing is kept.

In Python, `seg_tf.SentenceEncoder`, `seg_tf.TextClassifier` and
`seg_tf.SpanExtractor` have `from_preset` and `export`.

docs/export.md lists what signatures give; what an exported model takes is measured by
`python -m seg_tf.commands.serve_check`.
"""

import pathlib
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import model_flags
from seg_tf.export import onnx_file, saved_model
from seg_tf.finetuning import SpanExtractor
from seg_tf.finetuning.text_task import TextTask, is_saved_task
from seg_tf.inference.sentence_encoder import SentenceEncoder

_OF_ANSWERS = ("max_answer_pieces", "num_best", "null_threshold")


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_string(
        "output_dir", None, "The folder of the exported model.", required=True
    )
    flags.DEFINE_bool("overwrite", False, "Replace an existing exported model.")
    flags.DEFINE_list(
        "formats",
        [saved_model.SAVED_MODEL],
        "saved_model, onnx or both, comma-separated.",
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
    saved_model.check_formats(values.formats)
    begin = time.perf_counter()
    model, choice = _model()
    model.export(folder, values.overwrite, values.formats, **choice)
    _report(folder, time.perf_counter() - begin)


def _model() -> tuple[SentenceEncoder | TextTask, dict[str, Any]]:
    """The model, and how it is exported."""
    values = flags.FLAGS
    if not is_saved_task(values.checkpoint):
        _check_unused(*_OF_ANSWERS)
        return SentenceEncoder(model_flags.load_model()), {}
    _check_unused("vocab_file", "lower_case")
    task = TextTask.from_preset(
        values.checkpoint, sentence_function=model_flags.sentence_function()
    )
    task.pretrained = model_flags.with_sentence_parameters(task.prepared())
    if not isinstance(task, SpanExtractor):
        _check_unused(*_OF_ANSWERS)
        return task, {}
    return task, {name: values[name].value for name in _OF_ANSWERS}


def _report(folder: pathlib.Path, seconds: float) -> None:
    description = saved_model.describe(folder)
    megabytes = (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    )
    of_text = description["signatures"]
    signatures = f"signatures {', '.join(of_text)}, " if of_text else ""
    print(
        f"{folder}: {description['run']}, {signatures}{megabytes:,.0f} MB, "
        f"{seconds:.0f} s"
    )
    for difference in description["largest_differences"].values():
        print(
            f"{onnx_file.FILE_NAME}: differs from the model by at most {difference:.1e}"
        )


def _check_unused(*names: str) -> None:
    """Refuses flags that would do nothing.

    Raises:
        ValueError: if one of them is given.
    """
    given = [name for name in names if flags.FLAGS[name].present]
    if given:
        raise ValueError(
            f"`--{given[0]}` does nothing for this model. Received: "
            f"--{given[0]}={flags.FLAGS[given[0]].value} with "
            f"--checkpoint={flags.FLAGS.checkpoint}"
        )


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
