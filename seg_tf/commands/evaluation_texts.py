r"""Collects the texts of evaluation sets, to exclude them from training corpora.

  seg-tf evaluation-texts --data_dir=glue,discoeval \
    --squad=squad/dev-v1.1.json,squad/dev-v2.0.json --output=evaluation.txt
  seg-tf build-records --evaluation_texts=evaluation.txt …

writes the distinct texts of all dev and test splits of GLUE, DiscoEval and RACE whose
files exist, and the contexts and questions of the SQuAD files, one text per line.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from absl import flags

from seg_tf import command_line, files, tasks
from seg_tf.tasks import squad


def define_flags() -> None:
    flags.DEFINE_list("data_dir", [], "Comma-separated benchmark folders.")
    flags.DEFINE_list("squad", [], "Comma-separated SQuAD files.")
    flags.DEFINE_string("output", None, "Text file to write.", required=True)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = command_line.file_path(values.output, "output")
    unique: dict[str, None] = {}
    for name, texts in _sets():
        lines = [" ".join(text.split()) for text in texts]
        before = len(unique)
        unique |= dict.fromkeys(filter(None, lines))
        print(f"{name}: {len(lines):,} texts, {len(unique) - before:,} of them new")
    if not unique:
        raise ValueError(
            "`--data_dir` and `--squad` must name folders and files of evaluation "
            f"sets. Received: {values.data_dir}, {values.squad}, which has none"
        )
    files.write_text(output, "".join(f"{line}\n" for line in unique))
    print(f"{len(unique):,} texts are in {output}")


def _sets() -> Iterator[tuple[str, list[str]]]:
    """Yields the name and texts of each existing benchmark split and SQuAD file."""
    for folder, name in itertools.product(flags.FLAGS.data_dir, tasks.names()):
        # Pretraining on training splits gives no unfair advantage.
        for split in tasks.get(name).split_names:
            if not split.startswith("train"):
                with contextlib.suppress(FileNotFoundError):
                    examples = tasks.read(name, folder, split)
                    texts = [text for example in examples for text in example.texts]
                    yield f"{name} {split}", texts
    for path in flags.FLAGS.squad:
        data = squad.read(path)
        contexts = [passage.context for passage in data.passages]
        yield path, [*contexts, *(question.text for question in data.questions())]
