"""Converts weights of other programs, or of other models of ours, to a checkpoint."""

import dataclasses
import importlib.util
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import huggingface_hub
import keras

from seg_tf import files, output_paths, papers
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.checkpoints.encoder_copies import under_dtype_policy
from seg_tf.config import (
    RunConfig,
    describe_taken,
    follow_source,
    to_dict,
)
from seg_tf.data.configs import WindowInputsConfig
from seg_tf.interop import google, hugging_face, keras_hub, tensor_names, weights
from seg_tf.interop.starting_tables import starting_tables
from seg_tf.interop.tensor_names import HEAD, OUTPUT_BIAS, POOLER, WORDS, shape_text
from seg_tf.interop.weights import ForeignModel, ForeignWeightsError, Store
from seg_tf.objectives.masked_lm import MaskedLM
from seg_tf.text.encoding import (
    SENTENCE_PARAMETERS_FILE,
    VOCABULARY_FILE,
    WORD_PIECES,
    TextPreparation,
)
from seg_tf.text.normalization import CASED, UNCASED, choose_normalization
from seg_tf.text.vocabulary import Vocabulary, decode_lines
from seg_tf.training import engine
from seg_tf.training.distribution import Distribution

SEG_TF = "seg_tf"
FORMATS = {
    google.FORMAT: "a TF 1 checkpoint of BERT's authors, with bert_config.json",
    hugging_face.FORMAT: "a folder with config.json and model.safetensors or "
    "pytorch_model.bin",
    hugging_face.SEGABERT: "the same, as SegaBERT's authors released it",
    keras_hub.FORMAT: "a preset folder of keras-hub's BertBackbone",
}
REPORT_FILE = "import_report.txt"
_READERS: tuple[Any, ...] = (keras_hub, hugging_face, google)
_MAX_WINDOW = 512
# Settings that change outputs but not the shape of weights.
_OUTPUT_SETTINGS = ("layer_norm_epsilon", "approximate_gelu")
# Names in the report; the others are counted.
_MAX_NAMES = 12
_HUB = "hf://"
# The revision after the @ is a branch, a tag or a commit.
_URL = re.compile(r"hf://([\w.-]+/[\w.-]+|[\w.-]+)(?:@([\w./-]+))?", re.ASCII)


# === Sources ===


def is_foreign(source: str | pathlib.Path) -> bool:
    """True for a source that looks like one of another program's."""
    is_remote = str(source).startswith(_HUB)
    return is_remote or _find_reader(pathlib.Path(source)) is not None


def _find_reader(path: pathlib.Path) -> Any:
    return next((reader for reader in _READERS if reader.matches(path)), None)


def open_model(source: str | pathlib.Path) -> ForeignModel:
    """Opens a foreign checkpoint in any of `FORMATS`.

    Args:
        source: a folder, the prefix of a TensorFlow checkpoint's files, or
            `hf://organisation/name` for a model of the Hugging Face hub.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if the format is unknown, or the checkpoint is damaged or
            cannot be downloaded.
    """
    if str(source).startswith(_HUB):
        folder = download(str(source))
        foreign = open_model(folder)
        note = f"downloaded as {source}, revision {folder.name}"
        return dataclasses.replace(foreign, notes=(*foreign.notes, note))
    path = pathlib.Path(source)
    if reader := _find_reader(path):
        return reader.read(path)
    reason = "a folder with none of them" if path.is_dir() else "which does not exist"
    if folders.is_checkpoint(path):
        reason = "a checkpoint of this package; use `--initial_checkpoint`"
    raise ForeignWeightsError(
        f"`--from` must be one of: {'; '.join(FORMATS.values())}; or "
        f"hf://organisation/name. Received: {path}, {reason}"
    )


def download(url: str) -> pathlib.Path:
    """Downloads a model of the hub into the hub's cache: only the files to be read.

    The config comes first, so that unreadable models cost no download of weights.

    Returns:
        Folder of the revision, whose name is its commit.

    Raises:
        ForeignWeightsError: if the name is invalid, the download fails, or there are
            no readable weights.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ForeignWeightsError(
            "`--from` must be hf://organisation/name, optionally with @revision. "
            f"Received: {url}"
        )
    name, revision = match.groups()
    descriptions = (hugging_face.CONFIG_FILE, google.CONFIG_FILE, VOCABULARY_FILE)
    descriptions += hugging_face.TOKENIZER_FILES
    folder = _fetch(url, name, revision, descriptions)
    has_torch = importlib.util.find_spec("torch") is not None
    patterns: list[tuple[str, ...]] = []
    if reader := _find_reader(folder):
        if reader is not google:
            reader.check(folder)
        patterns = [
            group
            for group in reader.WEIGHT_PATTERNS
            if has_torch or group[0] != hugging_face.PYTORCH_FILE
        ]
    for group in patterns:
        # The same commit as the config.
        _fetch(url, name, folder.name, group)
        if any(next(folder.glob(pattern), None) for pattern in group):
            return folder
    expected = f"{hugging_face.CONFIG_FILE} or {google.CONFIG_FILE} of a BERT"
    if patterns:
        expected = " or ".join(group[0] for group in patterns)
    raise ForeignWeightsError(
        f"{url} must have {expected}. Found: nothing that can be read"
        f"{'' if has_torch else '; PyTorch is not installed'}"
    )


def _fetch(
    url: str, name: str, revision: str | None, patterns: Iterable[str]
) -> pathlib.Path:
    """Folder of a revision, with the files that match a pattern."""
    try:
        folder = huggingface_hub.snapshot_download(
            repo_id=name, revision=revision, allow_patterns=list(patterns)
        )
    # HTTP, the file system, and names that the hub does not allow.
    except (OSError, ValueError) as error:
        # The hub's FileNotFoundError is about the cache; its cause is the reason.
        cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
        reason = str(cause or error).strip().partition("\n")[0]
        raise ForeignWeightsError(
            f"{url} could not be downloaded, and is not in the cache: "
            f"{type(cause or error).__name__}: {reason}. Check the name, the network, "
            "and the variables HF_ENDPOINT and HF_HUB_OFFLINE"
        ) from error
    return pathlib.Path(folder)


def open_checkpoint(folder: pathlib.Path) -> ForeignModel:
    """Opens the encoder and the masked-LM head of a checkpoint of this package.

    Raises:
        CheckpointError: if it is damaged.
        ForeignWeightsError: if its model is not an encoder like BERT.
    """
    source = pretrained.load_pretrained(folder)
    folder, model, encoder = source.folder, source.config.model, source.encoder
    _check_layers(model, f"{folder}, the run {source.config.name!r}")
    heads = source.objectives if weights.has_trained_head(source) else {}
    # The head has the token table, too, under another path.
    paths = {variable.path for variable in encoder.weights}
    ids = {id(variable) for variable in encoder.weights}
    variables = {
        path: variable
        for path, variable in weights.named_variables(encoder, heads).items()
        if path in paths or id(variable) not in ids
    }
    parameters = folder / SENTENCE_PARAMETERS_FILE
    unused = ", ".join(
        name
        for name, objective in source.objectives.items()
        if not isinstance(objective, MaskedLM)
    )
    return ForeignModel(
        format=SEG_TF,
        store=Store.from_variables(
            variables | (weights.read_pooler(folder) or {}), str(folder)
        ),
        names=tensor_names.OURS,
        model=dataclasses.replace(model, vocab_size=source.vocabulary.size),
        vocabulary=folder / VOCABULARY_FILE,
        normalization=dataclasses.asdict(source.normalization),
        sentence_splitter=source.sentence_splitter,
        sentence_parameters=parameters.read_bytes() if parameters.exists() else None,
        notes=(f"weights of its objective {unused} are not used",) if unused else (),
        files=(folder / contents.ENCODER_FILE, folder / contents.TRAINING_STATE_FILE),
    )


def _check_layers(model: Any, received: str) -> None:
    if not getattr(model, "has_bert_layers", False):
        raise ForeignWeightsError(
            "Weights can be exchanged between encoders with BERT's layers and without "
            f"rotary positions. Received: {received}, of a {type(model).__name__}, "
            f"model.trunk={getattr(model, 'trunk', None)!r}"
        )


# === The report ===


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """Report of an import: the origin of every weight.

    Attributes:
        format: format of the source.
        source: path of the source.
        checksums: file -> SHA-256.
        loaded: our weight -> the tensor it was loaded from.
        tables: our table -> its origin.
        new: our weights with new values.
        unmatched: tensors without a weight of ours.
        missing: the unmatched tensors that the source's encoder may compute with.
        adopted: setting adopted from the source -> (the config's, the source's).
        settings: other setting that differs -> (the model's, the source's).
        notes: further lines.
        equal_for: windows for which the encoder equals its source, if any.
    """

    format: str
    source: str
    checksums: Mapping[str, str]
    loaded: Mapping[str, str]
    tables: Mapping[str, str]
    new: tuple[str, ...]
    unmatched: tuple[str, ...]
    missing: tuple[str, ...]
    adopted: Mapping[str, tuple[Any, Any]]
    settings: Mapping[str, tuple[Any, Any]]
    notes: tuple[str, ...]
    equal_for: str

    def to_text(self) -> str:
        lines = [f"Weights of {self.source} ({self.format})"]
        lines += [
            f"  {file}: sha256 {digest}" for file, digest in self.checksums.items()
        ]
        lines += [f"Loaded unchanged: {len(self.loaded)} weights", "Tables:"]
        lines += [f"  {name}: {origin}" for name, origin in self.tables.items()]
        lines += _list_names("New, initialized at random", self.new)
        lines += _list_names("Unmatched, not used by this model", self.unmatched)
        if self.adopted:
            lines.append(f"Taken from the source: {describe_taken(self.adopted)}")
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join([*lines, self.equality()])

    def equality(self) -> str:
        """States the windows for which the encoder equals its source."""
        start = "Equal to the source: for"
        if self.missing:
            reason = "no window; its encoder may compute with unmatched tensors"
            return "\n".join(_list_names(f"{start} {reason}", self.missing))
        if not self.equal_for:
            return f"{start} no window; the encoder has no table for the source's"
        differing = "; ".join(
            f"model.{name}={ours}, there {theirs}"
            for name, (ours, theirs) in self.settings.items()
        )
        about = f", except that {differing}: about equal" if differing else ""
        return f"{start} {self.equal_for}{about}"


def _list_names(title: str, names: Collection[str]) -> list[str]:
    lines = [f"  {name}" for name in names][:_MAX_NAMES]
    if len(names) > _MAX_NAMES:
        lines.append(f"  and {len(names) - _MAX_NAMES} more")
    return [f"{title}: {len(names) or 'none'}", *lines]


# === Conversion ===


def convert(
    foreign: ForeignModel,
    output_dir: pathlib.Path,
    config: RunConfig | None = None,
    vocab_file: pathlib.Path | None = None,
    fixed: Collection[str] | None = None,
    **normalization: bool | None,
) -> ImportReport:
    """Writes a checkpoint with a foreign model's weights and without an optimizer.

    Args:
        foreign: the model.
        output_dir: the checkpoint's folder, new or empty; written as a whole or not at
            all.
        config: the run whose model gets the weights; None keeps the foreign model's
            architecture.
        vocab_file: vocabulary, if the foreign folder has none.
        fixed: paths of fields of `config` that must not change, such as
            `model.layer_norm_epsilon`; other fields that change outputs follow the
            foreign model (`seg_tf.config.follow_source`). None fixes all.
        **normalization: fields of `seg_tf.text.normalization.Normalization`; None or
            omitted takes the foreign model's or, without one, the vocabulary's.

    Raises:
        ForeignWeightsError: if a tensor is absent, damaged or of another shape, naming
            it; if the weights do not fit the config, or the vocabulary the weights.
        OSError: if a file cannot be read or written.
        ValueError: if the vocabulary is not valid, or the folder is in use.
    """
    output_paths.check_new_folder(output_dir)
    config = config or _own_config(foreign)
    _check_config(config, foreign)
    adopted: Mapping[str, tuple[Any, Any]] = {}
    if fixed is not None:
        config, adopted = follow_source(config, vars(foreign.model), fixed)
    vocabulary, text, notes = _prepare_text(foreign, vocab_file, normalization)
    model = config.model
    vocab_size = model.vocab_size or vocabulary.size
    features = {*weights.list_tables(foreign.model)}
    if foreign.format != SEG_TF and "token_index" not in features:
        features |= {"position_index"}  # an error if missing
    read = weights.read(foreign.store, foreign.names, model, sorted(features))
    rows = len(read.values[WORDS])
    if rows < vocab_size:
        raise ForeignWeightsError(
            f"{foreign.store.source}: the tensor {read.sources[WORDS]!r} must have a "
            f"row for each piece of the vocabulary, the shape ({vocab_size} or more, "
            f"{foreign.model.hidden_size}). Found: "
            f"{shape_text(read.values[WORDS].shape)}"
        )
    if rows > vocab_size:
        notes.append(
            f"the vocabulary has {vocabulary.size:,} pieces and the source {rows:,} "
            f"rows: {rows - vocab_size:,} rows of padding are dropped, which were also "
            "in the softmax of masked LM"
        )
    is_table = {name: name.startswith((WORDS, "index_")) for name in read.values}
    tables = starting_tables(
        {name: value for name, value in read.values.items() if is_table[name]},
        model.index_tables,
        model.num_token_types,
        vocab_size,
        vocabulary.cls_id,
        foreign.idle_tables,
    )
    values = {name: array for name, array in read.values.items() if not is_table[name]}
    if OUTPUT_BIAS in values:
        values[OUTPUT_BIAS] = values[OUTPUT_BIAS][:vocab_size]
    keras.utils.set_random_seed(config.training.seed)
    with under_dtype_policy(config.training.dtype_policy):
        encoder, objectives = pretrained.assemble(config, vocab_size)
    variables = weights.named_variables(encoder, objectives)
    assigned = {
        name: array
        for name, array in (values | tables.values).items()
        if name in variables
    }
    for name, array in assigned.items():
        variables[name].assign(array)
    loaded_ids = {id(variables[name]) for name in assigned}
    heads = contents.objective_variables(encoder, objectives)
    unused = [name for name in values if name.startswith(HEAD) and name not in assigned]
    unused += tables.unused
    if has_pooler := f"{POOLER}/kernel" in values:
        notes.append(f"the pooler of [CLS] is stored in {weights.POOLER_FILE}")
    missing = {*read.missing, *(read.sources[name] for name in tables.missing)}
    report = ImportReport(
        format=foreign.format,
        source=foreign.store.source,
        checksums={path.name: files.checksum(path) for path in foreign.files},
        loaded={name: read.sources[name] for name in assigned if name in values},
        tables=tables.origins,
        new=tuple(
            variable.path
            for variable in (*encoder.weights, *heads)
            if variable.trainable and id(variable) not in loaded_ids
        ),
        unmatched=tuple(sorted({*read.unmatched, *map(read.sources.get, unused)})),
        missing=tuple(sorted(missing)),
        adopted=adopted,
        settings={
            name: (getattr(model, name), getattr(foreign.model, name))
            for name in _OUTPUT_SETTINGS
            if getattr(model, name) != getattr(foreign.model, name)
        },
        notes=(*foreign.notes, *notes, *read.notes),
        equal_for="" if missing else tables.equal_for,
    )
    state = {
        "config": to_dict(config),
        "records": None,
        "initial_weights": None,
        "imported": dataclasses.asdict(report),
        "seed": config.training.seed,
        "vocab_size": vocab_size,
        "vocab_checksum": vocabulary.checksum,
        "deviations": [str(deviation) for deviation in papers.deviations(config)],
        "versions": engine.installed_versions(),
        "updates": 0,
        "samples": 0,
        "validation": None,
        "text": text.described(),
    }
    with output_paths.new_folder(output_dir) as unfinished:
        path = unfinished / REPORT_FILE
        path.write_text(report.to_text() + "\n", encoding="utf-8")
        if has_pooler:
            weights.write_pooler(unfinished, values)
        contents.write(unfinished, encoder, objectives, state, text.files())
    return report


def _own_config(foreign: ForeignModel) -> RunConfig:
    """Config of a BERT, or of a SegaBERT, with the foreign architecture."""
    rows = foreign.model.index_tables
    is_segabert = "token_index" in rows
    tables = tensor_names.SEGABERT_TABLES if is_segabert else ("position_index",)
    if absent := [name for name in tables if name not in rows]:
        raise ForeignWeightsError(
            f"{foreign.store.source}: must have tables for {', '.join(tables)}. Found: "
            f"none for {', '.join(absent)}"
        )
    family = "segabert" if is_segabert else "bert"
    size = "large" if foreign.model.num_layers >= 24 else "base"
    return RunConfig(
        name=f"{family}_from_{foreign.format}",
        paper=f"{family}_{size}",
        model=dataclasses.replace(
            foreign.model,
            vocab_size=None,
            index_tables={name: rows[name] for name in tables},
        ),
        inputs=WindowInputsConfig(
            window_length=min(rows.get("position_index", _MAX_WINDOW), _MAX_WINDOW)
        ),
    )


def _check_config(config: RunConfig, foreign: ForeignModel) -> None:
    """Raises for other layers or heads; shapes reveal all other differences."""
    _check_layers(config.model, f"the config {config.name!r}")
    for name in ("num_layers", "num_heads"):
        ours, theirs = getattr(config.model, name), getattr(foreign.model, name)
        if ours != theirs:
            raise ForeignWeightsError(
                f"`model.{name}` must be {theirs}, as in {foreign.store.source}. "
                f"Received: {config.name!r}, model.{name}={ours}"
            )


def _prepare_text(
    foreign: ForeignModel,
    vocab_file: pathlib.Path | None,
    settings: Mapping[str, bool | None],
) -> tuple[Vocabulary, TextPreparation, list[str]]:
    """The vocabulary, how text is converted to its pieces, and notes."""
    source = vocab_file or foreign.vocabulary
    if source is None:
        raise ValueError(
            f"`--vocab_file` must be the vocabulary of {foreign.store.source}, which "
            "has none"
        )
    where, rows = f"the tokenizer of {foreign.store.source}", source
    if isinstance(source, pathlib.Path):
        where, rows = str(source), decode_lines(source.read_bytes(), str(source))
    # Of equal rows, programs use the last.
    ids = {token: number for number, token in enumerate(rows)}
    unusable = [
        number
        for number, token in enumerate(rows)
        if ids[token] != number or not token or re.search(r"\s", token, re.ASCII)
    ]
    notes = []
    if unusable:
        shown = ", ".join(str(number + 1) for number in unusable[:5])
        notes.append(
            f"{len(unusable):,} rows of {where} are blank, repeated or not a token: "
            f"lines {shown}{', …' if len(unusable) > 5 else ''}. No text produces them"
        )
        numbers = {*unusable}
        rows = [f"[row{n}]" if n in numbers else row for n, row in enumerate(rows)]
    if isinstance(source, pathlib.Path) and not unusable:
        vocabulary, content = Vocabulary.from_file(source), source.read_bytes()
    else:
        vocabulary = Vocabulary(tuple(rows), source=where)
        content = vocabulary.to_bytes()
    # The table's rows are not enough: it may be padded, for another vocabulary.
    padding = (foreign.model.vocab_size or vocabulary.size) - vocabulary.size
    if not 0 <= padding < weights.MAX_PADDING:
        raise ForeignWeightsError(
            f"`--vocab_file`, or the vocabulary next to the weights, must have as many "
            f"pieces as `vocab_size` in the config of {foreign.store.source}, "
            f"{foreign.model.vocab_size}, or up to {weights.MAX_PADDING - 1:,} fewer, "
            f"for padding. Received: {where}, of {vocabulary.size} pieces"
        )
    known = {name: value for name, value in settings.items() if value is not None}
    normalization = choose_normalization(
        vocabulary, **{**foreign.normalization, **known}
    )
    if normalization not in (UNCASED, CASED):
        notes.append(f"text is {normalization}")
    text = TextPreparation(
        content,
        normalization,
        foreign.sentence_splitter,
        WORD_PIECES,
        foreign.sentence_parameters,
    )
    return vocabulary, text, notes


# === The checkpoint that a command starts from ===

FOLDER = "initial_checkpoint"
"""Folder of a conversion, inside the command's output folder."""
_REQUEST_FILE = "request.json"


def find_initial(
    source: str,
    output_dir: pathlib.Path,
    argument: str,
    config: RunConfig | None = None,
    fixed: Collection[str] = (),
    *,
    processes: Distribution | None = None,
    made_in: pathlib.Path | None = None,
    overwrite: bool = False,
    report: Callable[[str], Any] = print,
    **text: Any,
) -> pathlib.Path:
    """The checkpoint that a flag names, converted if it is of another model.

    Weights of other programs are converted and, with a config, those of another of our
    encoders. The conversion stays in the output folder: the same command, repeated,
    neither downloads nor converts again.

    Args:
        source: a checkpoint of ours, a run's output folder, or a source of
            `open_model`.
        output_dir: the command's output folder.
        argument: the flag, for messages.
        config: the run to be started; None keeps the model's architecture.
        fixed: paths of the fields of `config` that the user set.
        processes: all processes of the run; None is this process only.
        made_in: folder for a new conversion; None is the output folder.
        overwrite: whether the conversion of another source may be replaced.
        report: called with the report of a conversion.
        **text: `vocab_file` and `lower_case` of `convert`.

    Raises:
        CheckpointError: if there is no such checkpoint.
        ForeignWeightsError: if the weights cannot be read or do not fit, or the output
            folder has the conversion of another source.
        OSError: if a file cannot be read or written.
    """
    path, folder = pathlib.Path(source), output_dir / FOLDER
    is_checkpoint = folders.is_checkpoint(path)
    if is_checkpoint:
        path = folders.find_checkpoint(path, argument)
        if config is None or not _is_other_encoder(path, config, fixed):
            return path
    # The source of an earlier conversion may be gone.
    elif not is_foreign(source) and not (folder / _REQUEST_FILE).is_file():
        return folders.find_checkpoint(path, argument)
    request = {
        "source": source,
        # All settings that the weights of a conversion depend on.
        "config": config
        and {
            "model": to_dict(config.model),
            "objectives": to_dict(config.objectives),
            "seed": config.training.seed,
        },
        "fixed": sorted(name for name in fixed if name.startswith("model.")),
        **{name: value and str(value) for name, value in text.items()},
    }
    if made_in is not None and _read_request(folder) != request:
        folder = made_in / FOLDER

    def convert_once() -> None:
        cache = files.cache_dir()
        cache.mkdir(parents=True, exist_ok=True)
        # One process per host at a time.
        with files.locked(cache):
            previous = _read_request(folder)
            if previous == request:
                return
            if previous is not None and not overwrite:
                raise ForeignWeightsError(
                    f"`{argument}` must be the source of the conversion in {folder}, "
                    f"{previous['source']}, with the same model. Received: {source}. "
                    "Choose another --output_dir, or remove that folder"
                )
            # Without a request, the writer was killed just before the end.
            if (folder / contents.STATE_FILE).exists():
                files.remove_folder(folder)
            converted = convert(
                open_checkpoint(path) if is_checkpoint else open_model(source),
                folder,
                config,
                fixed=fixed if config else None,
                **text,
            )
            files.write_json(folder / _REQUEST_FILE, request)
        report(f"{converted.to_text()}\nWritten: {folder}")

    # The chief converts first. Hosts without its folders then convert again.
    processes = processes or Distribution()
    for has_turn in (processes.is_chief, not processes.is_chief):
        processes.call_together(convert_once if has_turn else lambda: None)
    return folder


def _is_other_encoder(
    folder: pathlib.Path, config: RunConfig, fixed: Collection[str]
) -> bool:
    """True for a checkpoint of another encoder with BERT's layers than the config's."""
    state = contents.read_state(folder)
    source = pretrained.read_config(folder, state)
    models = (source.model, config.model)
    if not all(getattr(model, "has_bert_layers", False) for model in models):
        return False
    if state.get("imported"):
        config, _ = follow_source(config, vars(source.model), fixed)
    before, after = to_dict(source), to_dict(config)
    return any(before[part] != after[part] for part in ("model", "objectives"))


def _read_request(folder: pathlib.Path) -> Any:
    """Request of a finished conversion; None without one."""
    path = folder / _REQUEST_FILE
    is_finished = (folder / contents.STATE_FILE).exists() and path.is_file()
    return files.read_json(path) if is_finished else None
