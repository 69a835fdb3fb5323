"""A Markdown page that says what a model is and how it came about."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from seg_tf import files, papers
from seg_tf.checkpoints import contents
from seg_tf.checkpoints.pretrained import Pretrained
from seg_tf.config import RunConfig, to_dict

CARD_FILE = "README.md"


def write_model_card(
    pretrained: Pretrained,
    folder: pathlib.Path,
    *,
    introduction: str = "",
    scores: Mapping[str, Any] | None = None,
    manifest_file: pathlib.Path | None = None,
) -> pathlib.Path:
    """Writes `README.md` into a folder that holds an exported model.

    Args:
        pretrained: what was exported.
        folder: whose files get their checksums listed.
        introduction: Markdown for the top of the page.
        scores: name -> number or text, such as those of fine-tuning on tasks.
        manifest_file: the `manifest.json` of the run's records, what it counts being
            listed then too.

    Returns:
        The page's path.

    Raises:
        ValueError: if the manifest is not that of the run.
        OSError: if the page cannot be written.
    """
    manifest = None
    if manifest_file is not None:
        manifest = _manifest(pretrained, manifest_file)
    path = folder / CARD_FILE
    exported = {
        str(one.relative_to(folder)): files.checksum(one)
        for one in sorted(folder.rglob("*"))
        if one.is_file() and one != path
    }
    card = model_card(pretrained, exported, scores, manifest, introduction=introduction)
    files.write_text(path, card)
    return path


def model_card(
    pretrained: Pretrained,
    exported: Mapping[str, str] | None = None,
    scores: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    introduction: str = "",
) -> str:
    """The page's text.

    Args:
        pretrained: the model.
        exported: file -> SHA-256 of what the page lies beside.
        scores: as for `write_model_card`.
        manifest: content of the manifest of the run's records.
        introduction: as for `write_model_card`.
    """
    state = contents.read_state(pretrained.folder)
    config = pretrained.config
    sections = {
        "Model": _table(_model_facts(pretrained)),
        "Text": _table(_text_facts(pretrained)),
        "Training data": _data(state, manifest),
        "Recipe": _recipe(config, state),
        "Deviations from the paper": _deviations(config),
        "Scores": _scores(state, scores),
        "Checksums (SHA-256)": _table(
            {
                **(exported or {}),
                **{
                    f"checkpoint: {name}": digest
                    for name, digest in sorted(state["checksums"].items())
                },
            }
        ),
        "Versions": _table(state.get("versions", {})),
    }
    page = [f"# {config.name}"]
    if introduction.strip():
        page += ["", introduction.strip()]
    for title, lines in sections.items():
        page += ["", f"## {title}", "", *lines]
    return "\n".join(page) + "\n"


def _model_facts(pretrained: Pretrained) -> dict[str, Any]:
    encoder = pretrained.encoder
    settings = to_dict(pretrained.config.model)
    return {
        "class": type(encoder).__name__,
        "parameters of the encoder": f"{encoder.count_params():,}",
        **{name: value for name, value in settings.items() if name != "type"},
        "vocab_size": encoder.vocab_size,
    }


def _text_facts(pretrained: Pretrained) -> dict[str, Any]:
    splitter = pretrained.sentence_splitter
    return {
        "tokenizer": pretrained.tokenizer,
        "normalization": str(pretrained.normalization),
        "vocabulary": f"{pretrained.vocabulary.size:,} tokens, sha256 "
        f"{pretrained.vocabulary.checksum}",
        "sentences": splitter.get("name", "not known"),
    }


def _data(state: Mapping[str, Any], manifest: Mapping[str, Any] | None) -> list[str]:
    imported = state.get("imported")
    if imported:
        lines = [
            f"The weights came from {imported['source']} ({imported['format']}); what "
            "they were trained on, those who trained them say.",
            "",
        ]
        return lines + _table(imported["checksums"])
    if "task" in state:
        return ["Of a fine-tuned model, whose folder does not say on what data."]
    checksums = _manifest_checksums(state)
    lines = [f"Records with the manifest {' and '.join(checksums)}."]
    if manifest:
        lines += ["", *_table(_manifest_facts(manifest))]
    return lines


def _manifest(pretrained: Pretrained, path: pathlib.Path) -> dict[str, Any]:
    state = contents.read_state(pretrained.folder)
    expected = _manifest_checksums(state)
    found = files.checksum(path)
    if found not in expected:
        known = f"the run's is {' and '.join(expected)}"
        if not state.get("records"):
            known = f"no run pretrained {pretrained.folder} on records"
        raise ValueError(
            "`manifest_file` must be that of the run's records. Received: "
            f"{path}, whose sha256 is {found}; {known}"
        )
    return files.read_json(path)


def _manifest_checksums(state: Mapping[str, Any]) -> list[str]:
    """Those of the records of a run, of each source of a mixture."""
    records = state.get("records") or {}
    sources = records.get("sources", {"": records})
    return [str(source.get("manifest_checksum")) for source in sources.values()]


def _manifest_facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Whatever of a manifest is a number, a short text or a flat group of these."""
    facts = {}
    for name, value in manifest.items():
        if isinstance(value, Mapping):
            facts |= {
                f"{name}: {inner}": one
                for inner, one in value.items()
                if isinstance(one, (int, float, str, bool))
            }
        elif isinstance(value, list):
            facts[name] = f"{len(value):,}"
        else:
            facts[name] = value
    return facts


def _recipe(config: RunConfig, state: Mapping[str, Any]) -> list[str]:
    if state.get("imported") and not state["updates"]:
        return ["Nothing was trained after the weights were taken over."]
    if "task" in state:
        return [f"Fine-tuned as a {state['task']['class']}; written is its encoder."]
    lines = [f"{state['updates']:,} updates, {state['samples']:,} samples.", ""]
    if state.get("initial_weights"):
        lines += [f"Started from weights, sha256 {state['initial_weights']}.", ""]
    values = to_dict(config)
    settings = {
        name: values[name] for name in ("inputs", "objectives", "optimizer", "training")
    }
    return lines + _table(dict(_flat(settings)))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _deviations(config: RunConfig) -> list[str]:
    return [
        f"- {line.strip()}" if line.startswith("  ") else f"\n{line}\n"
        for line in papers.describe(config).splitlines()
    ]


def _scores(state: Mapping[str, Any], scores: Mapping[str, Any] | None) -> list[str]:
    found = {
        f"validation, {name}": f"{value:.4f}"
        for name, value in (state.get("validation") or {}).items()
    }
    found |= scores or {}
    return _table(found) if found else ["None were measured."]


def _table(values: Mapping[str, Any]) -> list[str]:
    if not values:
        return ["None."]
    rows = [f"| {name} | {_cell(value)} |" for name, value in values.items()]
    return ["| | |", "| --- | --- |", *rows]


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {one}" for name, one in value.items())
    else:
        text = str(value)
    return text.replace("|", "\\|").replace("\n", " ")
