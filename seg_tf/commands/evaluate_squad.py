r"""Scores answers to SQuAD: exact match and F1, as the official scripts compute them.

  seg-tf evaluate-squad --dataset=dev-v2.0.json --predictions=predictions.json \
    --null_odds=null_odds.json

--predictions is a JSON object of question identifiers and answers; "" says that there
is none. --null_odds, for version 2.0, is one of identifiers and numbers, greater where
an answer is less likely: questions with odds above --no_answer_threshold count as
answered by "", and the best thresholds are reported. The command prints a JSON object,
with scores in percent.
"""

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from seg_tf import command_line, files
from seg_tf.tasks import squad


def define_flags() -> None:
    flags.DEFINE_string("dataset", None, "SQuAD file.", required=True)
    flags.DEFINE_string("predictions", None, "JSON of the answers.", required=True)
    flags.DEFINE_string("null_odds", None, "JSON: how likely there is no answer.")
    flags.DEFINE_float(
        "no_answer_threshold", 1.0, "Greater odds count as answered by no answer."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    data = squad.read(values.dataset)
    predictions = _read(values.predictions, "a string", (str,))
    null_odds = None
    if values.null_odds:
        null_odds = _read(values.null_odds, "a number", (int, float))
    scores = squad.evaluate(data, predictions, null_odds, values.no_answer_threshold)
    if scores["missing_predictions"]:
        print(
            f"Note: {scores['missing_predictions']:,} of {scores['total']:,} questions "
            f"have no prediction in {values.predictions}, and score 0",
            file=sys.stderr,
        )
    if not data.has_impossible:  # as the official script of version 1.1 prints it
        scores = {"exact_match": scores.pop("exact"), **scores}
    print(files.to_json(scores), end="")


def _read(path: str, kind: str, types: tuple[type, ...]) -> dict[str, Any]:
    """A JSON object whose values have one of the types."""
    content = files.read_json(pathlib.Path(path))
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object. Received: {content!r:.60}")
    for identifier, value in content.items():
        if type(value) not in types or value != value:  # NaN
            raise ValueError(
                f"{path}: question {identifier!r} must have {kind}. Received: {value!r}"
            )
    return content


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
