r"""Scores answers to SQuAD: exact match and F1, as the official scripts compute them.

  seg-tf evaluate_squad --dataset=dev-v1.1.json --predictions=answers.json

--predictions is a JSON object of question identifiers and answers; "" says that there
is none.

The command prints a JSON object, with scores in percent. Questions without a prediction
score 0, and are reported on stderr.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from seg_tf import command_line, files
from seg_tf.tasks import squad


def define_flags() -> None:
    flags.DEFINE_string(
        "dataset", None, "SQuAD file, version 1.1 or 2.0.", required=True
    )
    flags.DEFINE_string(
        "predictions", None, "JSON file: question -> answer.", required=True
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    data = squad.read(values.dataset)
    predictions = files.read_json(pathlib.Path(values.predictions))
    if not isinstance(predictions, dict) or not all(
        isinstance(answer, str) for answer in predictions.values()
    ):
        raise ValueError(
            f"{values.predictions}: expected a JSON object of strings. Received: "
            f"{str(predictions)[:60]!r}"
        )
    scores = squad.evaluate(data, predictions)
    if scores["missing_predictions"]:
        print(
            f"Note: {scores['missing_predictions']:,} of {scores['total']:,} questions "
            f"have no prediction in {values.predictions}, and score 0",
            file=sys.stderr,
        )
    if data.rejected:
        print(f"Note: left out {len(data.rejected):,} questions", file=sys.stderr)
    if not data.has_impossible:  # as the official script of version 1.1 prints it
        scores = {"exact_match": scores.pop("exact"), **scores}
    print(files.to_json(scores), end="")


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
