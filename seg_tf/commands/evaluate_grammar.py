r"""Scores masked language models on BLiMP's minimal pairs, without training.

  seg-tf evaluate-grammar --checkpoint=segabert_mini_en,bert_mini_en --data_dir=blimp

prints the accuracy in per cent of each model on each of BLiMP's four fields: how often
the grammatical sentence of a pair has the higher pseudo-log-likelihood. Chance is 50.
--pairs=20 reads the first 20 pairs of each of the 67 files, which takes a minute
instead of an hour. --output writes the accuracy of each phenomenon.
"""

from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.commands import model_flags
from seg_tf.inference.grammar import SentenceScorer, evaluate_minimal_pairs
from seg_tf.tasks import blimp


def define_flags() -> None:
    model_flags.define_model_flags(several=True)
    flags.DEFINE_string("data_dir", None, "Folder of BLiMP's files.", required=True)
    flags.DEFINE_integer(
        "pairs", None, "Pairs to read of each file. Default: all.", lower_bound=1
    )
    flags.DEFINE_string("output", None, "JSON file to write the accuracies to.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = output_paths.file_path(values.output, "output") if values.output else None
    pairs = blimp.read(values.data_dir, values.pairs)
    results = []
    for pretrained in model_flags.load_models():
        scorer = SentenceScorer(pretrained)
        name = pretrained.config.name
        count = scorer.count(list({t for pair in pairs for t in (pair.good, pair.bad)}))
        with command_line.progress_bar(count, name, "masked piece") as bar:
            scores = evaluate_minimal_pairs(scorer, pairs, bar.update)
        results.append({"run": name, "checkpoint": str(pretrained.folder), **scores})
    columns = ["accuracy", *sorted({pair.field for pair in pairs})]
    table = [["model", *columns]]
    for row in results:
        table.append([row["run"], *(f"{100 * row[name]:.1f}" for name in columns)])
    print(f"{len(pairs):,} pairs")
    print(command_line.aligned_table(table))
    if output is not None:
        files.write_json(output, results)
        print(f"accuracies: {output}")


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
