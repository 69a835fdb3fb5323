r"""Converts weights of another program or model to a checkpoint.

  python -m seg_tf.commands.import_weights --from=uncased_L-12_H-768_A-12 \
    --output_dir=runs/google_bert

reads a BERT and writes a checkpoint with the same architecture, for fine-tuning and for
all commands with --checkpoint. Formats:

  google        bert_model.ckpt.*, bert_config.json, vocab.txt (BERT's authors, TF 1)
  hugging_face  config.json, model.safetensors and vocab.txt or tokenizer.json
  segabert      the same, as SegaBERT's authors released it
  keras_hub     a preset folder of a BertBackbone

--from=hf://organisation/name downloads a model of the Hugging Face hub: only the
necessary files, into the hub's cache (HF_HOME). HF_ENDPOINT is another hub;
HF_HUB_OFFLINE=1 uses only the cache.

To pretrain further, or to start another model from the weights, name its config:

  python -m seg_tf.commands.import_weights --from=uncased_L-12_H-768_A-12 \
    --config=configs/segabert.py:base --output_dir=runs/bert_as_segabert
  python run_pretraining.py --config=configs/segabert.py:base --records_dir=records \
    --initial_checkpoint=runs/bert_as_segabert --output_dir=runs/segabert

Both need the same --config and --config.… flags, and records with the same vocab.txt.
LayerNorm's epsilon, the form of GELU, token types and longer tables follow the source
in both, unless set by a flag: --config.model.layer_norm_epsilon=1e-12. Tables that BERT
lacks start so that the model equals BERT if possible: BERT with P.S. and SLM always,
SegaBERT on windows of one sentence. A report of loaded, new and unmatched weights, and
of the windows for which the two are equal, is printed and written to import_report.txt.

--initial_checkpoint of run_pretraining.py takes checkpoints of this package directly,
for other models too, such as SLM from SegaBERT.
"""

import pathlib
from collections.abc import Sequence

from absl import flags
from ml_collections import config_flags

from seg_tf import command_line, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import config_overrides
from seg_tf.config import from_config_dict
from seg_tf.interop import convert
from seg_tf.text.normalization import define_normalization_flags


def define_flags() -> None:
    config_flags.DEFINE_config_file(
        "config",
        None,
        "Config, FILE or FILE:VARIANT, whose model gets the weights; its fields "
        "are flags too. Without, a model of another program stays what it is.",
    )
    flags.DEFINE_string(
        "from",
        None,
        "Folder, prefix of a TensorFlow checkpoint, or hf://organisation/name, maybe "
        "with @revision.",
        required=True,
    )
    flags.DEFINE_string("output_dir", None, "Checkpoint to write.", required=True)
    flags.DEFINE_string(
        "vocab_file", None, "Its vocab.txt, if there is none next to the weights."
    )
    define_normalization_flags(
        "Lower-case text and, without --nostrip_accents, strip accents. This flag and "
        "the next two override the files of the source. Default: as these say, or else "
        "the vocabulary's rows; capital letters in more than 1 % make it cased.",
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output_dir = output_paths.folder_path(values.output_dir)
    output_paths.check_new_folder(output_dir)
    config = values.config and from_config_dict(values.config)
    fixed = config_overrides.overridden(values["config"]) if config else None
    report = convert.convert(
        convert.open_model(values["from"].value),
        output_dir,
        config,
        pathlib.Path(values.vocab_file) if values.vocab_file else None,
        fixed,
        lower_case=values.lower_case,
        strip_accents=values.strip_accents,
        split_ideographs=values.split_ideographs,
    )
    print(report.to_text())
    print(f"Written: {output_dir}")


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError, parse_flags=config_overrides.parse_flags)
