"""FLOPs of a training run, counted from its config and from what compiles it.

Matrix products only: a product of an (n, k) and a (k, m) matrix is 2 n k m FLOPs.
Everything else (softmax, LayerNorm, activations, embeddings, the optimizer) is below
one per cent of a model of useful size. Rows are counted at their full length, padding
included, as they are computed. The backward pass is two products for each of the
forward pass, so an update is three times the forward pass. What is recomputed to save
memory is counted by itself: the FLOPs of the model are those by which its utilisation
of a device is measured (MFU; Chowdhery et al., 2022, appendix B).
"""

import dataclasses
import functools
import itertools
import math
from typing import Any

from seg_tf import configuration
from seg_tf.ops import sinusoids
from seg_tf.training import engine

# Of a forward and backward pass to the forward pass alone.
_PASSES = 3
# English running text, for what a language model computes where its text asks for it.
_WORDS_PER_SEGMENT = {"sentence": 25, "paragraph": 120}


@dataclasses.dataclass(frozen=True)
class StreamStatistics:
    """Properties of text that the cost of a Transformer-XL depends on.

    Attributes:
        runs: runs of keys (memory and segment) with equal sentence and paragraph
            index, in the row of a batch that has the most.
        distances: for `sentence` and `paragraph`, the number of different distances
            between queries and runs in a batch.
        tail_shares: for each tail of the adaptive softmax, the share of the target
            words that it holds.
    """

    runs: float
    distances: dict[str, float]
    tail_shares: tuple[float, ...]


_NO_STREAM = StreamStatistics(runs=0, distances={}, tail_shares=())


@dataclasses.dataclass(frozen=True)
class _Setting:
    """Everything that the cost of a part of a model depends on, beside its config."""

    config: configuration.RunConfig
    vocab_size: int
    stream: StreamStatistics

    @property
    def row_length(self) -> int:
        return self.config.inputs.row_length

    @property
    def static_shapes(self) -> bool:
        """True if shapes must not depend on the text, as XLA needs it."""
        return engine.current().compiles(self.config.training)

    @property
    def num_keys(self) -> int:
        """Positions that a row of a Transformer-XL attends to."""
        return self.config.model.memory_length + self.row_length


@dataclasses.dataclass(frozen=True)
class _Cost:
    """FLOPs of a forward pass: those of each row, and those of each micro-batch."""

    of_row: float
    of_batch: float = 0.0

    def __add__(self, other: "_Cost") -> "_Cost":
        return _Cost(self.of_row + other.of_row, self.of_batch + other.of_batch)


def flops_per_update(
    config: configuration.RunConfig,
    vocab_size: int,
    *,
    num_processes: int = 1,
    stream: StreamStatistics | None = None,
) -> int:
    """FLOPs of one update of all processes together: forward and backward pass.

    Args:
        config: the run.
        vocab_size: entries of the vocabulary; a config that has its own in
            `model.vocab_size` has the same.
        num_processes: processes that share the batch. It matters for Transformer-XL
            only, which makes its position vectors once for each micro-batch.
        stream: statistics of the text that a Transformer-XL reads; None takes those
            of English words that are distributed by Zipf's law. Other models do not
            depend on the text.

    Raises:
        ValueError: if the model or an objective is of a kind that is not known here.
    """
    cost = _forward(config, vocab_size, stream)
    return round(_PASSES * _of_update(cost, config, num_processes))


def recomputed_flops_per_update(
    config: configuration.RunConfig, vocab_size: int, *, num_processes: int = 1
) -> int:
    """FLOPs of what the backward passes of an update compute again, in no MFU.

    They are those of the layers, by `training.recompute_layers`, and of attention
    weights that are not held since none is dropped. Backends that hold them save these.

    Args:
        config: the run.
        vocab_size: as for `flops_per_update`.
        num_processes: likewise.

    Raises:
        ValueError: as there.
    """
    run = _setting(config, vocab_size, None)
    cost = _attention_weights_cost(config.model, run)
    if config.training.recompute_layers:
        cost += _layers_cost(config.model, run)
    return round(_of_update(cost, config, num_processes))


def forward_flops(
    config: configuration.RunConfig,
    vocab_size: int,
    num_rows: int,
    stream: StreamStatistics | None = None,
) -> int:
    """FLOPs of the forward pass of `num_rows` rows that are computed at once.

    Args:
        config: the run.
        vocab_size: entries of the vocabulary.
        num_rows: rows.
        stream: as for `flops_per_update`.

    Raises:
        ValueError: as there.
    """
    cost = _forward(config, vocab_size, stream)
    return round(num_rows * cost.of_row + cost.of_batch)


def typical_stream(
    config: configuration.RunConfig, vocab_size: int
) -> StreamStatistics:
    """Statistics of English, for a Transformer-XL on a vocabulary of this size.

    Sentences are 25 words long and paragraphs 120; the word of rank r has a frequency
    proportional to 1 / r.
    """
    model = config.model
    num_keys = model.memory_length + config.inputs.row_length
    distances = {part: 1 + num_keys / n for part, n in _WORDS_PER_SEGMENT.items()}
    limits = (*model.cutoffs, vocab_size)
    return StreamStatistics(
        runs=distances["sentence"],
        distances=distances,
        tail_shares=tuple(
            math.log(end / begin) / (math.log(vocab_size) + 0.5772)
            for begin, end in itertools.pairwise(limits)
        ),
    )


def _of_update(
    cost: _Cost, config: configuration.RunConfig, num_processes: int
) -> float:
    """Cost of all rows and micro-batches of an update."""
    training = config.training
    rows = training.micro_batch_size or training.batch_size / num_processes
    num_micro_batches = math.ceil(training.batch_size / rows)
    return training.batch_size * cost.of_row + num_micro_batches * cost.of_batch


def _forward(
    config: configuration.RunConfig, vocab_size: int, stream: StreamStatistics | None
) -> _Cost:
    run = _setting(config, vocab_size, stream)
    objectives = (
        _objective_cost(objective, run) for objective in config.objectives.values()
    )
    cost = _layers_cost(config.model, run) + _Cost(_between_layers(config.model, run))
    return sum(objectives, cost)


def _setting(
    config: configuration.RunConfig, vocab_size: int, stream: StreamStatistics | None
) -> _Setting:
    vocab_size = config.model.vocab_size or vocab_size
    if stream is None:
        reads_stream = isinstance(config.model, configuration.TransformerXLConfig)
        stream = typical_stream(config, vocab_size) if reads_stream else _NO_STREAM
    return _Setting(config, vocab_size, stream)


@functools.singledispatch
def _layers_cost(model: Any, run: _Setting) -> _Cost:
    """Forward pass of a model's transformer layers."""
    raise ValueError(f"`config.model` has no count of FLOPs. Received: {model}")


@functools.singledispatch
def _objective_cost(objective: Any, run: _Setting) -> _Cost:
    """Forward pass of an objective, from the sequence output to the loss."""
    raise ValueError(f"`config.objectives` has no count of FLOPs for {objective}")


def _product(*sizes: float) -> float:
    """A product of matrices: two FLOPs for each of its multiplications."""
    return 2 * math.prod(sizes)


def _attention(queries: int, keys: int, width: int) -> float:
    """Multi-head attention with four projections; the heads share the width."""
    projections = 2 * _product(queries, width, width) + 2 * _product(keys, width, width)
    return projections + 2 * _product(queries, keys, width)


def _feed_forward(positions: int, width: int, intermediate: int) -> float:
    return 2 * _product(positions, width, intermediate)


def _between_layers(model: Any, run: _Setting) -> float:
    """Forward pass of a row outside the layers: maps from one width to another."""
    if isinstance(model, configuration.ReATConfig):
        return _product(run.row_length, model.hidden_size, model.alpha_hidden_size)
    if isinstance(model, configuration.TransformerXLConfig):
        return run.row_length * _embedding_projections(model)
    return 0.0


def _attention_weights_cost(model: Any, run: _Setting) -> _Cost:
    """Attention weights that the backward pass computes again."""
    if not hasattr(model, "attention_dropout") or configuration.attention_rate(model):
        return _Cost(0)
    length = run.row_length
    if isinstance(model, configuration.EncoderConfig):
        return _Cost(model.num_layers * _product(length, length, model.hidden_size))
    if isinstance(model, configuration.ReATConfig):
        block, sentences = model.block_length, run.config.inputs.sentences_per_row
        widths = model.num_sentence_layers * model.hidden_size
        of_alpha = model.num_alpha_layers * model.alpha_hidden_size
        return _Cost(
            _product(length, block, widths + of_alpha)
            + _product(length, sentences, of_alpha)
        )
    return _Cost(0)  # Transformer-XL holds its own


@_layers_cost.register
def _encoder(model: configuration.EncoderConfig, run: _Setting) -> _Cost:
    length, width = run.row_length, model.hidden_size
    of_layer = _attention(length, length, width)
    # A gated block has a third matrix.
    matrices = 1.5 if model.gated else 1.0
    of_layer += matrices * _feed_forward(length, width, model.intermediate_size)
    return _Cost(model.num_layers * of_layer)


@_layers_cost.register
def _reat(model: configuration.ReATConfig, run: _Setting) -> _Cost:
    length, width = run.row_length, model.hidden_size
    alpha_width = model.alpha_hidden_size
    num_blocks = length // model.block_length

    def inside_sentences(width: int, intermediate: int) -> float:
        of_block = _attention(model.block_length, model.block_length, width)
        return num_blocks * of_block + _feed_forward(length, width, intermediate)

    of_alpha_layer = (
        inside_sentences(alpha_width, model.alpha_intermediate_size)
        + _attention(length, run.config.inputs.sentences_per_row, alpha_width)
        + _feed_forward(length, alpha_width, model.alpha_intermediate_size)
    )
    return _Cost(
        model.num_sentence_layers * inside_sentences(width, model.intermediate_size)
        + model.num_alpha_layers * of_alpha_layer
    )


@_layers_cost.register
def _transformer_xl(model: configuration.TransformerXLConfig, run: _Setting) -> _Cost:
    length, width = run.row_length, model.hidden_size
    inner = model.num_heads * model.head_size
    # Query and output of the segment, keys and values of the memory as well.
    of_layer = 2 * _product(length, width, inner)
    of_layer += 2 * _product(run.num_keys, width, inner)
    of_layer += 2 * _product(length, run.num_keys, inner)
    of_layer += _feed_forward(length, width, model.intermediate_size)
    positions = _relative_positions(run)
    return _Cost(
        model.num_layers * (of_layer + positions.of_row),
        model.num_layers * positions.of_batch,
    )


def _relative_positions(run: _Setting) -> _Cost:
    """The position term of a layer's logits (`seg_tf.ops.relative_logits`)."""
    model, length = run.config.model, run.row_length
    inner = model.num_heads * model.head_size
    parts = model.position_parts
    widths = dict(
        zip(parts, sinusoids.part_widths(model.hidden_size, len(parts)), strict=True)
    )
    every_distance = _product(length, run.num_keys, inner)
    if model.position_form == "released":
        vectors = _product(run.num_keys, model.hidden_size, inner)
        return _Cost(vectors + every_distance)
    cost = _Cost(0)
    if "token" in widths:
        vectors = _product(run.num_keys, widths.pop("token"), inner)
        cost += _Cost(every_distance, vectors)
    if not widths:
        return cost
    if run.static_shapes:
        for width in widths.values():
            products = _product(length, run.num_keys, model.num_heads * width)
            cost += _Cost(_product(length, width, inner) + products)
        return cost
    for part, width in widths.items():
        num_distances = run.stream.distances[part]
        cost += _Cost(
            _product(length, num_distances, inner),
            _product(num_distances, width, inner),
        )
    return cost + _Cost(
        _product(model.num_heads, length, run.num_keys, run.stream.runs)
    )


def _part_widths(model: configuration.TransformerXLConfig) -> list[int]:
    """Widths of the word vectors of head and tails."""
    return [
        model.embedding_size // model.tail_divisor**part
        for part in range(len(model.cutoffs) + 1)
    ]


def _is_projected(model: configuration.TransformerXLConfig) -> bool:
    return model.tail_divisor != 1 or model.embedding_size != model.hidden_size


def _embedding_projections(model: configuration.TransformerXLConfig) -> float:
    """Projections of a position's word vector: of every part where they differ."""
    if not _is_projected(model):
        return 0
    widths = _part_widths(model)
    read = widths if model.tail_divisor != 1 else widths[:1]
    return sum(_product(width, model.hidden_size) for width in read)


@_objective_cost.register
def _masked_lm(objective: configuration.MaskedLMConfig, run: _Setting) -> _Cost:
    model, num_predictions = run.config.model, run.config.inputs.masking.max_predictions
    # The head's dense layer brings a wider sequence to the width of the token table.
    sequence_width = getattr(model, "alpha_hidden_size", model.hidden_size)
    dense = _product(num_predictions, sequence_width, model.hidden_size)
    if getattr(model, "trunk", "bert") == "modern":
        dense = 0
    return _Cost(dense + _product(num_predictions, model.hidden_size, run.vocab_size))


@_objective_cost.register
def _sentence_unshuffling(
    objective: configuration.SentenceUnshufflingConfig, run: _Setting
) -> _Cost:
    width = run.config.model.hidden_size
    num_candidates = run.config.inputs.num_candidates
    num_steps = num_candidates - 1
    of_layer = (
        _attention(num_steps, num_steps, width)
        + _attention(num_steps, num_candidates, width)
        + _feed_forward(num_steps, width, run.config.model.intermediate_size)
    )
    pointers = _product(num_steps, num_candidates, width)
    return _Cost(objective.num_layers * of_layer + pointers)


@_objective_cost.register
def _exchange_sentence(
    objective: configuration.ExchangeSentenceConfig, run: _Setting
) -> _Cost:
    width = run.config.model.alpha_hidden_size
    pooled = _product(run.config.inputs.sentences_per_row, width, width)
    return _Cost(pooled + _product(run.config.inputs.sentences_per_row, width, 2))


@_objective_cost.register
def _causal_lm(objective: configuration.CausalLMConfig, run: _Setting) -> _Cost:
    model, length = run.config.model, run.row_length
    limits = (0, *model.cutoffs, run.vocab_size)
    num_words = [end - begin for begin, end in itertools.pairwise(limits)]
    num_words[0] += len(model.cutoffs)  # the head predicts the tails as well
    # XLA needs shapes that do not depend on the targets: every tail everywhere.
    everywhere = run.static_shapes
    tail_shares = [1.0] * len(model.cutoffs) if everywhere else run.stream.tail_shares
    of_position = 0.0
    for share, words, width in zip(
        (1.0, *tail_shares), num_words, _part_widths(model), strict=True
    ):
        projection = _product(model.hidden_size, width) if _is_projected(model) else 0
        of_position += share * (projection + _product(width, words))
    return _Cost(length * of_position)
