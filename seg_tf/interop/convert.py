"""Converts models of other libraries or architectures to checkpoints."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import huggingface_hub
import keras
import numpy as np

from seg_tf import files, papers
from seg_tf.checkpoints import contents, folders, pretrained
from seg_tf.config import (
    EncoderConfig,
    RunConfig,
    describe_taken,
    follow_source,
    to_dict,
)
from seg_tf.data.configs import WindowInputsConfig
from seg_tf.interop import google, hugging_face, keras_hub, weights
from seg_tf.interop.weights import (
    OUTPUT_BIAS,
    TABLES,
    TOKEN_TYPES,
    WORDS,
    ForeignModel,
    ForeignWeightsError,
)
from seg_tf.layers.common import under_dtype_policy
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
    hugging_face.FORMAT: "a folder with config.json and model.safetensors",
    hugging_face.SEGABERT: "the same, as SegaBERT's authors released it",
    keras_hub.FORMAT: "a preset folder of keras-hub's BertBackbone",
}
REPORT_FILE = "import_report.txt"
_READERS: tuple[Any, ...] = (keras_hub, hugging_face, google)
_DESCRIPTIONS = ("*config.json", "added_tokens.json", "tokenizer.json", VOCABULARY_FILE)
_MAX_WINDOW = 512
# Settings that must be the source's.
_LAYERS = (
    *("trunk", "rotary_shares", "gated", "local_window", "global_every"),
    *("num_layers", "num_heads"),
)
# Other settings that change outputs but not the shapes of weights.
_OUTPUT_SETTINGS = ("layer_norm_epsilon", "approximate_gelu")
# Maximum number of names listed in the report. Further names are only counted.
_MAX_NAMES = 12
_HUB = "hf://"


# === Sources ===


def _find_reader(path: pathlib.Path) -> Any:
    return next((reader for reader in _READERS if reader.matches(path)), None)


def open_model(source: str | pathlib.Path) -> ForeignModel:
    """Reads another library's model in any of `FORMATS`.

    `source` is a folder, a TensorFlow checkpoint prefix, or `hf://organization/name`,
    which may end in `@revision`. Raises `ForeignWeightsError` if this fails.
    """
    is_remote = str(source).startswith(_HUB)
    path = download(str(source)) if is_remote else pathlib.Path(source)
    if reader := _find_reader(path):
        return reader.read(path)
    reason = "a folder with none of them" if path.is_dir() else "which does not exist"
    if folders.is_checkpoint(path):
        reason = "a checkpoint of this package; use `--initial_checkpoint`"
    raise ForeignWeightsError(
        f"`--from` must be one of: {'; '.join(FORMATS.values())}; or "
        f"hf://organization/name. Received: {source}, {reason}"
    )


def download(url: str) -> pathlib.Path:
    """Downloads `hf://organization/name@revision` and returns the local folder.

    `@revision` is optional. Weights are only downloaded for models in `FORMATS`. Raises
    `ForeignWeightsError` if the download fails or the model's config is not supported.
    """
    name, _, revision = url.removeprefix(_HUB).partition("@")
    folder = _fetch(name, revision or None, _DESCRIPTIONS)
    if reader := _find_reader(folder):
        if reader is not google:
            reader.check(folder)
        _fetch(name, folder.name, reader.DOWNLOADS)
    return folder


def _fetch(name: str, revision: str | None, patterns: Iterable[str]) -> pathlib.Path:
    try:
        folder = huggingface_hub.snapshot_download(
            repo_id=name, revision=revision, allow_patterns=list(patterns)
        )
    except (OSError, ValueError) as error:
        # The hub's FileNotFoundError is about the cache. Its cause is the real reason.
        cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
        reason = str(cause or error).strip().partition("\n")[0]
        raise ForeignWeightsError(
            f"{_HUB}{name} could not be downloaded, and is not in the cache: "
            f"{type(cause or error).__name__}: {reason}. Check the name, the network, "
            "and the variables HF_ENDPOINT and HF_HUB_OFFLINE"
        ) from error
    return pathlib.Path(folder)


def open_checkpoint(folder: pathlib.Path) -> ForeignModel:
    """Reads a checkpoint of this package, with any trained masked-LM head and pooler.

    The model must be of an `EncoderConfig`. Raises `CheckpointError` if it is damaged.
    """
    source = pretrained.load_pretrained(folder)
    folder, model = source.folder, source.config.model
    heads = source.objectives if weights.has_trained_head(source) else {}
    tensors = {
        name: np.asarray(variable)
        for name, variable in weights.named_variables(source.encoder, heads).items()
    }
    parameters = folder / SENTENCE_PARAMETERS_FILE
    variables_of = contents.objective_variables
    return ForeignModel(
        format=SEG_TF,
        source=str(folder),
        tensors=tensors | (weights.read_pooler(folder) or {}),
        names=weights.OURS,
        model=dataclasses.replace(model, vocab_size=source.vocabulary.size),
        vocabulary=folder / VOCABULARY_FILE,
        normalization=dataclasses.asdict(source.normalization),
        sentence_splitter=source.sentence_splitter,
        sentence_parameters=parameters.read_bytes() if parameters.exists() else None,
        objectives={
            name: list(map(np.asarray, variables_of(source.encoder, {name: o})))
            for name, o in source.objectives.items()
            if not isinstance(o, MaskedLM)
        },
        files=(folder / contents.ENCODER_FILE, folder / contents.TRAINING_STATE_FILE),
    )


# === Embedding tables for another model ===


@dataclasses.dataclass(frozen=True)
class StartingTables:
    """The initial values of an encoder's embedding tables, and their origins."""

    values: dict[str, np.ndarray]
    origins: dict[str, str]
    unused: list[str]  # source tables that are not used
    equal_for: str  # windows for which the encoder equals its source, if any


def starting_tables(
    source: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    num_token_types: int,
    vocab_size: int,
    cls_id: int,
) -> StartingTables:
    """Returns tables with which an encoder's outputs equal its source's, if possible.

    Tables that both models have are copied, and cut or extended with their last row.
    Tables that the source lacks are zero, so they do not change outputs. This suffices
    for BERT with P.S. and SLM, which keep BERT's positions. SegaBERT has no positions:
    its token index restarts in every sentence. In a window's first sentence, it is
    BERT's position minus one, because `[CLS]` shares index 0 with the first word piece.
    So row t of the token table is BERT's position t + 1, and position 0 minus position
    1 is added to the vector of `[CLS]`. SegaBERT's outputs then equal BERT's, but only
    on windows of one sentence. Without a token type table, the source's type 0 is added
    to another table.

    `source` has the source's tables by our names. `index_tables`, `num_token_types` and
    `vocab_size` are numbers of rows in the encoder's tables.
    """
    positions, tokens = f"{TABLES}position_index", f"{TABLES}token_index"
    values = {WORDS: source[WORDS][:vocab_size]}
    origins = {WORDS: _describe_rows(source[WORDS], vocab_size)}
    rows_of = {TABLES + feature: rows for feature, rows in index_tables.items()}
    unused = [name for name in source if name not in (*rows_of, WORDS, TOKEN_TYPES)]
    equal_for, limits = "every window", []
    for name, rows in rows_of.items():
        if name in source:
            values[name] = _resize(source[name], rows)
            origins[name] = _describe_rows(source[name], rows)
            limits += [name] if rows < len(source[name]) else []
        elif name == tokens and positions in unused:
            values[name] = _resize(source[positions][1:], rows)
            limits += [name] if rows < len(source[positions]) - 1 else []
            origins[name] = "the source's positions, starting at 1"
            values[WORDS] = values[WORDS].copy()
            values[WORDS][cls_id] += source[positions][0] - source[positions][1]
            origins[WORDS] += "; position 0 minus position 1 added to [CLS]"
            unused.remove(positions)
            equal_for = "windows of one sentence"
        else:
            values[name] = np.zeros((rows, values[WORDS].shape[1]), np.float32)
            origins[name] = "zeros"
    types = source.get(TOKEN_TYPES, np.zeros_like(values[WORDS][:1]))
    if num_token_types:
        values[TOKEN_TYPES] = _resize(types, num_token_types)
        origins[TOKEN_TYPES] = _describe_rows(types, num_token_types)
    elif TOKEN_TYPES in source:
        host = next(iter(rows_of), WORDS)
        values[host] = values[host] + types[0]
        origins[host] += "; row 0 of the token types added"
    cut = [f"{name.removeprefix(TABLES)} below {rows_of[name]}" for name in limits]
    if len(types) > max(num_token_types, 1):
        cut.append(f"token types below {max(num_token_types, 1)}")
    equal_for += f" with {' and '.join(cut)}" if cut else ""
    return StartingTables(values, origins, unused, "" if unused else equal_for)


def _resize(table: np.ndarray, rows: int) -> np.ndarray:
    """Truncates a table to `rows` rows, or extends it by repeating its last row."""
    return table[np.minimum(np.arange(rows), len(table) - 1)]


def _describe_rows(table: np.ndarray, rows: int) -> str:
    repeated = max(rows - len(table), 0)
    described = f"{rows - repeated:,} of {len(table):,} rows"
    return described + (f", the last repeated {repeated:,} times" if repeated else "")


# === The report ===


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """Report of an import, with the origin of every weight.

    `adopted` has the settings taken from the source, and `settings` has settings that
    still differ. Both map names to (value in the config, value in the source).
    """

    format: str
    source: str
    checksums: Mapping[str, str]  # SHA-256 by file name
    num_loaded: int  # number of weights that were loaded unchanged
    tables: Mapping[str, str]  # our table -> its origin
    new: tuple[str, ...]  # our weights that were initialized at random
    unmatched: tuple[str, ...]  # source tensors that are not used
    missing: tuple[str, ...]  # unmatched tensors that the source's encoder may use
    adopted: Mapping[str, tuple[Any, Any]]
    settings: Mapping[str, tuple[Any, Any]]
    notes: tuple[str, ...]
    equal_for: str  # windows for which the encoder equals its source, if any

    def to_text(self) -> str:
        lines = [
            f"Weights of {self.source} ({self.format})",
            *(f"  {file}: sha256 {digest}" for file, digest in self.checksums.items()),
            f"Loaded unchanged: {self.num_loaded} weights",
            "Tables:",
            *(f"  {name}: {origin}" for name, origin in self.tables.items()),
            *_list_names("New, initialized at random", self.new),
            *_list_names("Unmatched, not used by this model", self.unmatched),
        ]
        if self.adopted:
            lines.append(f"Taken from the source: {describe_taken(self.adopted)}")
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join([*lines, self.equality()])

    def equality(self) -> str:
        """Describes the windows for which the encoder's outputs equal its source's."""
        start = "Equal to the source: for"
        if not self.equal_for:
            reason = "no window; its encoder may compute with unmatched tensors"
            return "\n".join(_list_names(f"{start} {reason}", self.missing))
        differing = "; ".join(
            f"model.{name}={ours}, there {theirs}"
            for name, (ours, theirs) in self.settings.items()
        )
        about = f", except that {differing}: about equal" if differing else ""
        return f"{start} {self.equal_for}{about}"


def _list_names(title: str, names: Sequence[str]) -> list[str]:
    more = ["  …"] if len(names) > _MAX_NAMES else []
    shown = [f"  {name}" for name in names[:_MAX_NAMES]]
    return [f"{title}: {len(names) or 'none'}", *shown, *more]


# === Conversion ===


def convert(
    foreign: ForeignModel,
    output_dir: pathlib.Path,
    config: RunConfig | None = None,
    vocab_file: pathlib.Path | None = None,
    fixed: Collection[str] | None = None,
    **normalization: bool | None,
) -> ImportReport:
    """Writes a checkpoint with a source model's weights and returns the import report.

    Args:
        foreign: the source model.
        output_dir: path. A new or empty folder. It appears complete or not at all.
        config: config of a run whose model gets the weights. If None, the source's
            architecture is used.
        vocab_file: path. The vocabulary, if the source has none.
        fixed: paths of fields of `config` that must not change, such as
            `model.layer_norm_epsilon`. Other fields that affect outputs follow the
            source (`seg_tf.config.follow_source`). If None, no field changes.
        **normalization: fields of `seg_tf.text.normalization.Normalization`. Other
            fields are as in the source or, if unknown, derived from the vocabulary.

    Raises:
        ForeignWeightsError: if a tensor is missing, damaged or has an unexpected shape,
            or if config, weights and vocabulary do not fit together.
        ValueError: if the vocabulary is invalid, or the folder is not empty or in use.
    """
    files.check_new_folder(output_dir)
    config = config or _own_config(foreign)
    _check_config(config, foreign)
    adopted: Mapping[str, tuple[Any, Any]] = {}
    if fixed is not None:
        config, adopted = follow_source(config, vars(foreign.model), fixed)
    vocabulary, text, notes = _prepare_text(foreign, vocab_file, normalization)
    model = config.model
    vocab_size = model.vocab_size or vocabulary.size
    keras.utils.set_random_seed(config.training.seed)
    with under_dtype_policy(config.training.dtype_policy):
        encoder, objectives = pretrained.assemble(config, vocab_size)
    variables = weights.named_variables(encoder, objectives)
    values, sources = weights.read(foreign, variables, model.hidden_size)
    rows = len(values[WORDS])
    if rows < vocab_size:
        raise ForeignWeightsError(
            f"{foreign.source}: the tensor {sources[WORDS]!r} must have a row for "
            f"each of the {vocab_size} pieces of the vocabulary. Found: {rows} rows"
        )
    if rows > vocab_size:
        notes.append(
            f"the vocabulary has {vocabulary.size:,} pieces and the source {rows:,} "
            f"rows: {rows - vocab_size:,} rows of padding are dropped, which were also "
            "in the softmax of masked LM"
        )
    tables = starting_tables(
        {n: values.pop(n) for n in [*values] if n.startswith((WORDS, TABLES))},
        model.index_tables,
        model.num_token_types,
        vocab_size,
        vocabulary.cls_id,
    )
    if OUTPUT_BIAS in values:
        values[OUTPUT_BIAS] = values[OUTPUT_BIAS][:vocab_size]
    if has_pooler := f"{weights.POOLER}kernel" in values:
        notes.append(f"the pooler of [CLS] is stored in {weights.POOLER_FILE}")
    assigned = (values | tables.values).keys() & variables.keys()
    for name in assigned:
        variables[name].assign((values | tables.values)[name])
    loaded_ids = {id(variables[name]) for name in assigned}
    num_loaded = len(assigned & values.keys())
    for name, arrays in foreign.objectives.items():
        ours = {name: objectives[name]} if name in objectives else {}
        ours = contents.objective_variables(encoder, ours)
        if [array.shape for array in arrays] == [tuple(v.shape) for v in ours]:
            for variable, array in zip(ours, arrays, strict=True):
                variable.assign(array)
            loaded_ids |= set(map(id, ours))
            num_loaded += len(ours)
        else:
            notes.append(f"weights of its objective {name} are not used")
    heads = contents.objective_variables(encoder, objectives)
    unused = [sources.pop(name) for name in tables.unused]
    unmatched = sorted(foreign.tensors.keys() - sources.values())
    is_of_encoder = foreign.names.is_of_encoder
    missing = [name for name in unmatched if name in unused or is_of_encoder(name)]
    report = ImportReport(
        format=foreign.format,
        source=foreign.source,
        checksums={path.name: files.checksum(path) for path in foreign.files},
        num_loaded=num_loaded,
        tables=tables.origins,
        new=tuple(
            variable.path
            for variable in (*encoder.weights, *heads)
            if variable.trainable and id(variable) not in loaded_ids
        ),
        unmatched=tuple(unmatched),
        missing=tuple(missing),
        adopted=adopted,
        settings={
            name: (getattr(model, name), getattr(foreign.model, name))
            for name in _OUTPUT_SETTINGS
            if getattr(model, name) != getattr(foreign.model, name)
        },
        notes=(*foreign.notes, *notes),
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
    with files.new_folder(output_dir) as unfinished:
        path = unfinished / REPORT_FILE
        path.write_text(report.to_text() + "\n", encoding="utf-8")
        if has_pooler:
            weights.write_pooler(unfinished, values)
        contents.write(unfinished, encoder, objectives, state, text.files())
    return report


def _own_config(foreign: ForeignModel) -> RunConfig:
    rows = foreign.model.index_tables
    is_segabert = "token_index" in rows
    tables = weights.SEGABERT_TABLES if is_segabert else ("position_index",)
    if absent := [name for name in tables if name not in rows]:
        raise ForeignWeightsError(
            f"{foreign.source}: must have tables for {', '.join(tables)}. Found: "
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
    """Raises `ForeignWeightsError` if the kind or number of layers or heads differs."""
    for name in _LAYERS:
        ours, theirs = getattr(config.model, name, None), getattr(foreign.model, name)
        if ours != theirs:
            raise ForeignWeightsError(
                f"`model.{name}` must be {theirs!r}, as in {foreign.source}. "
                f"Received: {config.name!r} of a {type(config.model).__name__}, "
                f"model.{name}={ours!r}"
            )


def _prepare_text(
    foreign: ForeignModel,
    vocab_file: pathlib.Path | None,
    settings: Mapping[str, bool | None],
) -> tuple[Vocabulary, TextPreparation, list[str]]:
    """Returns the vocabulary, the text preparation, and notes for the report."""
    source = vocab_file or foreign.vocabulary
    if source is None:
        raise ValueError(
            f"{foreign.source}: must have its vocabulary, {VOCABULARY_FILE}. Found: "
            "none. `seg-tf import-weights` also takes it by `--vocab_file`"
        )
    where, rows = f"the tokenizer of {foreign.source}", source
    if isinstance(source, pathlib.Path):
        where, rows = str(source), decode_lines(source.read_bytes(), str(source))
    # If rows are equal, tokenizers use the last one.
    ids = {token: number for number, token in enumerate(rows)}
    unusable = {
        number
        for number, token in enumerate(rows)
        if ids[token] != number or not token or re.search(r"\s", token, re.ASCII)
    }
    notes = []
    if unusable:
        notes.append(
            f"{len(unusable):,} rows of {where} are blank, repeated or not a token, "
            f"the first in line {min(unusable) + 1}. No text produces them"
        )
        rows = [f"[row{n}]" if n in unusable else row for n, row in enumerate(rows)]
    if isinstance(source, pathlib.Path) and not unusable:
        vocabulary, content = Vocabulary.from_file(source), source.read_bytes()
    else:
        vocabulary = Vocabulary(tuple(rows), source=where)
        content = vocabulary.to_bytes()
    size = foreign.model.vocab_size or vocabulary.size
    if not 0 <= size - vocabulary.size < weights.MAX_PADDING:
        raise ForeignWeightsError(
            "The vocabulary must have as many pieces as `vocab_size` in the config of "
            f"{foreign.source}, {size}, or up to {weights.MAX_PADDING - 1:,} fewer, "
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


# === The checkpoint that a command or class starts from ===


def find_initial(
    source: str | pathlib.Path,
    argument: str,
    config: RunConfig | None = None,
    fixed: Collection[str] = (),
    *,
    processes: Distribution | None = None,
    report: Callable[[ImportReport], Any] = lambda report: print(report.to_text()),
) -> pathlib.Path:
    """Returns the checkpoint that an argument names, after converting it if necessary.

    Other libraries' models are converted, as are checkpoints of an `EncoderConfig` that
    differ from `config`. Conversions are cached in `$XDG_CACHE_HOME/seg_tf`.

    Args:
        source: str or path. A checkpoint, a run's output folder, an included model's
            name, or a source of `open_model`.
        argument: str. Name of the argument in error messages.
        config: config of the run to start. If None, the architecture does not change.
        fixed: paths of the fields of `config` that the user set.
        processes: `Distribution` with all processes of the run, if there are several.
        report: function that is called with the report of a new conversion.

    Raises:
        CheckpointError: if there is no such checkpoint.
        ForeignWeightsError: if the weights cannot be read or do not fit.
        ValueError: if the source's vocabulary is missing or invalid.
    """
    path, is_remote = pathlib.Path(source), str(source).startswith(_HUB)
    is_ours = not (is_remote or _find_reader(path)) or folders.is_checkpoint(path)
    if is_ours:
        path = folders.find_checkpoint(path, argument)
        if config is None or not _is_other_encoder(path, config, fixed):
            return path

    def convert_once() -> pathlib.Path:
        folder = download(str(source)) if is_remote else path
        paths = folder.rglob("*") if folder.is_dir() else folder.parent.iterdir()
        # Everything that the converted weights depend on.
        request = {
            "files": sorted(
                [str(file), file.stat().st_size, file.stat().st_mtime_ns]
                for file in paths
                if file.is_file()
            ),
            "config": config
            and {
                "model": to_dict(config.model),
                "objectives": to_dict(config.objectives),
                "seed": config.training.seed,
                "dtype_policy": str(config.training.dtype_policy),
            },
            "fixed": sorted(name for name in fixed if name.startswith("model.")),
        }
        cache = files.cache_dir() / "converted"
        cache.mkdir(parents=True, exist_ok=True)
        converted = cache / files.content_checksum(request)
        with files.locked(cache):
            if not converted.exists():
                foreign = open_checkpoint(folder) if is_ours else open_model(folder)
                names = fixed if config else None
                report(convert(foreign, converted, config, fixed=names))
        return converted

    # The chief converts first. Hosts without its cache then convert again.
    processes = processes or Distribution()
    is_chief = processes.is_chief
    converted = processes.call_together(convert_once if is_chief else pathlib.Path)
    return processes.call_together((lambda: converted) if is_chief else convert_once)


def _is_other_encoder(
    folder: pathlib.Path, config: RunConfig, fixed: Collection[str]
) -> bool:
    """Returns whether `config` changes an encoder's model or objectives."""
    source = pretrained.read_config(folder, contents.read_state(folder))
    models = (source.model, config.model)
    if not all(isinstance(model, EncoderConfig) for model in models):
        return False
    config, _ = follow_source(config, vars(source.model), fixed)
    return bool(pretrained.differing_models(source, config))
