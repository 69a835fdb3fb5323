"""Evaluates a model on downstream data, during or after pretraining."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from seg_tf.checkpoints import contents
from seg_tf.checkpoints.encoder_copies import seeded
from seg_tf.checkpoints.pretrained import Pretrained, assemble
from seg_tf.config import RunConfig
from seg_tf.inference.masked_lm import SentenceScorer, evaluate_minimal_pairs
from seg_tf.inference.sentence_encoder import MEAN, SENT, SentenceEncoder, normalize
from seg_tf.layers.common import under_dtype_policy
from seg_tf.tasks import blimp, similarity, task
from seg_tf.tasks.similarity import SimilaritySet
from seg_tf.text.encoding import VOCABULARY_FILE
from seg_tf.text.vocabulary import Vocabulary, decode_lines
from seg_tf.training.build import Inputs

_PAIRS_PER_FILE = 10


class Probes:
    """Evaluates a model on downstream data during pretraining, without training it.

    `blimp` computes `blimp_accuracy` on the first 10 minimal pairs of each BLiMP file
    (chance is 0.5), like `seg-tf evaluate-grammar --pairs=10`. `sts-b` computes
    `sts_b_spearman`, the rank correlation of cosines with the human scores of STS-B's
    dev set, like `seg-tf evaluate-similarity`. Both use a copy of the model in float32.

    Args:
        config: config of the run. `training.probes` contains `NAME=FOLDER` entries.
        inputs: inputs of the run.

    Call arguments:
        encoder, objectives: the encoder and the dict of objectives being trained.

    Returns:
        A dict that maps the name of each measure to its value.

    Raises:
        ValueError: if an entry is not valid, if the model cannot be measured (BLiMP
            needs a masked LM that reads windows), if the records have no vocabulary,
            or if the engine is not TensorFlow.
        OSError: if a file cannot be read.
    """

    def __init__(self, config: RunConfig, inputs: Inputs):
        text = inputs.text_preparation
        if keras.backend.backend() != "tensorflow" or text is None:
            raise ValueError(
                "`config.training.probes` needs --engine=tensorflow and records with "
                f"a vocabulary. Received: engine {keras.backend.backend()}"
            )
        with under_dtype_policy("float32"), seeded(config.training.seed):
            encoder, objectives = assemble(config, inputs.vocab_size)
        tokens = decode_lines(text.vocabulary, VOCABULARY_FILE)
        self._model = Pretrained(
            encoder=encoder,
            objectives=objectives,
            config=config,
            vocabulary=Vocabulary(tokens, inputs.vocab_checksum, VOCABULARY_FILE),
            tokenizer=text.tokenizer,
            normalization=text.normalization,
            sentence_splitter=text.sentence_splitter,
            folder=pathlib.Path(config.name),
            weights_checksum="",
        )
        kinds = {"blimp": self._grammar, "sts-b": self._similarity}
        self._measures: dict[str, Callable[[], float]] = {}
        for probe in config.training.probes:
            name, _, folder = probe.partition("=")
            if name not in kinds:
                raise ValueError(
                    "`config.training.probes` must contain blimp=FOLDER or "
                    f"sts-b=FOLDER. Received: {probe!r}"
                )
            kinds[name](folder)

    def _grammar(self, folder: str) -> None:
        pairs = blimp.read(folder, _PAIRS_PER_FILE)
        scorer = SentenceScorer(self._model)
        self._measures["blimp_accuracy"] = lambda: evaluate_minimal_pairs(
            scorer, pairs
        )["accuracy"]

    def _similarity(self, folder: str) -> None:
        sets = {"sts-b": similarity.read("sts-b", folder)}
        copy = SentenceEncoder(self._model)

        def measure() -> float:
            copy.encoder.set_weights(self._model.encoder.get_weights())
            return evaluate_similarity(copy, sets)[0]["sts-b"]["spearman"]

        self._measures["sts_b_spearman"] = measure

    def __call__(
        self, encoder: keras.Model, objectives: Mapping[str, Any]
    ) -> dict[str, float]:
        model = self._model
        model.encoder.set_weights(encoder.get_weights())
        for copy, variable in zip(
            contents.objective_variables(model.encoder, model.objectives),
            contents.objective_variables(encoder, objectives),
            strict=True,
        ):
            copy.assign(variable)
        return {name: float(measure()) for name, measure in self._measures.items()}


def evaluate_similarity(
    encoder: SentenceEncoder,
    sets: Mapping[str, SimilaritySet],
    on_progress: Callable[[int], Any] = bool,
) -> tuple[dict[str, dict[str, Any]], int]:
    """Correlates the cosine similarities of sentence pairs with human scores.

    Each sentence is encoded in a separate row. Its vector is the mean of the outputs at
    its word pieces or, for ReAT, its pooled `<SS>`. `on_progress` is called with the
    number of sentences in each finished batch.

    Returns:
        `{set: results}` with `spearman` and `num_pairs` of each set, and the number of
        truncated sentences in all sets.
    """
    pairs = [pair for similarity_set in sets.values() for pair in similarity_set.pairs]
    # A sentence that occurs in several pairs is encoded once.
    sentences = dict.fromkeys(text for pair in pairs for text in pair.texts)
    numbers = {text: number for number, text in enumerate(sentences)}
    kind = MEAN if encoder.layout.holds_spans else SENT
    vectors, num_cut = encoder.encode_rows(
        [(text,) for text in sentences], kind, on_progress
    )
    units = normalize(vectors[:, 0].astype(np.float64))
    results = {}
    for name, similarity_set in sets.items():
        pairs = similarity_set.pairs
        rows = np.array([[numbers[text] for text in pair.texts] for pair in pairs])
        cosines = np.einsum("nd,nd->n", units[rows[:, 0]], units[rows[:, 1]])
        labels = np.array([pair.label for pair in pairs], np.float64)
        spearman = task.spearman(labels, cosines)
        results[name] = {"spearman": spearman, "num_pairs": len(pairs)}
    return results, num_cut
