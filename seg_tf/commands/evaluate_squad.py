r"""Scores answers to SQuAD: exact match and F1, as the official scripts compute them.

  python -m seg_tf.commands.evaluate_squad --dataset=dev-v1.1.json \
    --predictions=answers.json
  python -m seg_tf.commands.evaluate_squad --dataset=dev-v2.0.json \
    --predictions=predictions.json --null_odds=null_odds.json

--predictions is a JSON object of question identifiers and answers; "" says that there
is none. --null_odds, for version 2.0, is one of identifiers and numbers, greater where
an answer is less likely: with it the best thresholds are reported, and what has greater
odds than --no_answer_threshold counts as answered by "". That is 1 in the official
script, which means nothing for probabilities, but for the differences of scores that
models write: give the threshold that the predictions were made with, or inf.

Printed is a JSON object, with scores in percent. Questions without a prediction score
0, and are reported on stderr.
"""

import math
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

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
    flags.DEFINE_string(
        "null_odds", None, "JSON file: question -> how likely there is no answer."
    )
    flags.DEFINE_float(
        "no_answer_threshold", 1.0, "Greater odds count as answered by no answer."
    )


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    predictions = _read(values.predictions, "a string", lambda one: type(one) is str)
    null_odds = None
    if values.null_odds:
        null_odds = _read(values.null_odds, "a number", _is_number)
    scores = squad.evaluate(
        squad.read(values.dataset),
        predictions,
        null_odds,
        values.no_answer_threshold,
    )
    if scores["missing_predictions"]:
        print(
            f"Note: {scores['missing_predictions']:,} of {scores['total']:,} questions "
            f"have no prediction in {values.predictions}, and score 0",
            file=sys.stderr,
        )
    print(files.to_json(scores), end="")


def _read(path: str, kind: str, is_of_kind: Any) -> dict[str, Any]:
    """A JSON object whose values are of a kind."""
    content = files.read_json(pathlib.Path(path))
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: expected a JSON object. Received: {str(content)[:60]!r}"
        )
    for identifier, value in content.items():
        if not is_of_kind(value):
            raise ValueError(
                f"{path}: question {identifier!r} must have {kind}. Received: {value!r}"
            )
    return content


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
