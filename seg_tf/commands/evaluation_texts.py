r"""Collects the texts of evaluation sets, to leave them out of a corpus.

  python -m seg_tf.commands.evaluation_texts --data_dir=glue,discoeval \
    --squad=squad/dev-v1.1.json,squad/dev-v2.0.json --output=evaluation.txt
  python -m data_pipelines.build_records --evaluation_texts=evaluation.txt …

A line of the output is a text: of all dev and test splits of GLUE, DiscoEval and RACE
whose files are in one of the folders, and contexts and questions of SQuAD's files; each
once.
Training splits are left out: to have read them is no advantage that a score could hide.
Any other file of a text a line will do for --evaluation_texts as well.
"""

from collections.abc import Iterator, Sequence

from absl import flags

from seg_tf import command_line, files, output_paths, tasks
from seg_tf.tasks import squad as squad_files


def define_flags() -> None:
    flags.DEFINE_list("data_dir", [], "Folders of benchmarks, comma-separated.")
    flags.DEFINE_list("squad", [], "Files of SQuAD's form, comma-separated.")
    flags.DEFINE_string("output", None, "Text file to write.", required=True)


def main(_: Sequence[str]) -> None:
    values = flags.FLAGS
    output = output_paths.file_path(values.output, "output")
    found: dict[str, None] = {}
    for name, texts in _sets(values.data_dir, values.squad):
        lines = [" ".join(text.split()) for text in texts]
        before = len(found)
        found |= dict.fromkeys(filter(None, lines))
        print(f"{name}: {len(lines):,} texts, {len(found) - before:,} of them new")
    if not found:
        raise ValueError(
            "`--data_dir` and `--squad` must name folders and files of evaluation "
            f"sets. Received: {values.data_dir}, {values.squad}, where there are none"
        )
    files.write_text(output, "".join(f"{line}\n" for line in found))
    print(f"{len(found):,} texts are in {output}")


def _sets(
    folders: Sequence[str], squad: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Names of sets that are there, and their texts."""
    for folder in folders:
        for name in tasks.names():
            for split in tasks.get(name).split_names:
                if split.startswith("train"):
                    continue
                try:
                    examples = tasks.read(name, folder, split)
                except FileNotFoundError:
                    continue
                yield (
                    f"{name} {split}",
                    [text for one in examples for text in one.texts],
                )
    for path in squad:
        passages = squad_files.read(path).passages
        yield (
            path,
            [
                text
                for passage in passages
                for text in (passage.context, *(one.text for one in passage.questions))
            ],
        )


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
