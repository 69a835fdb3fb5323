"""Initial index tables with which an encoder equals the model it came from.

Tables that both have are copied. Tables that the source lacks start at zero, which
changes nothing. That is sufficient for BERT with P.S. and for SLM, which keep BERT's
positions. SegaBERT has none: its token index restarts in every sentence. Within the
first sentence of a window it is BERT's position less one, as `[CLS]` shares index 0
with the first piece. So row t of the token table becomes BERT's position t + 1, and the
vector of `[CLS]`, which occurs at position 0 only, absorbs the difference of the
positions 0 and 1. SegaBERT then equals BERT on windows of one sentence. On several
sentences it cannot: the start of a sentence is no function of its paragraph and
sentence index.
"""

# Shape key: V vocabulary, R rows of a table, D hidden size.

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from seg_tf.interop.tensor_names import POSITIONS, TOKEN_TYPES, WORDS, table

_POSITION, _TOKEN = "position_index", "token_index"


@dataclasses.dataclass(frozen=True)
class StartingTables:
    """Tables of an encoder.

    Attributes:
        values: table -> rows, word pieces included.
        origins: table -> its origin, for the report.
        unused: tables of the source that nothing was taken from.
        missing: the unused tables that the source computes with.
        equal_for: the windows for which the encoder equals its source, if any.
    """

    values: Mapping[str, np.ndarray]
    origins: Mapping[str, str]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    equal_for: str


def starting_tables(
    source: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    num_token_types: int,
    vocab_size: int,
    cls_id: int,
    idle: Collection[str] = (),
) -> StartingTables:
    """Returns the tables of an encoder, derived from another model's.

    Args:
        source: the other model's tables, by our names.
        index_tables: the encoder's, index feature -> rows.
        num_token_types: rows of the encoder's table of token types; 0 has none.
        vocab_size: rows of the encoder's token table, at most the source's.
        cls_id: id of `[CLS]`.
        idle: index features whose tables the source never reads.
    """
    words_VD = source[WORDS][:vocab_size]
    values = {WORDS: words_VD}
    origins = {WORDS: _describe_rows(source[WORDS], vocab_size)}
    features = [
        name.partition("/")[2] for name in source if name not in (WORDS, TOKEN_TYPES)
    ]
    used = list(features)
    # Files of SegaBERT's authors contain idle positions next to the three tables. Only
    # an encoder with positions and no token index starts from them.
    if _POSITION in idle and (_TOKEN in index_tables or _POSITION not in index_tables):
        used.remove(_POSITION)
    elif _POSITION in idle:
        used = [feature for feature in used if feature in index_tables]
    shared = {feature for feature in used if feature in index_tables}
    for feature, rows in index_tables.items():
        name = table(feature)
        if feature in used:
            values[name] = _resize(source[name], rows)
            origins[name] = _describe_rows(source[name], rows)
        elif feature == _TOKEN and _POSITION in used and _POSITION not in index_tables:
            positions = source[POSITIONS]
            shared.add(_POSITION)
            # A single position is repeated.
            later = positions[1:] if len(positions) > 1 else positions
            values[name] = _resize(later, rows)
            origins[name] = "the source's positions from 1 on"
            values[WORDS] = words_VD.copy()
            values[WORDS][cls_id] += positions[0] - later[0]
            origins[WORDS] += "; position 0 less position 1 added to [CLS]"
        else:
            values[name] = np.zeros((rows, words_VD.shape[1]), np.float32)
            origins[name] = "zeros"
    if num_token_types:
        types_RD = source.get(TOKEN_TYPES, np.zeros_like(words_VD[:1]))
        values[TOKEN_TYPES] = _resize(types_RD, num_token_types)
        origins[TOKEN_TYPES] = "zeros"
        if TOKEN_TYPES in source:
            origins[TOKEN_TYPES] = _describe_rows(types_RD, num_token_types)
    elif TOKEN_TYPES in source:
        # Another table includes type 0.
        choices = (_POSITION, _TOKEN, *sorted(index_tables))
        host = table(next(name for name in choices if name in index_tables))
        values[host] = values[host] + source[TOKEN_TYPES][0]
        origins[host] += "; row 0 of the token types added"
    unused = tuple(table(feature) for feature in features if feature not in shared)
    missing = tuple(name for name in unused if name not in map(table, idle))
    equal_for = ""
    if not missing:
        equal_for = _equal_for(source, index_tables, num_token_types, used)
    return StartingTables(values, origins, unused, missing, equal_for)


def _resize(table_RD: np.ndarray, rows: int) -> np.ndarray:
    """The first rows of a table, with the last repeated as needed."""
    return table_RD[np.minimum(np.arange(rows), len(table_RD) - 1)]


def _describe_rows(table_RD: np.ndarray, rows: int) -> str:
    available = len(table_RD)
    if rows < available:
        return f"{rows:,} of {available:,} rows"
    if rows > available:
        return f"{available:,} rows, the last repeated {rows - available:,} times"
    return f"{available:,} rows"


def _equal_for(
    source: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    num_token_types: int,
    used: Collection[str],
) -> str:
    num_types, types = len(source.get(TOKEN_TYPES, ())), ""
    if num_token_types < num_types and num_types > 1:
        types = " of token type 0"
        if num_token_types:
            types = f" of token types below {num_token_types}"
    if set(used) <= set(index_tables):
        limits = {
            name: min(len(source[table(name)]), index_tables[name]) for name in used
        }
        conditions = (f"{name} below {limit}" for name, limit in limits.items())
        return f"every window{types} with {', '.join(conditions)}"
    if _TOKEN in index_tables and list(used) == [_POSITION]:
        pieces = min(index_tables[_TOKEN] - 1, len(source[POSITIONS]) - 2)
        if pieces > 0:
            return (
                f"windows{types} with one sentence, from its first piece on, of at "
                f"most {pieces} pieces"
            )
    return ""
