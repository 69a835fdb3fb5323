r"""Evaluates sentence vectors on semantic similarity tasks, without fine-tuning.

  seg-tf evaluate-similarity --data_dir=similarity \
    --checkpoint=runs/segabert_base,runs/bert_base --baseline

prints, for each model and set, Spearman's correlation (times 100) between the cosine
similarities of sentence pairs and human scores. A sentence's vector is the mean over
its word pieces or, for ReAT, its pooled <SS>. --baseline adds each model with random
weights. --data_dir contains the downloaded sets:

  sts12 … sts16   STS12-en-test and so on; one correlation over all parts
  sts-b           STS-B/dev.tsv of GLUE
  sts-b-test      STSBenchmark/sts-test.csv
  sick-r          SICK/SICK_test_annotated.txt
"""

import statistics
import sys
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line
from seg_tf.commands import model_flags
from seg_tf.inference.probes import evaluate_similarity
from seg_tf.inference.sentence_encoder import SentenceEncoder
from seg_tf.tasks import similarity


def define_flags() -> None:
    model_flags.define_model_flags(several=True)
    model_flags.define_output_flag()
    flags.DEFINE_string("data_dir", None, "Folder of the sets.", required=True)
    names = ", ".join(similarity.NAMES)
    flags.DEFINE_list("sets", ["sts-b"], f"Comma-separated sets: {names}; or all.")
    flags.DEFINE_bool("baseline", False, "Also score each model with random weights.")
    flags.DEFINE_integer("seed", 1, "Seed of the random weights.")


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = model_flags.output_file()
    names = similarity.NAMES if values.sets == ["all"] else values.sets
    sets = {name: similarity.read(name, values.data_dir) for name in names}
    for name, scored in sets.items():
        if count := scored.num_unscored:
            print(f"{name}: {count:,} pairs without a score are left out")
    pairs = [scored.pairs for scored in sets.values()]
    texts = {text for some in pairs for pair in some for text in pair.texts}
    counts = [f"{len(some):,}" for some in pairs]
    rows, table = [], [["model", "", *sets, "mean"], ["pairs", "", *counts, ""]]
    for pretrained in model_flags.load_models():
        for is_new in (False, True) if values.baseline else (False,):
            encoder = SentenceEncoder(
                pretrained, randomly_initialized=is_new, seed=values.seed
            )
            run = pretrained.config.name + (", new weights" if is_new else "")
            with command_line.progress_bar(len(texts), run, "sentence") as bar:
                scores, num_cut = evaluate_similarity(encoder, sets, bar.update)
            if num_cut:
                print(
                    f"{run}: {num_cut:,} of {len(texts):,} sentences are longer than a "
                    "row and were truncated",
                    file=sys.stderr,
                )
            folder = str(pretrained.folder)
            rows.append({"run": run, "checkpoint": folder, "sets": scores})
            cells = [100 * scores[name]["spearman"] for name in sets]
            cells.append(statistics.fmean(cells))
            table.append([run, "", *(f"{cell:.2f}" for cell in cells)])
    print(command_line.aligned_table(table))
    model_flags.write_result(output, rows)
