r"""Writes a pretrained model to hand on or for other programs, with a model card.

  python -m seg_tf.commands.export_weights --checkpoint=runs/bert_base \
    --to=hugging_face --output_dir=exported/bert_base

What it can be, and who reads it:

  hugging_face  config.json, model.safetensors, vocab.txt, tokenizer_config.json; BERT
                alone, since that has no place for other tables
  keras_hub     a preset with tokenizer and preprocessor, for `from_preset`; one of
                keras-hub alone where the model computes as its BertBackbone does, and
                else one that needs this package
  keras         model.keras, for `keras.saving.load_model` with this package
  checkpoint    a checkpoint of this package to hand on: encoder and objectives in half
                precision without the optimizer, a seventh of the size, and log.jsonl

README.md beside it is the model card: model, text, training data, recipe, every
deviation from the paper, scores, checksums. --manifest_file adds what the records hold,
--scores what was measured elsewhere, --introduction_file what only you know, such as
the purpose and the licence, in Markdown:

  … --manifest_file=records/manifest.json --scores="glue/mrpc F1=0.87,glue/rte=0.65" \
    --introduction_file=about.md

A checkpoint can name the learning rate that fine-tuning takes by default:

  … --to=checkpoint --finetuning_learning_rate=5e-4

SavedModels that take text are written by run_export.py.
"""

import dataclasses
import math
import pathlib
import shutil
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, output_paths
from seg_tf.checkpoints import half_precision
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.finetuning.text_task import is_saved_task
from seg_tf.inference import texts
from seg_tf.interop import hugging_face, keras_hub, model_card
from seg_tf.training.run_folder import RunFolder

_KERAS_FILE = "model.keras"


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_enum("to", None, list(_FORMS), "Format to write.", required=True)
    flags.DEFINE_string("output_dir", None, "Folder, new or empty.", required=True)
    flags.DEFINE_string(
        "manifest_file", None, "manifest.json of the run's records, for the card."
    )
    flags.DEFINE_list("scores", [], "name=value, comma-separated, for the card.")
    flags.DEFINE_string("introduction_file", None, "Markdown, for the top of the card.")
    flags.DEFINE_float(
        "finetuning_learning_rate",
        None,
        "Default learning rate of fine-tuning, with --to=checkpoint. Without the flag "
        "it is that of --checkpoint, if that names one.",
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = output_paths.folder_path(values.output_dir)
    # Whatever can be refused, before a model is loaded.
    output_paths.check_new_folder(output_dir)
    scores = dict(map(_score, values.scores))
    learning_rate = values.finetuning_learning_rate
    if learning_rate is not None and not (
        values.to == "checkpoint" and 0 < learning_rate < math.inf
    ):
        raise ValueError(
            "`--finetuning_learning_rate` must be positive and finite, and given with "
            f"--to=checkpoint. Received: {learning_rate}, with --to={values.to}"
        )
    introduction = ""
    if values.introduction_file:
        with open(values.introduction_file, "rb") as file:
            introduction = "".join(texts.decoded(file, values.introduction_file))
    pretrained = model_flags.load_model()
    if learning_rate is not None:
        pretrained = dataclasses.replace(
            pretrained, finetuning_learning_rate=learning_rate
        )
    if is_saved_task(pretrained.folder):
        _check_form_of_task(pretrained.folder)
    with output_paths.new_folder(output_dir) as aside:
        written = _FORMS[values.to](pretrained, aside)
        model_card.write_model_card(
            pretrained,
            aside,
            introduction=introduction,
            scores=scores,
            manifest_file=values.manifest_file and pathlib.Path(values.manifest_file),
        )
    print(f"{output_dir}: {pretrained.config.name} as {written}, with README.md")


def _check_form_of_task(folder: pathlib.Path) -> None:
    """Says what of a fine-tuned model is not written.

    Raises:
        ValueError: if it would be a checkpoint, which it is already.
    """
    if flags.FLAGS.to == "checkpoint":
        raise ValueError(
            "`--checkpoint` must be of a pretrained model with --to=checkpoint. "
            f"Received: {folder}, a fine-tuned one, whose folder can be handed on as "
            "it is"
        )
    print(f"{folder}: fine-tuned; its encoder is written without its head", flush=True)


def _write_hugging_face(pretrained: Pretrained, folder: pathlib.Path) -> str:
    hugging_face.write(pretrained, folder)
    return "a BERT of Hugging Face"


def _write_keras_file(pretrained: Pretrained, folder: pathlib.Path) -> str:
    keras_hub.write_keras_file(pretrained, folder / _KERAS_FILE)
    return _KERAS_FILE


def _write_preset(pretrained: Pretrained, folder: pathlib.Path) -> str:
    backbone = keras_hub.write_preset(pretrained, folder)
    return f"a preset of keras-hub, {backbone}"


def _write_checkpoint(pretrained: Pretrained, folder: pathlib.Path) -> str:
    run = RunFolder.of_checkpoint(pretrained.folder)
    if run and run.log_file.is_file():
        shutil.copyfile(run.log_file, folder / run.log_file.name)
    half_precision.write_half_precision(pretrained, folder)
    return "a checkpoint in half precision"


_FORMS = {
    "checkpoint": _write_checkpoint,
    "hugging_face": _write_hugging_face,
    "keras_hub": _write_preset,
    "keras": _write_keras_file,
}


def _score(text: str) -> tuple[str, str]:
    name, sign, value = text.rpartition("=")
    if not (sign and name.strip() and value.strip()):
        raise ValueError(
            f"`--scores` must be name=value, comma-separated. Received: {text!r}"
        )
    return name.strip(), value.strip()


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
