r"""Exports a model as a SavedModel that takes text.

  python run_export.py --checkpoint=runs/segabert_base --output_dir=exported/segabert

Sentence splitting, word pieces and indices are part of the graph, so a process that
loads it needs only TensorFlow and tensorflow-text:

  import tensorflow as tf
  import tensorflow_text  # its operators

  model = tf.saved_model.load("exported/segabert")
  outputs = model.signatures["serving_default"](text=tf.constant(["One. Two."]))
  outputs["sentence_vectors"], outputs["sentence_mask"], outputs["pooled_output"]

Signatures of a pretrained encoder (BERT, SegaBERT, SLM, mixtures of them, ReAT):

  serving_default  `text`: documents; a line is a paragraph. Read up to the last
                   sentence that fits into a row; `is_cut` marks cut texts
  encode_pairs     `text` and `second_text`, in one row as in fine-tuning; the longer
                   text is cut
  encode_ids       the features of rows

A fine-tuned model, from `run_finetuning.py --save_model` or `save_to_preset`, is
detected. A classifier takes `text` (and `second_text`) and returns `label` and
`probabilities`; a regression returns `value`. A model fine-tuned on SQuAD takes
`question` and `context`, of any length, and returns `answer`, `start`, `end` and
`score`. With --null_threshold (SQuAD 2.0), `null_odds` above it mean no answer:

  python run_export.py --checkpoint=finetuned/squad/…/model --null_threshold=0 \
    --output_dir=exported/squad

--formats=saved_model,onnx also writes `encode_ids` as encode_ids.onnx (extra `onnx`),
for any number of rows of any length. The file is run in onnxruntime and compared with
the model; nothing is written if it differs by more than rounding.

In Python, `seg_tf.SentenceEncoder`, `seg_tf.TextClassifier` and `seg_tf.SpanExtractor`
have `from_preset` and `export`. docs/export.md lists all outputs.
"""

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

_ANSWER_FLAGS = ("max_answer_pieces", "num_best", "null_threshold")


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_string("output_dir", None, "Output folder.", required=True)
    flags.DEFINE_bool("overwrite", False, "Replace an existing exported model.")
    flags.DEFINE_list(
        "formats",
        [saved_model.SAVED_MODEL],
        "saved_model, onnx or both, comma-separated.",
    )
    flags.DEFINE_integer(
        "max_answer_pieces",
        30,
        "Maximum length of an answer in word pieces.",
        lower_bound=1,
    )
    flags.DEFINE_integer("num_best", 1, "Answers per question.", lower_bound=1)
    flags.DEFINE_float(
        "null_threshold",
        None,
        "For SQuAD 2.0: odds above which there is no answer. Without it, every "
        "question has an answer.",
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    folder = output_paths.folder_path(values.output_dir)
    # Refuse what can be refused before loading the model.
    saved_model.check_output_dir(folder, values.overwrite)
    saved_model.check_formats(values.formats)
    begin = time.perf_counter()
    model, settings = _load_model()
    model.export(folder, values.overwrite, values.formats, **settings)
    seconds = time.perf_counter() - begin
    description = saved_model.describe(folder)
    sizes = (path.stat().st_size for path in folder.rglob("*") if path.is_file())
    signatures = ", ".join(description["signatures"])
    print(
        f"{folder}: {description['run']}, "
        f"{f'signatures {signatures}, ' if signatures else ''}"
        f"{sum(sizes) / 1e6:,.0f} MB, {seconds:.0f} s"
    )
    for difference in description["largest_differences"].values():
        print(
            f"{onnx_file.FILE_NAME}: differs from the model by at most {difference:.1e}"
        )


def _load_model() -> tuple[SentenceEncoder | TextTask, dict[str, Any]]:
    """The model, and arguments of its `export`."""
    values = flags.FLAGS
    if not is_saved_task(values.checkpoint):
        _refuse_flags(*_ANSWER_FLAGS)
        return SentenceEncoder(model_flags.load_model()), {}
    _refuse_flags("vocab_file", "lower_case")
    task = TextTask.from_preset(
        values.checkpoint, sentence_function=model_flags.sentence_function()
    )
    task.pretrained = model_flags.with_sentence_parameters(task.prepared())
    if not isinstance(task, SpanExtractor):
        _refuse_flags(*_ANSWER_FLAGS)
        return task, {}
    return task, {name: values[name].value for name in _ANSWER_FLAGS}


def _refuse_flags(*names: str) -> None:
    for name in names:
        if flags.FLAGS[name].present:
            raise ValueError(
                f"`--{name}` does nothing for this model. Received: "
                f"--{name}={flags.FLAGS[name].value} with "
                f"--checkpoint={flags.FLAGS.checkpoint}"
            )


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
