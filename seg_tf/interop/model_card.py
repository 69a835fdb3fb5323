"""Writes a Markdown page about a model's architecture, training and deviations."""

import pathlib
from collections.abc import Mapping
from typing import Any

from seg_tf import files, papers
from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import to_dict
from seg_tf.config.base import flat

CARD_FILE = "README.md"


def write_model_card(
    pretrained: Pretrained,
    folder: pathlib.Path,
    *,
    introduction: str = "",
    manifest_file: pathlib.Path | None = None,
) -> pathlib.Path:
    """Writes `README.md` into an exported model's folder and returns its path.

    The page begins with `introduction`, in Markdown. It lists the checksums of the
    folder's files and the values in `manifest_file`, the manifest of the run's records.
    Raises a `ValueError` if the manifest belongs to other records.
    """
    path, config = folder / CARD_FILE, pretrained.config
    state, vocabulary = contents.read_state(pretrained.folder), pretrained.vocabulary
    measured = {
        f"validation, {name}": f"{value:.4f}"
        for name, value in (state.get("validation") or {}).items()
    }
    checksums = {
        str(file.relative_to(folder)): files.checksum(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file != path
    }
    for name, digest in sorted(state["checksums"].items()):
        checksums[f"checkpoint: {name}"] = digest
    sections = {
        "Model": _table(
            {
                "class": type(pretrained.encoder).__name__,
                "parameters": f"{pretrained.encoder.count_params():,}",
                **to_dict(config.model),
                "vocab_size": pretrained.encoder.vocab_size,
            }
        ),
        "Text": _table(
            {
                "tokenizer": pretrained.tokenizer,
                "normalization": pretrained.normalization,
                "vocabulary": f"{vocabulary.size:,} tokens, sha256 "
                f"{vocabulary.checksum}",
                "sentences": pretrained.sentence_splitter.get("name", "unknown"),
            }
        ),
        "Training data": _data(state, manifest_file),
        "Recipe": _recipe(state),
        "Deviations from the paper": "\n".join(
            f"- {line.strip()}" if line.startswith("  ") else f"\n{line}\n"
            for line in papers.describe(config).splitlines()
        ),
        "Scores": _table(measured),
        "Checksums (SHA-256)": _table(checksums),
        "Versions": _table(state.get("versions") or {}),
    }
    blocks = [f"# {config.name}", *filter(None, [introduction.strip()])]
    for title, text in sections.items():
        blocks += [f"## {title}", text]
    files.write_text(path, "\n\n".join(blocks) + "\n")
    return path


def _data(state: Mapping[str, Any], manifest_file: pathlib.Path | None) -> str:
    records = state.get("records") or {}
    checksums = [
        str(source.get("manifest_checksum"))
        for source in records.get("sources", {"": records}).values()
    ]
    manifest = {}
    if manifest_file is not None:
        if (checksum := files.checksum(manifest_file)) not in checksums:
            raise ValueError(
                "`manifest_file` must belong to the run's records, whose sha256 is "
                f"{' or '.join(checksums) if records else 'unknown'}. Received: "
                f"{manifest_file}, whose sha256 is {checksum}"
            )
        for name, value in files.read_json(manifest_file).items():
            manifest[name] = f"{len(value):,}" if isinstance(value, list) else value
    if imported := state.get("imported"):
        return (
            f"Weights from {imported['source']} ({imported['format']}). See the source "
            f"for their training data.\n\n{_table(imported['checksums'])}"
        )
    if "task" in state:
        return "This fine-tuned model does not record its training data."
    listed = f"\n\n{_table(flat(manifest))}" if manifest else ""
    return f"Records with the manifest {' and '.join(checksums)}.{listed}"


def _recipe(state: Mapping[str, Any]) -> str:
    if state.get("imported") and not state["updates"]:
        return "Imported weights, without further training."
    if "task" in state:
        return f"The encoder of a fine-tuned {state['task']['class']}."
    lines = [f"{state['updates']:,} updates, {state['samples']:,} samples."]
    if state.get("initial_weights"):
        lines.append(f"Initial weights: sha256 {state['initial_weights']}.")
    parts = ("inputs", "objectives", "optimizer", "training")
    settings = {name: state["config"][name] for name in parts}
    return "\n\n".join([*lines, _table(flat(settings))])


def _table(values: Mapping[str, Any]) -> str:
    if not values:
        return "None."
    rows = ["| | |", "| --- | --- |"]
    for name, value in values.items():
        cell = str(value).replace("|", "\\|").replace("\n", " ")
        rows.append(f"| {name} | {cell} |")
    return "\n".join(rows)
