r"""Scores vectors of sentences by how similar people find the sentences, untrained.

  python -m seg_tf.commands.evaluate_similarity --data_dir=similarity \
    --checkpoint=runs/segabert_base,runs/bert_base --baseline

prints a row for each model and a column for each set: Spearman's correlation, times
100, of the cosine of two sentences' vectors with the score that people gave the pair.
The vector is the mean of the encoder's outputs at the word pieces, [CLS], [SEP] and
[SENT] left out; of a ReAT it is its pooled <SS>. Nothing is trained. --baseline adds
each model with new weights, which shows what the words alone give away.

--data_dir holds the sets as their downloads leave them:

  sts12 … sts16   STS12-en-test and so on; the correlation is over all parts together
  sts-b           STS-B/dev.tsv of GLUE
  sts-b-test      STSBenchmark/sts-test.csv
  sick-r          SICK/SICK_test_annotated.txt

--output keeps everything, with Pearson's correlation and the parts of a year.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files, output_paths
from seg_tf.checkpoints.errors import CheckpointError
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.commands import model_flags
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.inference.similarity import evaluate_similarity
from seg_tf.tasks import similarity as similarity_sets
from seg_tf.tasks.similarity import SimilaritySet


def define_flags() -> None:
    model_flags.define_model_flags(several=True)
    flags.DEFINE_string("data_dir", None, "Folder of the sets.", required=True)
    flags.DEFINE_list(
        "sets",
        ["sts-b"],
        f"Sets, comma-separated: {', '.join(similarity_sets.NAMES)}; or all.",
    )
    flags.DEFINE_bool("baseline", False, "Score each model with new weights, too.")
    flags.DEFINE_integer("seed", 1, "Seed of the new weights.")
    flags.DEFINE_string("output", None, "JSON file to write the scores to.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    names = similarity_sets.NAMES if values.sets == ["all"] else values.sets
    output = output_paths.file_path(values.output, "output") if values.output else None
    sets = {name: similarity_sets.read(name, values.data_dir) for name in names}
    for name, one in sets.items():
        if one.num_unscored:
            print(f"{name}: {one.num_unscored:,} pairs without a score are left out")
    rows = []
    for pretrained in model_flags.load_models():
        for is_new in (False, True) if values.baseline else (False,):
            rows.append(_evaluate(pretrained, is_new, sets))
    print(_table(rows, sets))
    if output is not None:
        files.write_json(output, rows)
        print(f"scores: {output}")


def _evaluate(
    pretrained: Pretrained, is_new: bool, sets: Mapping[str, SimilaritySet]
) -> dict[str, Any]:
    encoder = SentenceEncoder(
        pretrained, randomly_initialized=is_new, seed=flags.FLAGS.seed
    )
    run = pretrained.config.name + (", new weights" if is_new else "")
    num_sentences = len(
        {text for one in sets.values() for pair in one.pairs for text in pair.texts}
    )
    with command_line.progress_bar(num_sentences, run, "sentence") as bar:
        scores, num_cut = evaluate_similarity(encoder, sets, bar.update)
    if num_cut:
        print(
            f"{run}: {num_cut:,} of {num_sentences:,} sentences are longer than a row "
            "and were cut",
            file=sys.stderr,
        )
    return {"run": run, "checkpoint": str(pretrained.folder), "sets": scores}


def _table(rows: Sequence[Mapping[str, Any]], sets: Mapping[str, SimilaritySet]) -> str:
    header = ["model", "", *sets, *(["mean"] if len(sets) > 1 else [])]
    lines = [header, ["pairs", "", *(f"{len(one.pairs):,}" for one in sets.values())]]
    for row in rows:
        scores = [100 * row["sets"][name]["spearman"] for name in sets]
        if len(sets) > 1:
            scores.append(sum(scores) / len(scores))
        lines.append([row["run"], "", *(f"{score:.2f}" for score in scores)])
    lines[1] += [""] * (len(header) - len(lines[1]))
    return command_line.aligned_table(lines)


if __name__ == "__main__":
    define_flags()
    command_line.run(main, CheckpointError)
