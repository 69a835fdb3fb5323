"""Scores masked language models on BLiMP's minimal pairs, without fine-tuning.

  seg-tf evaluate-grammar --checkpoint=segabert_mini_en,bert_mini_en --data_dir=blimp

prints, for each model and BLiMP field, the percentage of pairs whose grammatical
sentence has the higher pseudo-log-likelihood. Chance is 50. All 67 files take an hour.
With --pairs=20 they take a minute.
"""

from collections.abc import Sequence

from absl import flags

from seg_tf import command_line
from seg_tf.commands import model_flags
from seg_tf.inference.masked_lm import SentenceScorer, evaluate_minimal_pairs
from seg_tf.tasks import blimp


def define_flags() -> None:
    model_flags.define_model_flags(several=True)
    model_flags.define_output_flag()
    flags.DEFINE_string("data_dir", None, "Folder of the BLiMP files.", required=True)
    flags.DEFINE_integer("pairs", None, "Read only the first N pairs of each file.", 1)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = model_flags.output_file()
    pairs = blimp.read(values.data_dir, values.pairs)
    columns = ["accuracy", *sorted({pair.field for pair in pairs})]
    results, table = [], [["model", *columns]]
    for pretrained in model_flags.load_models():
        scorer = SentenceScorer(pretrained)
        name = pretrained.config.name
        count = scorer.count(list({t for pair in pairs for t in (pair.good, pair.bad)}))
        with command_line.progress_bar(count, name, "masked piece") as bar:
            scores = evaluate_minimal_pairs(scorer, pairs, bar.update)
        results.append({"run": name, "checkpoint": str(pretrained.folder), **scores})
        table.append([name, *(f"{100 * scores[column]:.1f}" for column in columns)])
    print(f"{len(pairs):,} pairs")
    print(command_line.aligned_table(table))
    model_flags.write_result(output, results)
