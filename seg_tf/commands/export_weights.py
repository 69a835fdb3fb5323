r"""Exports a pretrained model's weights for other libraries, with a model card.

  seg-tf export-weights --checkpoint=runs/bert_base --to=hugging_face \
    --output_dir=exported/bert_base --manifest_file=records/manifest.json

Formats:

  hugging_face  config.json, model.safetensors, vocab.txt and tokenizer_config.json,
                only for BERT
  keras_hub     a preset with tokenizer and preprocessor, for `from_preset`, only for
                models that compute the same outputs as keras-hub's BertBackbone
  keras         model.keras, for `keras.saving.load_model`, which needs this package
  checkpoint    encoder and objectives in half precision, without the optimizer, as a
                checkpoint of this package (a sixth of the size), with log.jsonl

The model card (README.md) describes the model, text and recipe, and lists checksums and
deviations from the paper.
"""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, files
from seg_tf.checkpoints import encoder_copies
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.finetuning.text_task import is_saved_task
from seg_tf.interop import hugging_face, keras_hub, model_card
from seg_tf.training.run_folder import RunFolder

_FORMATS = ("checkpoint", "hugging_face", "keras_hub", "keras")


def define_flags() -> None:
    model_flags.define_model_flags()
    flags.DEFINE_enum("to", None, _FORMATS, "Format to write.", required=True)
    flags.DEFINE_string("output_dir", None, "New or empty folder.", required=True)
    flags.DEFINE_string(
        "manifest_file", None, "manifest.json of the run's records, for the card."
    )
    flags.DEFINE_string("introduction_file", None, "Markdown for the top of the card.")
    flags.DEFINE_float(
        "finetuning_learning_rate",
        None,
        "Default learning rate for fine-tuning. Requires --to=checkpoint.",
        lower_bound=0.0,
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = command_line.folder_path(values.output_dir)
    # Reject invalid arguments before loading the model.
    files.check_new_folder(output_dir)
    learning_rate = values.finetuning_learning_rate
    if learning_rate is not None and values.to != "checkpoint":
        raise ValueError(
            "`--finetuning_learning_rate` needs --to=checkpoint. Received: "
            f"--to={values.to}"
        )
    introduction = ""
    if values.introduction_file:
        introduction = pathlib.Path(values.introduction_file).read_text("utf-8")
    pretrained = model_flags.load_model()
    if learning_rate is not None:
        pretrained = dataclasses.replace(
            pretrained, finetuning_learning_rate=learning_rate
        )
    if is_saved_task(pretrained.folder):
        if values.to == "checkpoint":
            raise ValueError(
                "`--checkpoint` must be of a pretrained model with --to=checkpoint. "
                f"Received: {pretrained.folder}, a fine-tuned model, whose folder can "
                "be shared directly"
            )
        print(
            f"{pretrained.folder}: fine-tuned; its encoder is written without its head",
            flush=True,
        )
    with files.new_folder(output_dir) as unfinished:
        _write(pretrained, unfinished)
        model_card.write_model_card(
            pretrained,
            unfinished,
            introduction=introduction,
            manifest_file=values.manifest_file and pathlib.Path(values.manifest_file),
        )
    print(f"{output_dir}: {pretrained.config.name} as {values.to}, with README.md")


def _write(pretrained: Pretrained, folder: pathlib.Path) -> None:
    match flags.FLAGS.to:
        case "hugging_face":
            hugging_face.write(pretrained, folder)
        case "keras_hub":
            keras_hub.write_preset(pretrained, folder)
        case "keras":
            keras_hub.write_keras_file(pretrained, folder / "model.keras")
        case "checkpoint":
            run = RunFolder.of_checkpoint(pretrained.folder)
            if run and run.log_file.is_file():
                shutil.copyfile(run.log_file, folder / run.log_file.name)
            encoder_copies.write_half_precision(pretrained, folder)
