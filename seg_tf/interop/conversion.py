"""Makes a checkpoint of ours from a foreign model."""

import pathlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import keras
import numpy as np

from seg_tf import files, papers
from seg_tf.checkpoints import contents, pretrained
from seg_tf.checkpoints.encoder_copies import under_dtype_policy
from seg_tf.config import RunConfig, follow_source, to_dict
from seg_tf.interop import (
    bert_parts,
    new_folder,
    own_weights,
    part_reading,
    pooler_file,
    target_config,
)
from seg_tf.interop.errors import ForeignWeightsError
from seg_tf.interop.foreign_model import ForeignModel
from seg_tf.interop.import_report import ImportReport
from seg_tf.interop.part_reading import Parts
from seg_tf.interop.pooler_file import Pooler
from seg_tf.interop.starting_tables import StartingTables, starting_tables
from seg_tf.text.encoding import WORD_PIECES, TextPreparation
from seg_tf.text.normalization import CASED, UNCASED, choose_normalization
from seg_tf.text.vocabulary import Vocabulary
from seg_tf.training import engine

REPORT_FILE = "import_report.txt"
# Of masked-LM heads that hold the token table once more.
_OUTPUT_TABLES = ("predictions.decoder.weight", "predictions.decoder_weight")


def convert(
    foreign: ForeignModel,
    output_dir: pathlib.Path,
    config: RunConfig | None = None,
    vocab_file: pathlib.Path | None = None,
    lower_case: bool | None = None,
    asked: Collection[str] | None = None,
    strip_accents: bool | None = None,
    split_ideographs: bool | None = None,
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
        lower_case: whether text has to be lower-cased; None takes what the foreign
            model's files say or, where they do not, what the vocabulary does
            (`seg_tf.text.normalization`).
        asked: paths of the fields of `config` that have to stay, such as
            `model.layer_norm_epsilon`; others that the outputs depend on follow the
            foreign model (`seg_tf.config.follow_source`). None keeps all.
        strip_accents: whether text has to be stripped of accents, as `lower_case`.
        split_ideographs: whether each Chinese character is a word, as `lower_case`.

    Returns:
        What was loaded and what was not.

    Raises:
        ForeignWeightsError: if a tensor is missing, damaged or of another shape, naming
            it, the config is of a model that the weights do not fit, or the
            vocabulary has another size than the foreign config says.
        OSError: if a file cannot be read or written.
        ValueError: if the vocabulary is none, or the folder is in use.
    """
    new_folder.check(output_dir)
    config, taken = _settings(config, foreign, asked)
    given = {
        "lower_case": lower_case,
        "strip_accents": strip_accents,
        "split_ideographs": split_ideographs,
    }
    vocabulary, text = _text(foreign, vocab_file, given)
    vocab_size = config.model.vocab_size or vocabulary.size
    parts = part_reading.read_parts(
        foreign.store,
        foreign.layout,
        own_weights.sizes_of(config.model),
        foreign.tables,
    )
    _check_words(foreign, parts, vocab_size)
    tables = starting_tables(
        parts.values,
        config.model.index_tables,
        config.model.num_token_types,
        vocab_size,
        vocabulary.cls_id,
        foreign.idle_tables,
    )
    encoder, objectives = _build(config, vocab_size)
    assigned = own_weights.assign_parts(
        encoder,
        objectives,
        {**_without_tables(parts, vocab_size), **tables.values},
    )
    report = _report(
        foreign,
        config.model,
        parts,
        tables,
        assigned,
        taken=taken,
        new=_new_weights(encoder, objectives, set(assigned.values())),
        notes=(
            *_vocabulary_notes(parts, vocabulary, vocab_size),
            *(
                [f"text is {text.normalization}"]
                if text.normalization not in (UNCASED, CASED)
                else []
            ),
        ),
    )
    state = _state(config, vocab_size, vocabulary, report) | {"text": text.described()}
    with new_folder.written_aside(output_dir) as aside:
        (aside / REPORT_FILE).write_text(report.to_text() + "\n", encoding="utf-8")
        if report.kept:
            pooler_file.write(aside, _pooler(parts))
        contents.write(aside, encoder, objectives, state, text.files())
    return report


def _settings(
    config: RunConfig | None,
    foreign: ForeignModel,
    asked: Collection[str] | None,
) -> tuple[RunConfig, Mapping[str, tuple[Any, Any]]]:
    """The checked config of the import, and the settings taken from the source."""
    config = config or target_config.own_config(foreign)
    target_config.check_config(config, foreign)
    if asked is None:
        return config, {}
    return follow_source(config, target_config.settings_of(foreign), asked)


def _build(config: RunConfig, vocab_size: int) -> tuple[keras.Model, dict[str, Any]]:
    """Encoder and objectives as a new run of the config would start."""
    keras.utils.set_random_seed(config.training.seed)
    with under_dtype_policy(config.training.dtype_policy):
        return pretrained.assemble(config, vocab_size)


def _text(
    foreign: ForeignModel,
    vocab_file: pathlib.Path | None,
    given: Mapping[str, bool | None],
) -> tuple[Vocabulary, TextPreparation]:
    """The foreign model's vocabulary, and how text becomes pieces of it."""
    path = vocab_file or foreign.vocabulary
    if path is None:
        raise ValueError(
            f"`--vocab_file` must name the vocabulary of {foreign.store.source}, which "
            "has none beside it"
        )
    vocabulary = Vocabulary.from_file(path)
    # Rows alone do not tell: a table may be padded, and a vocabulary another.
    if foreign.vocab_size not in (None, vocabulary.size):
        raise ForeignWeightsError(
            f"`--vocab_file`, or the vocabulary beside the weights, must have as many "
            f"pieces as `vocab_size` in the config of {foreign.store.source} says, "
            f"{foreign.vocab_size}. Received: {path}, of {vocabulary.size} pieces"
        )
    given = {name: value for name, value in given.items() if value is not None}
    normalization = choose_normalization(
        vocabulary, **{**foreign.normalization, **given}
    )
    return vocabulary, TextPreparation(
        path.read_bytes(),
        normalization,
        foreign.sentence_splitter,
        WORD_PIECES,
        foreign.sentence_parameters,
    )


def _report(
    foreign: ForeignModel,
    model: Any,
    parts: Parts,
    tables: StartingTables,
    assigned: Mapping[str, str],
    *,
    taken: Mapping[str, tuple[Any, Any]],
    new: tuple[str, ...],
    notes: tuple[str, ...],
) -> ImportReport:
    tied, tied_notes = _tied(foreign, parts)
    # Of a head that the config has no objective for.
    untaken = [
        part
        for part in parts.values
        if bert_parts.group_of(part) == bert_parts.MASKED_LM and part not in assigned
    ]
    unmatched = _names(parts, (*tables.unused, *untaken), parts.unmatched)
    return ImportReport(
        format=foreign.format,
        source=foreign.store.source,
        checksums={path.name: files.checksum(path) for path in foreign.files},
        loaded={
            path: parts.names[part]
            for part, path in assigned.items()
            if bert_parts.group_of(part) != "tables"
        },
        tables={assigned[part]: how for part, how in tables.sources.items()},
        new=new,
        unmatched=tuple(name for name in unmatched if name != tied),
        missed=_names(parts, tables.missed, parts.missed),
        kept=_kept(parts),
        taken=taken,
        settings=target_config.differing_settings(model, foreign),
        notes=(*foreign.notes, *notes, *tied_notes),
        equal_for="" if parts.missed else tables.equal_for,
    )


def _without_tables(parts: Parts, vocab_size: int) -> dict[str, np.ndarray]:
    """Parts that go to weights of ours as they are."""
    bias = f"{bert_parts.MASKED_LM}/output_bias"
    return {
        part: value[:vocab_size] if part == bias else value
        for part, value in parts.values.items()
        if bert_parts.group_of(part) != "tables"
    }


def _new_weights(
    encoder: keras.Model, objectives: Mapping[str, Any], assigned: set[str]
) -> tuple[str, ...]:
    """Weights that nothing was loaded into."""
    known = own_weights.variables_of(encoder, objectives)
    of_source = {id(known[path]) for path in assigned}
    return tuple(
        variable.path
        for variable in (
            *encoder.weights,
            *contents.objective_variables(encoder, objectives),
        )
        if variable.trainable and id(variable) not in of_source
    )


def _tied(foreign: ForeignModel, parts: Parts) -> tuple[str | None, tuple[str, ...]]:
    """The output copy of the token table, if there is one, and notes on it."""
    for name in parts.unmatched:
        if name.endswith(_OUTPUT_TABLES):
            if np.array_equal(foreign.store.read(name), parts.values[bert_parts.WORDS]):
                return name, ()
            return None, (
                f"{name} differs from the token table, and our masked-LM head computes "
                "with the latter: predictions of masked pieces are not the source's",
            )
    return None, ()


def _check_words(foreign: ForeignModel, parts: Parts, vocab_size: int) -> None:
    table = parts.values[bert_parts.WORDS]
    if len(table) < vocab_size:
        raise ForeignWeightsError(
            f"{foreign.store.source}: the tensor {parts.names[bert_parts.WORDS]!r} "
            "must have a row for each piece of the vocabulary, the shape "
            f"({vocab_size} or more, {table.shape[1]}). Found: "
            f"{part_reading.shape_text(table.shape)}"
        )


def _pooler(parts: Parts) -> Pooler:
    return Pooler(
        *(parts.values[f"{bert_parts.POOLER}/{name}"] for name in Pooler._fields)
    )


def _names(
    parts: Parts, of_parts: Iterable[str], others: Iterable[str]
) -> tuple[str, ...]:
    """The tensors of parts, and others, in order."""
    return tuple(sorted({*others, *(parts.names[part] for part in of_parts)}))


def _kept(parts: Parts) -> dict[str, str]:
    if f"{bert_parts.POOLER}/kernel" not in parts.values:
        return {}
    return {
        pooler_file.POOLER_FILE: "the pooler of [CLS], which our encoders do without"
    }


def _vocabulary_notes(
    parts: Parts, vocabulary: Vocabulary, vocab_size: int
) -> tuple[str, ...]:
    rows = len(parts.values[bert_parts.WORDS])
    if rows <= vocab_size:
        return ()
    return (
        f"the vocabulary has {vocabulary.size:,} pieces and the source {rows:,} rows: "
        f"{rows - vocab_size:,} rows of padding are dropped, which also took part in "
        "the softmax of masked LM",
    )


def _state(
    config: RunConfig,
    vocab_size: int,
    vocabulary: Vocabulary,
    report: ImportReport,
) -> dict[str, Any]:
    """Content of the checkpoint's `state.json`."""
    return {
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
    }
