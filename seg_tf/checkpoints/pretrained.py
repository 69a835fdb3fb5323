"""Loads models from checkpoints, to apply them to text or to start new runs."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

# Importing these modules registers the classes that checkpoint configs name.
import seg_tf.data.inputs
import seg_tf.models
import seg_tf.objectives  # noqa: F401
from seg_tf import features
from seg_tf.checkpoints import contents, folders, weight_files
from seg_tf.checkpoints.weight_files import CheckpointError, reading
from seg_tf.config import (
    RunConfig,
    build_from,
    differing_settings,
    from_config_dict,
    to_dict,
)
from seg_tf.config.base import check_choice, typed
from seg_tf.layouts.layout import Layout
from seg_tf.text import encoding
from seg_tf.text.encoding import SENTENCE_PARAMETERS_FILE, VOCABULARY_FILE
from seg_tf.text.normalization import Normalization, choose_normalization
from seg_tf.text.punkt import Splitter
from seg_tf.text.punkt_parameters import PunktParameters
from seg_tf.text.splitters import SentenceParameters, make_splitter, read_parameters
from seg_tf.text.vocabulary import TokenTable


def load_encoder(checkpoint_dir: str | pathlib.Path) -> tuple[keras.Model, RunConfig]:
    """Loads a checkpoint's encoder and the config of its run.

    Args:
        checkpoint_dir: str or path. A checkpoint folder, a run's output folder, or the
            name of an included model.

    Raises:
        CheckpointError: if there is no checkpoint or it is damaged.

    Example:
    ```
    encoder, config = load_encoder("runs/segabert_tiny")
    sequence = encoder({name: batch[name] for name in encoder.feature_names})
    ```
    """
    folder = folders.find_checkpoint(pathlib.Path(checkpoint_dir))
    state = contents.read_state(folder)
    contents.check(folder, state, [contents.ENCODER_FILE])
    config = read_config(folder, state)
    encoder, _ = _build(folder, dataclasses.replace(config, objectives={}), state)
    weight_files.load_hdf5(folder / contents.ENCODER_FILE, encoder)
    return encoder, config


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A checkpoint's model and its text preprocessing.

    Attributes:
        encoder: the encoder with its weights. If it has a token type table, it reads
            the feature `token_type`.
        objectives: the objectives by name, with their weights.
        config: the run's config.
        vocabulary: the vocabulary of word pieces or words.
        tokenizer: a key of `seg_tf.text.encoding.TOKENIZERS`.
        normalization: the normalization applied to text before tokenization.
        sentence_splitter: name and checksum of the run's splitter, empty if unknown.
        folder: the checkpoint folder.
        weights_checksum: SHA-256 of the file with the encoder's weights.
        sentence_parameters: tables or function of the sentence splitter.
        finetuning_learning_rate: the recommended learning rate, or None.
        new_weights: paths of the weights that an import initialized at random.
    """

    encoder: keras.Model
    objectives: Mapping[str, Any]
    config: RunConfig
    vocabulary: TokenTable
    tokenizer: str
    normalization: Normalization
    sentence_splitter: Mapping[str, Any]
    folder: pathlib.Path
    weights_checksum: str
    sentence_parameters: SentenceParameters = dataclasses.field(
        default_factory=PunktParameters.english, repr=False
    )
    finetuning_learning_rate: float | None = None
    new_weights: tuple[str, ...] = ()

    def text_encoder(self) -> Any:
        """Returns an encoder that converts text to token ids and back."""
        return encoding.text_encoder(
            self.tokenizer, self.vocabulary, self.normalization
        )

    def splitter(self) -> Splitter:
        """Returns the `Splitter` that splits paragraphs into sentences."""
        return make_splitter(self.sentence_parameters)

    def objective(self, kind: type, described: str) -> Any:
        """Returns the objective of class `kind`.

        Raises ValueError if there is none. `described` names the kind of model needed.
        """
        for objective in self.objectives.values():
            if isinstance(objective, kind):
                return objective
        raise ValueError(
            f"`checkpoint` must be of {described}. Received: {self.folder}, whose "
            f"objectives are {', '.join(self.objectives) or 'none'}"
        )

    def layout(
        self, max_length: int | None = None, *, for_spans: bool = False
    ) -> Layout:
        """Returns the layout of the model's rows, or raises ValueError if it has none.

        Args:
            max_length: int. Maximum number of positions per example. If None, the
                length used in pretraining.
            for_spans: bool. Whether rows contain a question and its context. If the
                model cannot read both in one row, raises ValueError.
        """
        inputs = self.config.inputs
        layout_class = type(inputs).implementation.layout
        if layout_class is None:
            raise ValueError(
                "`checkpoint` must be of an encoder of texts (BERT, SegaBERT, SLM, "
                f"ReAT). Received: {self.folder}, the run {self.config.name!r}"
            )
        layout: Layout = layout_class(inputs, self.encoder, self.vocabulary, max_length)
        if not for_spans:
            return layout
        if not layout.holds_spans:
            raise ValueError(
                "`checkpoint` must be of a model that reads question and context in "
                f"one window (BERT, SegaBERT, SLM). Received: {self.folder}, the run "
                f"{self.config.name!r}"
            )
        return layout.for_spans()


def load_pretrained(
    checkpoint_dir: str | pathlib.Path,
    model_settings: Mapping[str, Any] | None = None,
    sentence_function: str | None = None,
) -> Pretrained:
    """Loads a checkpoint's model with its text preprocessing.

    Args:
        checkpoint_dir: str or path. See `load_encoder`.
        model_settings: dict. Fields of the model's config to change, such as
            `memory_length`. They must not affect any weight.
        sentence_function: str. `module:function`. If the checkpoint's sentence splitter
            is a Python function, it only runs if it is also named here.

    Raises:
        CheckpointError: if there is no checkpoint, it is damaged or lacks a vocabulary,
            or `model_settings` do not fit its model.
        ValueError: if the checkpoint names a function other than `sentence_function`.
    """
    folder = folders.find_checkpoint(pathlib.Path(checkpoint_dir))
    state = folders.read(folder)
    with reading(folder / contents.STATE_FILE, "not valid"):
        described = state.get("text") or {}
        text = {name: value for name, value in described.items() if value is not None}
        splitter = dict(text.get("sentence_splitter", {}))
        tokenizer = text.get("tokenizer", encoding.WORD_PIECES)
        check_choice("tokenizer", tokenizer, encoding.TOKENIZERS)
        vocabulary = _vocabulary(folder, state, tokenizer)
        if "lower_case" in text:
            normalization = Normalization.from_described(text)
        else:
            normalization = choose_normalization(vocabulary)
        config = read_config(folder, state)
        for name, value in (model_settings or {}).items():
            if name not in {field.name for field in dataclasses.fields(config.model)}:
                raise CheckpointError(
                    f"`{name}` must be a setting of the checkpoint's model. Received: "
                    f"{name}={value}, and {folder}, a {type(config.model).__name__}"
                )
            model = dataclasses.replace(config.model, **{name: value})
            config = dataclasses.replace(config, model=model)
    encoder, objectives = _build(folder, config, state)
    contents.restore(folder, encoder, objectives, cast=True)
    return Pretrained(
        encoder=encoder,
        objectives=objectives,
        config=config,
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        normalization=normalization,
        sentence_splitter=splitter,
        folder=folder,
        weights_checksum=state["checksums"][contents.ENCODER_FILE],
        sentence_parameters=_sentence_parameters(
            folder, splitter, state, sentence_function
        ),
        finetuning_learning_rate=state.get("finetuning_learning_rate"),
        new_weights=tuple((state.get("imported") or {}).get("new", ())),
    )


def differing_models(before: RunConfig, now: RunConfig) -> list[str]:
    """Lists differing settings of model and objectives on which weights depend."""
    free = {"model.dropout", "model.attention_dropout", "model.initializer_range"}
    free |= {f"objectives.{name}.loss_weight" for name in now.objectives}
    old, new = (
        {part: to_dict(run)[part] for part in ("model", "objectives")}
        for run in (before, now)
    )
    return differing_settings(old, new, free)


def restore_weights(
    folder: pathlib.Path,
    encoder: keras.Model,
    objectives: Mapping[str, Any],
    config: RunConfig,
    vocabulary: Mapping[str, Any],
) -> None:
    """Loads the weights in a checkpoint into a new run's encoder and objectives.

    `vocabulary` has the run's `vocab_size` and `vocab_checksum`. Raises CheckpointError
    if the checkpoint is damaged, or its model, objectives or vocabulary differ.
    """
    state = folders.read(folder)
    before, now = (
        {name: words.get(name) for name in ("vocab_size", "vocab_checksum")}
        for words in (state, vocabulary)
    )
    differences = differing_models(read_config(folder, state), config)
    if differences := [*differences, *differing_settings(before, now)]:
        raise CheckpointError(
            f"{folder}: its weights belong to another model. It differs in "
            + "; ".join(differences)
            + ". `seg-tf import-weights` transfers the weights that both models have"
        )
    contents.restore(folder, encoder, objectives)


def build_encoder(model: Any, vocab_size: int) -> keras.Model:
    """Builds a newly initialized encoder from a model config, not for pretraining.

    If it has a token type table, it reads the feature `token_type`. Pretraining does
    not need this feature, because each row contains a single text.
    """
    has_types = getattr(model, "num_token_types", 0) > 0
    extra = {"reads_token_types": True} if has_types else {}
    return build_from(model, vocab_size=vocab_size, **extra)


def assemble(config: RunConfig, vocab_size: int) -> tuple[keras.Model, dict[str, Any]]:
    """Builds a run's encoder and objectives, and creates all of their weights."""
    encoder = build_encoder(config.model, vocab_size)
    objectives = {
        name: build_from(objective, encoder=encoder)
        for name, objective in config.objectives.items()
    }
    # A batch with every feature. Block encoders need rows of at least one block.
    length = getattr(encoder, "block_length", 2)
    sizes = {"B": 1, "L": length, "P": 1, "C": 3, "S": 2, "N": 2}
    specs = features.tensor_specs(features.FEATURES, sizes)
    batch = {name: tf.zeros(shape, dtype) for name, (shape, dtype) in specs.items()}
    output = encoder(batch, training=False)
    # A model with memory also returns the memory.
    sequence_output = output[0] if isinstance(output, tuple) else output
    for objective in objectives.values():
        objective(sequence_output, batch, training=False)
    return encoder, objectives


def read_config(folder: pathlib.Path, state: Mapping[str, Any]) -> RunConfig:
    """Returns the run's config in a checkpoint's state, or raises CheckpointError."""
    with reading(folder / contents.STATE_FILE, "`config` is not valid"):
        config = from_config_dict(state["config"])
        return typed("config", config, RunConfig)


def _build(
    folder: pathlib.Path, config: RunConfig, state: Mapping[str, Any]
) -> tuple[keras.Model, dict[str, Any]]:
    """Calls `assemble`. Raises CheckpointError if weight files are too small for it."""
    path = folder / contents.STATE_FILE
    with reading(path, "`config` is not a valid model"):
        vocab_size = typed("vocab_size", state.get("vocab_size"), int)
        claims = [("model", config.model, vocab_size, contents.ENCODER_FILE)]
        width = getattr(config.model, "hidden_size", 1)
        for name, objective in config.objectives.items():
            file = contents.TRAINING_STATE_FILE
            claims.append((f"objectives.{name}", objective, width, file))
        for name, part, size, file in claims:
            least = part.least_weights(size) if hasattr(part, "least_weights") else 0
            # In half precision, a weight takes two bytes.
            most = weight_files.MAX_COMPRESSION * (folder / file).stat().st_size // 2
            if least > most:
                raise CheckpointError(
                    f"{path}: `config.{name}` must match {file}, which has at most "
                    f"{most:,} weights. Received: settings that need at least {least:,}"
                )
        return assemble(config, vocab_size)


def _vocabulary(
    folder: pathlib.Path, state: Mapping[str, Any], tokenizer: str
) -> TokenTable:
    path, expected = folder / VOCABULARY_FILE, state.get("vocab_checksum")
    if VOCABULARY_FILE not in state["checksums"]:
        raise CheckpointError(
            f"{folder}: the checkpoint has no {VOCABULARY_FILE}, because its records "
            "had none"
        )
    try:
        vocabulary = encoding.read_vocabulary(tokenizer, path)
    except (OSError, ValueError) as error:
        raise CheckpointError(str(error)) from error
    if vocabulary.checksum != expected:
        raise CheckpointError(
            f"{path}: must be the vocabulary of the run, whose sha256 is {expected}. "
            f"Received: a vocabulary whose sha256 is {vocabulary.checksum}"
        )
    return vocabulary


def _sentence_parameters(
    folder: pathlib.Path,
    splitter: Mapping[str, Any],
    state: Mapping[str, Any],
    sentence_function: str | None,
) -> SentenceParameters:
    if SENTENCE_PARAMETERS_FILE not in state["checksums"]:
        return PunktParameters.english()
    path = folder / SENTENCE_PARAMETERS_FILE
    parameters = read_parameters(path, sentence_function)
    expected = splitter.get("parameters_sha256") or parameters.checksum
    if parameters.checksum != expected:
        raise CheckpointError(
            f"{path}: must be the parameters of the run, whose sha256 is {expected}. "
            f"Received: {parameters.name}, whose sha256 is {parameters.checksum}"
        )
    return parameters
