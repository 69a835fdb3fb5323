r"""Exports a model as a SavedModel that accepts text.

  seg-tf export --checkpoint=runs/segabert_base --output_dir=exported/segabert

Sentence splitting, tokenization and index computation are part of the graph, so serving
it requires only TensorFlow and tensorflow-text. A pretrained encoder has the signatures
`serving_default` (documents), `encode_pairs` and `encode_ids` (row features). A
fine-tuned model, which is detected automatically, lacks `encode_pairs`.

--formats=saved_model,onnx also writes `encode_ids` as encode_ids.onnx, after comparing
its outputs in onnxruntime with the model's. docs/export.md lists inputs and outputs.
"""

import time
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line
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
        "formats", [saved_model.SAVED_MODEL], "saved_model, onnx or both."
    )
    flags.DEFINE_integer(
        "max_answer_pieces", 30, "Maximum length of an answer in word pieces.", 1
    )
    flags.DEFINE_integer("num_best", 1, "Number of answers to return.", lower_bound=1)
    flags.DEFINE_float(
        "null_threshold", None, "For SQuAD 2.0: odds above which the answer is empty."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    folder = command_line.folder_path(values.output_dir)
    # Reject invalid arguments before loading the model.
    saved_model.check_output_dir(folder, values.overwrite)
    saved_model.check_formats(values.formats)
    begin = time.perf_counter()
    model: SentenceEncoder | TextTask
    if is_saved_task(values.checkpoint):
        model = TextTask.from_preset(
            values.checkpoint, sentence_function=model_flags.sentence_function()
        )
        model.pretrained = model_flags.with_sentence_parameters(model.prepared())
    else:
        model = SentenceEncoder(model_flags.load_model())
    settings = {}
    if isinstance(model, SpanExtractor):
        settings = {name: values[name].value for name in _ANSWER_FLAGS}
    elif ignored := [name for name in _ANSWER_FLAGS if values[name].present]:
        raise ValueError(
            f"`--{ignored[0]}` is for models fine-tuned on SQuAD. Received: "
            f"--checkpoint={values.checkpoint}"
        )
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
