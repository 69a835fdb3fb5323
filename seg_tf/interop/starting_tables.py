"""Initial index tables with which an encoder equals the model it came from.

Tables that both have are the source's. Those that the source lacks start at zero:
adding them changes nothing. That is enough for BERT with P.S. and for SLM, which keep
BERT's positions. SegaBERT has none: the token index restarts in every sentence. Within
the first sentence of a window it is BERT's position less one, as `[CLS]` shares the
index 0 of the first piece. So row t of the token table becomes BERT's position t + 1,
and the vector of `[CLS]`, which occurs at position 0 alone, absorbs the difference of
the positions 0 and 1. Then SegaBERT equals BERT on windows of one sentence. Of more
sentences it cannot: where a sentence begins is no function of its paragraph and
sentence index.
"""

# Shape key: V vocabulary, R rows of a table, D hidden size.

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from seg_tf.interop.layouts import POSITIONS, TOKEN_TYPES, WORDS, table

_POSITION, _TOKEN = "position_index", "token_index"


@dataclasses.dataclass(frozen=True)
class StartingTables:
    """Tables of an encoder.

    Attributes:
        values: table -> rows, word pieces included.
        sources: table -> how it came about, for people.
        unused: tables of the source that nothing came from.
        missed: those of them that the source computes with.
        equal_for: the windows for which the encoder equals its source, for people;
            empty if there are none.
    """

    values: Mapping[str, np.ndarray]
    sources: Mapping[str, str]
    unused: tuple[str, ...]
    missed: tuple[str, ...]
    equal_for: str


def starting_tables(
    found: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    num_token_types: int,
    vocab_size: int,
    cls_id: int,
    idle: Collection[str] = (),
) -> StartingTables:
    """Makes the tables of an encoder from those of another.

    Args:
        found: the source's tables, by our names.
        index_tables: the encoder's, index feature -> rows.
        num_token_types: rows of the encoder's table of token types; 0 has none.
        vocab_size: rows of its token table; the source has at least as many.
        cls_id: id of `[CLS]`.
        idle: index features whose tables the source holds and never reads.
    """
    words_VD = found[WORDS][:vocab_size]
    values, sources = {WORDS: words_VD}, {WORDS: _rows_text(found[WORDS], vocab_size)}
    of_features = {
        name: rows for name, rows in found.items() if name not in (WORDS, TOKEN_TYPES)
    }
    used = [name.partition("/")[2] for name in of_features]
    # Files of SegaBERT's authors contain unused positions next to the three tables. An
    # encoder with positions and no token index starts from what it has a place for.
    if _POSITION in idle and (_TOKEN in index_tables or _POSITION not in index_tables):
        used.remove(_POSITION)
    elif _POSITION in idle:
        used = [name for name in used if name in index_tables]
    taken = {name for name in used if name in index_tables}
    for feature, rows in index_tables.items():
        name = table(feature)
        if feature in used:
            values[name] = _with_rows(found[name], rows)
            sources[name] = _rows_text(found[name], rows)
        elif feature == _TOKEN and _POSITION in used and _POSITION not in index_tables:
            positions = found[POSITIONS]
            taken.add(_POSITION)
            # The only row of a source of one position repeats.
            second = positions[1:] if len(positions) > 1 else positions
            values[name] = _with_rows(second, rows)
            sources[name] = "positions of the source from 1 on"
            values[WORDS] = words_VD.copy()
            values[WORDS][cls_id] += positions[0] - second[0]
            sources[WORDS] += "; [CLS] with position 0 less position 1 added"
        else:
            values[name] = np.zeros((rows, words_VD.shape[1]), np.float32)
            sources[name] = "zeros"
    if num_token_types:
        zeros = np.zeros((1, words_VD.shape[1]), np.float32)
        types_RD = found.get(TOKEN_TYPES, zeros)
        values[TOKEN_TYPES] = _with_rows(types_RD, num_token_types)
        is_new = TOKEN_TYPES not in found
        text = "zeros" if is_new else _rows_text(types_RD, num_token_types)
        sources[TOKEN_TYPES] = text
    elif TOKEN_TYPES in found:
        # Their first row goes to another table of the encoder.
        names = (_POSITION, _TOKEN, *sorted(index_tables))
        host = table(next(name for name in names if name in index_tables))
        values[host] = values[host] + found[TOKEN_TYPES][0]
        sources[host] += "; row 0 of the token types added"
    unused = tuple(name for name in of_features if name.partition("/")[2] not in taken)
    missed = tuple(name for name in unused if name not in map(table, idle))
    equal_for = ""
    if not missed:
        equal_for = _equal_for(found, index_tables, num_token_types, used)
    return StartingTables(values, sources, unused, missed, equal_for)


def _with_rows(table_RD: np.ndarray, rows: int) -> np.ndarray:
    """The first rows of a table; the last once more for each that it lacks."""
    return table_RD[np.minimum(np.arange(rows), len(table_RD) - 1)]


def _rows_text(table_RD: np.ndarray, rows: int) -> str:
    found = len(table_RD)
    if rows < found:
        return f"{rows:,} of {found:,} rows"
    if rows > found:
        return f"{found:,} rows, the last of them {rows - found:,} times more"
    return f"{found:,} rows"


def _equal_for(
    found: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    num_token_types: int,
    used: Collection[str],
) -> str:
    types = len(found.get(TOKEN_TYPES, ()))
    of_type = " of token type 0" if num_token_types < types and types > 1 else ""
    if num_token_types:
        of_type = of_type and f" of token types below {num_token_types}"
    if set(used) <= set(index_tables):
        rows = {name: len(found[table(name)]) for name in used}
        limits = (
            f"{name} below {min(rows[name], index_tables[name])}" for name in used
        )
        return f"every window{of_type} with {', '.join(limits)}"
    if _TOKEN in index_tables and list(used) == [_POSITION]:
        pieces = min(index_tables[_TOKEN] - 1, len(found[POSITIONS]) - 2)
        if pieces > 0:
            return (
                f"windows{of_type} that hold one sentence from its first piece on, of "
                f"at most {pieces} pieces"
            )
    return ""
