r"""Converts weights from another library or model to a checkpoint.

  seg-tf import-weights --from=uncased_L-12_H-768_A-12 --output_dir=runs/google_bert

reads a BERT model in one of these formats (docs/interop.md):

  google        bert_model.ckpt.*, bert_config.json, vocab.txt (BERT's authors, TF 1)
  hugging_face  config.json, model.safetensors and vocab.txt or tokenizer.json
  segabert      the same files, as released by SegaBERT's authors
  keras_hub     a preset folder of a BertBackbone

--from=hf://organization/name downloads a model from the Hugging Face Hub. With
--config, the weights initialize the model of that config, and pretraining with the same
--config accepts the checkpoint as --initial_checkpoint. A report is printed and written
to import_report.txt. It lists loaded, new and unmatched weights, and the windows for
which the two models compute equal outputs.
"""

import pathlib
from collections.abc import Sequence

from absl import flags
from ml_collections import config_flags

from seg_tf import command_line, files
from seg_tf.commands import run_flags
from seg_tf.config import from_config_dict
from seg_tf.interop import convert
from seg_tf.text.normalization import define_normalization_flags

RUN = {"parse_flags": run_flags.parse_flags}


def define_flags() -> None:
    config_flags.DEFINE_config_file(
        "config", None, "Config of the model to initialize; its fields are flags, too."
    )
    flags.DEFINE_string(
        "from",
        None,
        "Folder, prefix of a TensorFlow checkpoint, or hf://organization/name with an "
        "optional @revision.",
        required=True,
    )
    flags.DEFINE_string("output_dir", None, "Checkpoint to write.", required=True)
    flags.DEFINE_string(
        "vocab_file", None, "The model's vocab.txt, if it is not next to the weights."
    )
    define_normalization_flags(
        "Lowercase text and, without --nostrip_accents, strip accents. This flag and "
        "the next two override the files of the source. Default: as in these files, or "
        "cased if more than 1 % of the vocabulary's rows have capital letters.",
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = command_line.folder_path(values.output_dir)
    files.check_new_folder(output_dir)
    config = values.config and from_config_dict(values.config)
    overridden = config_flags.get_override_values(values["config"]) if config else ()
    report = convert.convert(
        convert.open_model(values["from"].value),
        output_dir,
        config,
        pathlib.Path(values.vocab_file) if values.vocab_file else None,
        frozenset(overridden) if config else None,
        lower_case=values.lower_case,
        strip_accents=values.strip_accents,
        split_ideographs=values.split_ideographs,
    )
    print(report.to_text())
    print(f"Written: {output_dir}")
