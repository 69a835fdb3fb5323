"""Makes a checkpoint of ours from foreign weights, or from another model of ours."""

import dataclasses
import os
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
    EncoderConfig,
    RunConfig,
    describe_taken,
    follow_source,
    to_dict,
)
from seg_tf.data.configs import WindowInputsConfig
from seg_tf.interop import google, hugging_face, keras_hub, layouts, weights
from seg_tf.interop.layouts import HEAD, OUTPUT_BIAS, POOLER, WORDS, Sizes, shape_text
from seg_tf.interop.settings import Settings
from seg_tf.interop.starting_tables import starting_tables
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
    google.GOOGLE: "a TF 1 checkpoint of BERT's authors, with bert_config.json",
    hugging_face.HUGGING_FACE: "a folder with config.json and model.safetensors or "
    "pytorch_model.bin",
    hugging_face.SEGABERT: "the same, as SegaBERT's authors released it",
    keras_hub.KERAS_HUB: "a preset folder of keras-hub's BertBackbone",
}
REPORT_FILE = "import_report.txt"
_LONGEST_WINDOW = 512
# Settings that no weight depends on, and outputs do.
_OUTPUT_SETTINGS = ("layer_norm_epsilon", "approximate_gelu")
# Names that the report lists; further ones are counted.
_SHOWN = 12
_HUB = "hf://"
# A revision, which is a branch, a tag or a commit, may follow an @.
_URL = re.compile(r"hf://([\w.-]+/[\w.-]+|[\w.-]+)(?:@([\w./-]+))?", re.ASCII)


# === Sources ===


def open_model(source: str | pathlib.Path) -> ForeignModel:
    """Opens a foreign checkpoint, whichever of `FORMATS` it is in.

    Args:
        source: a folder, the prefix of a TensorFlow checkpoint's files, or a model of
            the hub, `hf://organisation/name`, which is downloaded.

    Raises:
        OSError: if a file cannot be read.
        ForeignWeightsError: if it is in no format that can be read, or damaged, or
            cannot be downloaded.
    """
    if isinstance(source, str) and source.startswith(_HUB):
        folder = download(source)
        foreign = open_model(folder)
        note = f"downloaded as {source}, revision {folder.name}"
        return dataclasses.replace(foreign, notes=(*foreign.notes, note))
    path = pathlib.Path(source)
    if kind := _kind(path):
        return kind.read(path)
    if prefix := google.find_prefix(path):
        return google.read(prefix)
    found = "a folder with none of them" if path.is_dir() else "which is not there"
    if folders.is_checkpoint(path):
        found = "a checkpoint of this package, which `--initial_checkpoint` takes"
    raise ForeignWeightsError(
        f"`--from` must be one of: {'; '.join(FORMATS.values())}; or "
        f"hf://organisation/name. Received: {path}, {found}"
    )


def _kind(folder: pathlib.Path) -> Any:
    """The module that reads a folder by its config.json; None if there is none."""
    path = folder / hugging_face.CONFIG_FILE
    if not path.is_file():
        return None
    kinds, config = (keras_hub, hugging_face), Settings(path)
    return next((kind for kind in kinds if kind.is_config(config)), None)


def download(url: str) -> pathlib.Path:
    """Downloads what is read of a model of the hub, into the hub's own cache.

    The config comes first, so that a model that cannot be read costs nothing.

    Args:
        url: `hf://organisation/name`, or `hf://organisation/name@revision`.

    Returns:
        The folder of the revision, whose name is its commit.

    Raises:
        ForeignWeightsError: if that is no name of a model, it cannot be downloaded, or
            it has no weights that can be read.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ForeignWeightsError(
            "`--from` must be hf://organisation/name, maybe with @revision, of a model "
            f"of the hub. Received: {url}"
        )
    name, revision = match.groups()
    descriptions = (hugging_face.CONFIG_FILE, google.CONFIG_FILE, VOCABULARY_FILE)
    descriptions += hugging_face.TOKENIZER_FILES
    folder = _fetch(url, name, revision, descriptions)
    patterns = []
    if (kind := _kind(folder)) is keras_hub:
        patterns = [keras_hub.PATTERNS]
    elif kind is hugging_face:
        hugging_face.check_model(Settings(folder / hugging_face.CONFIG_FILE))
        patterns = hugging_face.weight_patterns()
    elif (folder / google.CONFIG_FILE).is_file():
        patterns = [google.PATTERNS]
    # What follows is of the same commit, and asks the hub for no other.
    for names in patterns:
        _fetch(url, name, folder.name, names)
        if any(next(folder.glob(pattern), None) for pattern in names):
            return folder
    expected = f"{hugging_face.CONFIG_FILE} or {google.CONFIG_FILE} of a BERT"
    if patterns:
        expected = " or ".join(names[0] for names in patterns)
    without = "" if hugging_face.find_torch() else "; PyTorch is not installed"
    raise ForeignWeightsError(
        f"{url} must have {expected}. Found: nothing that can be read{without}"
    )


def _fetch(
    url: str, name: str, revision: str | None, patterns: Iterable[str]
) -> pathlib.Path:
    """The folder of a revision, with the files that match a pattern."""
    try:
        return pathlib.Path(
            huggingface_hub.snapshot_download(
                repo_id=name, revision=revision, allow_patterns=list(patterns)
            )
        )
    # Of HTTP, of the file system, and of names that the hub does not allow.
    except (OSError, ValueError) as error:
        # One of a missing file speaks of the cache; its cause says why it is missing.
        cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
        reason = cause if isinstance(cause, Exception) else error
        variables = ", ".join(
            f"{key}={os.environ.get(key, 'unset')}"
            for key in ("HF_ENDPOINT", "HF_HUB_OFFLINE")
        )
        raise ForeignWeightsError(
            f"{url} could not be downloaded, and is not in the cache: "
            f"{type(reason).__name__}: {str(reason).strip().partition(chr(10))[0]}. "
            "Check the name and the network, or copy the model's files here and give "
            f"their folder. The settings of the hub: {variables}"
        ) from error


def open_own(folder: pathlib.Path) -> ForeignModel:
    """Opens the encoder and the masked-LM head of a checkpoint of this package.

    Raises:
        CheckpointError: if it is damaged.
        ForeignWeightsError: if its model is no encoder like BERT.
    """
    source = pretrained.load_pretrained(folder)
    folder = source.folder
    model, encoder = source.config.model, source.encoder
    _check_layers(model, f"{folder}, the run {source.config.name!r}")
    # Once each: the head has the token table under a second path.
    tied = {id(variable) for variable in encoder.weights}
    heads = source.objectives if weights.has_trained_head(source) else {}
    variables = {
        path: variable
        for path, variable in weights.variables_of(encoder, heads).items()
        if id(variable) not in tied or path in {one.path for one in encoder.weights}
    }
    variables |= weights.read_pooler(folder) or {}
    parameters = folder / SENTENCE_PARAMETERS_FILE
    others = ", ".join(
        name
        for name, objective in source.objectives.items()
        if not isinstance(objective, MaskedLM)
    )
    return ForeignModel(
        format=SEG_TF,
        store=Store.of_variables(variables, str(folder)),
        layout=layouts.OURS,
        sizes=Sizes.of(model),
        table_rows=encoder.index_caps,
        vocab_size=source.vocabulary.size,
        layer_norm_epsilon=model.layer_norm_epsilon,
        approximate_gelu=model.approximate_gelu,
        dropout=model.dropout,
        initializer_range=model.initializer_range,
        vocabulary=folder / VOCABULARY_FILE,
        normalization=dataclasses.asdict(source.normalization),
        sentence_splitter=source.sentence_splitter,
        sentence_parameters=parameters.read_bytes() if parameters.exists() else None,
        notes=(f"weights of its objective {others} are not taken",) if others else (),
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
        format: of the source.
        source: where it lies.
        checksums: file -> SHA-256.
        loaded: our weight -> the tensor it was loaded from.
        tables: our table -> how it came about.
        new: our weights that start as in a new model.
        unmatched: tensors that match none of our weights.
        missed: those of them that the source's encoder computes with, or may.
        kept: file beside the model -> what it holds.
        taken: setting that is the source's -> (the config's, the source's).
        settings: setting in which the model differs from the source -> (the model's,
            the source's).
        notes: further lines.
        equal_for: windows for which the encoder equals its source, if there are any.
    """

    format: str
    source: str
    checksums: Mapping[str, str]
    loaded: Mapping[str, str]
    tables: Mapping[str, str]
    new: tuple[str, ...]
    unmatched: tuple[str, ...]
    missed: tuple[str, ...]
    kept: Mapping[str, str]
    taken: Mapping[str, tuple[Any, Any]]
    settings: Mapping[str, tuple[Any, Any]]
    notes: tuple[str, ...]
    equal_for: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as a checkpoint keeps them."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in vars(self).items()
        }

    def to_text(self) -> str:
        """For people."""
        lines = [f"Weights of {self.source} ({self.format})"]
        lines += [f"  {name}: sha256 {one}" for name, one in self.checksums.items()]
        lines += [f"Loaded: {len(self.loaded)} weights as they are", "Tables:"]
        lines += [f"  {name}: {how}" for name, how in self.tables.items()]
        lines += _listed("New, as in a model that starts from chance", self.new)
        lines += _listed("Unmatched, of no use to this model", self.unmatched)
        lines += [
            f"Kept beside the model: {name}, {what}" for name, what in self.kept.items()
        ]
        if self.taken:
            lines.append(f"Taken from the source: {describe_taken(self.taken)}")
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join([*lines, self.equality()])

    def equality(self) -> str:
        """States the windows for which the encoder equals its source."""
        start = "Equal to the source: for"
        if self.missed:
            reason = "of what it computes with, or may, is unmatched"
            return "\n".join(_listed(f"{start} no window; {reason}", self.missed))
        if not self.equal_for:
            return (
                f"{start} no window; the encoder has no table that could take the "
                "place of the source's"
            )
        differing = "; ".join(
            f"model.{name}={ours}, there {theirs}"
            for name, (ours, theirs) in self.settings.items()
        )
        about = f", were it not for {differing}: about equal" if differing else ""
        return f"{start} {self.equal_for}{about}"


def _listed(title: str, names: Collection[str]) -> list[str]:
    lines = [f"  {name}" for name in names][:_SHOWN]
    if len(names) > _SHOWN:
        lines.append(f"  and {len(names) - _SHOWN} more")
    return [f"{title}: {len(names) or 'none'}", *lines]


# === Conversion ===


def convert(
    foreign: ForeignModel,
    output_dir: pathlib.Path,
    config: RunConfig | None = None,
    vocab_file: pathlib.Path | None = None,
    asked: Collection[str] | None = None,
    **normalization: bool | None,
) -> ImportReport:
    """Writes a checkpoint that holds a foreign model's weights.

    It is one like those of a run, without optimizer: `load_pretrained` reads it, and
    pretraining of the same config starts from it by `--initial_checkpoint`. The folder
    appears whole under its name or not at all.

    Args:
        foreign: the model.
        output_dir: the checkpoint's folder, new or empty.
        config: the run whose model gets the weights; None makes the foreign model
            itself one of ours.
        vocab_file: its vocabulary, where the foreign folder has none.
        asked: paths of the fields of `config` that have to stay, such as
            `model.layer_norm_epsilon`; others that the outputs depend on follow the
            foreign model (`seg_tf.config.follow_source`). None keeps all.
        **normalization: fields of `seg_tf.text.normalization.Normalization`. Those that
            are None or missing are what the foreign model's files say or, where they
            do not, what the vocabulary does.

    Returns:
        What was loaded and what was not.

    Raises:
        ForeignWeightsError: if a tensor is missing, damaged or of another shape, naming
            it; if the weights do not fit the config; or if the vocabulary does not fit
            the weights.
        OSError: if a file cannot be read or written.
        ValueError: if the vocabulary is none, or the folder is in use.
    """
    output_paths.check_new_folder(output_dir)
    config = config or _own_config(foreign)
    _check_config(config, foreign)
    taken: Mapping[str, tuple[Any, Any]] = {}
    if asked is not None:
        config, taken = follow_source(config, _described(foreign), asked)
    vocabulary, text, notes = _prepare_text(foreign, vocab_file, normalization)
    model = config.model
    vocab_size = model.vocab_size or vocabulary.size
    features = dict.fromkeys(foreign.table_rows)
    if foreign.format != SEG_TF and not foreign.is_segabert:
        features |= {"position_index": None}  # missing, it is an error
    read = weights.read(foreign.store, foreign.layout, Sizes.of(model), features)
    words, rows = read.names[WORDS], len(read.values[WORDS])
    if rows < vocab_size:
        raise ForeignWeightsError(
            f"{foreign.store.source}: the tensor {words!r} must have a row for each "
            f"piece of the vocabulary, the shape ({vocab_size} or more, "
            f"{foreign.sizes.hidden_size}). Found: "
            f"{shape_text(read.values[WORDS].shape)}"
        )
    if rows > vocab_size:
        notes.append(
            f"the vocabulary has {vocabulary.size:,} pieces and the source {rows:,} "
            f"rows: {rows - vocab_size:,} rows of padding are dropped, which also took "
            "part in the softmax of masked LM"
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
    values = {name: one for name, one in read.values.items() if not is_table[name]}
    if OUTPUT_BIAS in values:
        values[OUTPUT_BIAS] = values[OUTPUT_BIAS][:vocab_size]
    keras.utils.set_random_seed(config.training.seed)
    with under_dtype_policy(config.training.dtype_policy):
        encoder, objectives = pretrained.assemble(config, vocab_size)
    assigned = weights.assign(encoder, objectives, values | tables.values)
    # Of a head that the config has no objective for, too.
    unused = [name for name in values if name.startswith(HEAD) and name not in assigned]
    unmatched = {
        *read.unmatched,
        *(read.names[name] for name in (*tables.unused, *unused)),
    }
    missed = {*read.missed, *(read.names[name] for name in tables.missed)}
    has_pooler = f"{POOLER}/kernel" in values
    report = ImportReport(
        format=foreign.format,
        source=foreign.store.source,
        checksums={path.name: files.checksum(path) for path in foreign.files},
        loaded={name: read.names[name] for name in assigned if name in values},
        tables=tables.sources,
        new=_new_weights(encoder, objectives, assigned),
        unmatched=tuple(sorted(unmatched)),
        missed=tuple(sorted(missed)),
        kept=(
            {weights.POOLER_FILE: "the pooler of [CLS], which our encoders do without"}
            if has_pooler
            else {}
        ),
        taken=taken,
        settings={
            name: (getattr(model, name), getattr(foreign, name))
            for name in _OUTPUT_SETTINGS
            if getattr(model, name) != getattr(foreign, name)
        },
        notes=(*foreign.notes, *notes, *read.notes),
        equal_for="" if missed else tables.equal_for,
    )
    state = {
        "config": to_dict(config),
        "records": None,
        "initial_weights": None,
        "imported": report.to_dict(),
        "seed": config.training.seed,
        "vocab_size": vocab_size,
        "vocab_checksum": vocabulary.checksum,
        "deviations": [str(one) for one in papers.deviations(config)],
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
    """The config of a BERT, or a SegaBERT, that is the foreign model."""
    rows = foreign.table_rows
    tables = layouts.SEGABERT_TABLES if foreign.is_segabert else ("position_index",)
    if missing := [name for name in tables if name not in rows]:
        raise ForeignWeightsError(
            f"{foreign.store.source}: must have tables for {', '.join(tables)}. It "
            f"lacks: {', '.join(missing)}"
        )
    family = "segabert" if foreign.is_segabert else "bert"
    size = "large" if foreign.sizes.num_layers >= 24 else "base"
    length = min(rows.get("position_index", _LONGEST_WINDOW), _LONGEST_WINDOW)
    return RunConfig(
        name=f"{family}_from_{foreign.format}",
        paper=f"{family}_{size}",
        model=EncoderConfig(
            index_tables={name: rows[name] for name in tables},
            **dataclasses.asdict(foreign.sizes),
            dropout=foreign.dropout,
            layer_norm_epsilon=foreign.layer_norm_epsilon,
            initializer_range=foreign.initializer_range,
            approximate_gelu=foreign.approximate_gelu,
            num_token_types=rows.get("token_type", 0),
        ),
        inputs=WindowInputsConfig(window_length=length),
    )


def _check_config(config: RunConfig, foreign: ForeignModel) -> None:
    """Raises if a model has other layers or heads; shapes tell everything else."""
    _check_layers(config.model, f"the config {config.name!r}")
    for name in ("num_layers", "num_heads"):
        ours, theirs = getattr(config.model, name), getattr(foreign.sizes, name)
        if ours != theirs:
            extra = ""
            if name == "num_layers" and ours < theirs:
                query = f"transformer_layer_{ours}/self_attention_layer/query/kernel"
                extra = f", with tensors such as {foreign.layout.name(query)!r}"
            raise ForeignWeightsError(
                f"`model.{name}` must be {theirs}, as in {foreign.store.source}"
                f"{extra}. Received: {config.name!r}, model.{name}={ours}"
            )


def _described(foreign: ForeignModel) -> dict[str, Any]:
    """Fields of an `EncoderConfig` that describe the source, for `follow_source`."""
    tables = dict(foreign.table_rows)
    return {
        "num_token_types": tables.pop("token_type", 0),
        "index_tables": tables,
        **{name: getattr(foreign, name) for name in _OUTPUT_SETTINGS},
    }


def _prepare_text(
    foreign: ForeignModel,
    vocab_file: pathlib.Path | None,
    given: Mapping[str, bool | None],
) -> tuple[Vocabulary, TextPreparation, list[str]]:
    """The vocabulary, how text becomes pieces of it, and notes for the report."""
    source = vocab_file or foreign.vocabulary
    if source is None:
        raise ValueError(
            f"`--vocab_file` must name the vocabulary of {foreign.store.source}, which "
            "has none beside it"
        )
    content, rows = None, source
    if isinstance(source, pathlib.Path):
        content, where = source.read_bytes(), str(source)
        rows = decode_lines(content, where)
    else:
        where = f"the tokenizer of {foreign.store.source}"
    # Programs look tokens up in a table that the last of equal rows wins.
    ids = {token: number for number, token in enumerate(rows)}
    free = [
        number
        for number, token in enumerate(rows)
        if ids[token] != number or not token or re.search(r"\s", token, re.ASCII)
    ]
    notes = []
    if free:
        shown = ", ".join(str(number + 1) for number in free[:5])
        notes.append(
            f"{len(free):,} rows of {where} are blank, repeated or no token: lines "
            f"{shown}{', …' if len(free) > 5 else ''}. No text produces them"
        )
        rows = [f"[row{n}]" if n in {*free} else one for n, one in enumerate(rows)]
        content = None
    vocabulary = Vocabulary(tuple(rows), source=where)
    if content is None:
        content = vocabulary.to_bytes()
    elif isinstance(source, pathlib.Path):
        vocabulary = Vocabulary.from_file(source)
    # Rows of the table alone do not tell: it may be padded, and the vocabulary another.
    padding = (foreign.vocab_size or vocabulary.size) - vocabulary.size
    if not 0 <= padding < weights.MAX_PADDING:
        raise ForeignWeightsError(
            f"`--vocab_file`, or the vocabulary beside the weights, must have as many "
            f"pieces as `vocab_size` in the config of {foreign.store.source} says, "
            f"{foreign.vocab_size}, or up to {weights.MAX_PADDING - 1:,} less, which "
            f"are padding. Received: {where}, of {vocabulary.size} pieces"
        )
    known = {name: value for name, value in given.items() if value is not None}
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


def _new_weights(
    encoder: keras.Model, objectives: Mapping[str, Any], assigned: Collection[str]
) -> tuple[str, ...]:
    """Weights that nothing was loaded into."""
    known = weights.variables_of(encoder, objectives)
    loaded = {id(known[path]) for path in assigned}
    others = contents.objective_variables(encoder, objectives)
    return tuple(
        variable.path
        for variable in (*encoder.weights, *others)
        if variable.trainable and id(variable) not in loaded
    )


# === The checkpoint that a command starts from ===

FOLDER = "initial_checkpoint"
"""The folder of a conversion, inside the output folder of the command."""
_REQUEST_FILE = "request.json"


def find_initial(
    given: str,
    output_dir: pathlib.Path,
    argument: str,
    config: RunConfig | None = None,
    asked: Collection[str] = (),
    *,
    processes: Distribution | None = None,
    made_in: pathlib.Path | None = None,
    overwrite: bool = False,
    report: Callable[[str], Any] = print,
    **text: Any,
) -> pathlib.Path:
    """The checkpoint that a flag names; weights of another model are converted first.

    These are weights of other programs or, with a config, of another encoder of ours.
    The conversion stays in the output folder, so that the same command, given again,
    neither downloads nor converts anything.

    Args:
        given: a checkpoint of ours, the output folder of a run, or what `open_model`
            opens.
        output_dir: that of the command.
        argument: the flag, for messages.
        config: the run that is to start from the weights; None keeps the model as it
            is.
        asked: paths of the fields of `config` that the user set.
        processes: those that call this; None is this one alone.
        made_in: folder for a conversion that the output folder does not hold, such as
            a temporary one; None is the output folder.
        overwrite: whether the conversion of another model may be replaced.
        report: called with the report of a conversion.
        **text: `vocab_file` and `lower_case` of `convert`.

    Raises:
        CheckpointError: if there is neither.
        ForeignWeightsError: if the weights cannot be read or do not fit, or the output
            folder holds the conversion of others.
        OSError: if a file cannot be read or written.
    """
    path, folder = pathlib.Path(given), output_dir / FOLDER
    own = None
    if folders.is_checkpoint(path):
        own = folders.find_checkpoint(path, argument)
        if config is None or not _is_other_encoder(own, config, asked):
            return own
    elif not (
        given.startswith(_HUB)
        or _kind(path)
        or google.find_prefix(path)
        # The source of a conversion may be gone when the command is given again.
        or (folder / _REQUEST_FILE).is_file()
    ):
        return folders.find_checkpoint(path, argument)
    request = {
        "source": given,
        # What the weights of a conversion depend on.
        "config": config
        and {
            "model": to_dict(config.model),
            "objectives": to_dict(config.objectives),
            "seed": config.training.seed,
        },
        "asked": sorted(name for name in asked if name.startswith("model.")),
        **{name: value and str(value) for name, value in text.items()},
    }
    if made_in is not None and _made_for(folder) != request:
        folder = made_in / FOLDER

    def convert_once() -> None:
        cache = files.cache_dir()
        cache.mkdir(parents=True, exist_ok=True)
        # One process of this host at a time.
        with files.locked(cache):
            if _made_for(folder) == request:
                return
            _remove_other(folder, given, argument, overwrite)
            converted = convert(
                open_own(own) if own else open_model(given),
                folder,
                config,
                asked=asked if config else None,
                **text,
            )
            files.write_json(folder / _REQUEST_FILE, request)
        report(f"{converted.to_text()}\nWritten: {folder}")

    # The others find what the chief made. On a host that lacks its folders they make
    # it once more.
    processes = processes or Distribution()
    for has_turn in (processes.is_chief, not processes.is_chief):
        processes.call_together(convert_once if has_turn else lambda: None)
    return folder


def _is_other_encoder(
    folder: pathlib.Path, config: RunConfig, asked: Collection[str]
) -> bool:
    """True for a checkpoint of another encoder with BERT's layers than the config's."""
    state = contents.read_state(folder)
    source = pretrained.read_config(folder, state)
    if not all(
        getattr(one.model, "has_bert_layers", False) for one in (source, config)
    ):
        return False
    if state.get("imported"):
        config, _ = follow_source(config, vars(source.model), asked)
    return any(
        to_dict(config)[part] != to_dict(source)[part]
        for part in ("model", "objectives")
    )


def _made_for(folder: pathlib.Path) -> Any:
    """The request that a finished conversion was made for; None if there is none."""
    path = folder / _REQUEST_FILE
    is_finished = (folder / contents.STATE_FILE).exists() and path.is_file()
    return files.read_json(path) if is_finished else None


def _remove_other(
    folder: pathlib.Path, given: str, argument: str, overwrite: bool
) -> None:
    """Removes the conversion of another model if that is allowed."""
    if not (folder / contents.STATE_FILE).exists():
        return
    # Without a request the writer was killed just before the end.
    before = _made_for(folder)
    if before is not None and not overwrite:
        raise ForeignWeightsError(
            f"`{argument}` must be the one whose conversion {folder} holds, of "
            f"{before['source']}, with the same model. Received: {given}. Choose "
            "another --output_dir, or remove that folder"
        )
    files.remove_folder(folder)
