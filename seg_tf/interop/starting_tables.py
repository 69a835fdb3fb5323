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

from seg_tf.interop import bert_parts

_POSITION = "position_index"
_TOKEN = "token_index"


@dataclasses.dataclass(frozen=True)
class StartingTables:
    """Tables of an encoder, by the names of their parts.

    Attributes:
        values: the tables, that of word pieces too.
        sources: how each came about, for people.
        unused: parts of the source that nothing came from.
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
        found: the source's tables by the names of their parts.
        index_tables: the encoder's, index feature -> rows.
        num_token_types: rows of the encoder's table of token types; 0 has none.
        vocab_size: rows of its token table, of which the source has so many or more.
        cls_id: id of `[CLS]`.
        idle: index features whose tables the source holds and never reads.
    """
    words_VD = found[bert_parts.WORDS][:vocab_size]
    values = {bert_parts.WORDS: words_VD}
    sources = {bert_parts.WORDS: _rows_text(found[bert_parts.WORDS], vocab_size)}
    used = _used_tables(found, index_tables, idle)
    for feature, rows in index_tables.items():
        part = bert_parts.table(feature)
        if feature in used:
            values[part] = _with_rows(found[part], rows)
            sources[part] = _rows_text(found[part], rows)
        elif feature == _TOKEN and _POSITION in used and _POSITION not in index_tables:
            positions = found[bert_parts.POSITIONS]
            # The last row repeats for a source of one position alone.
            values[part] = _with_rows(
                positions[1:] if len(positions) > 1 else positions, rows
            )
            sources[part] = "positions of the source from 1 on"
            values[bert_parts.WORDS] = _shifted_cls(words_VD, positions, cls_id)
            sources[bert_parts.WORDS] += "; [CLS] with position 0 less position 1 added"
        else:
            values[part] = np.zeros((rows, words_VD.shape[1]), np.float32)
            sources[part] = "zeros"
    _add_token_types(found, num_token_types, index_tables, values, sources)
    unused = _unused(found, index_tables, used)
    missed = tuple(part for part in unused if part not in map(bert_parts.table, idle))
    return StartingTables(
        values,
        sources,
        unused=unused,
        missed=missed,
        equal_for=(
            "" if missed else _equal_for(found, index_tables, num_token_types, used)
        ),
    )


def _unused(
    found: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    used: tuple[str, ...],
) -> tuple[str, ...]:
    taken = {bert_parts.table(name) for name in used if name in index_tables}
    if _POSITION in used and _TOKEN not in used and _TOKEN in index_tables:
        taken.add(bert_parts.POSITIONS)
    always = {bert_parts.WORDS, bert_parts.TOKEN_TYPES}
    return tuple(
        part
        for part in found
        if bert_parts.group_of(part) == "tables" and part not in taken | always
    )


def _used_tables(
    found: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    idle: Collection[str],
) -> tuple[str, ...]:
    """Index features whose tables the encoder takes from the source.

    A file of SegaBERT's authors holds idle positions beside the three of SegaBERT. An
    encoder with positions and no token index starts from what it has a place for.
    """
    known = {bert_parts.WORDS, bert_parts.TOKEN_TYPES}
    used = [
        part.removeprefix(bert_parts.table(""))
        for part in found
        if bert_parts.group_of(part) == "tables" and part not in known
    ]
    if _POSITION not in idle:
        return tuple(used)
    if _TOKEN in index_tables or _POSITION not in index_tables:
        return tuple(name for name in used if name != _POSITION)
    return tuple(name for name in used if name in index_tables)


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


def _shifted_cls(
    words_VD: np.ndarray, positions_RD: np.ndarray, cls_id: int
) -> np.ndarray:
    words_VD = words_VD.copy()
    words_VD[cls_id] += positions_RD[0] - positions_RD[min(1, len(positions_RD) - 1)]
    return words_VD


def _add_token_types(
    found: Mapping[str, np.ndarray],
    num_token_types: int,
    index_tables: Mapping[str, int],
    values: dict[str, np.ndarray],
    sources: dict[str, str],
) -> None:
    """Gives the encoder token types, or their first row to another of its tables."""
    width = values[bert_parts.WORDS].shape[1]
    part = bert_parts.TOKEN_TYPES
    types_RD = found.get(part, np.zeros((1, width), np.float32))
    if num_token_types:
        values[part] = _with_rows(types_RD, num_token_types)
        sources[part] = (
            _rows_text(types_RD, num_token_types) if part in found else "zeros"
        )
    elif part in found:
        names = (_POSITION, _TOKEN, *sorted(index_tables))
        host = bert_parts.table(next(name for name in names if name in index_tables))
        values[host] = values[host] + types_RD[0]
        sources[host] += "; row 0 of the token types added"


def _equal_for(
    found: Mapping[str, np.ndarray],
    index_tables: Mapping[str, int],
    num_token_types: int,
    used: tuple[str, ...],
) -> str:
    types = len(found.get(bert_parts.TOKEN_TYPES, ()))
    of_type = " of token type 0" if num_token_types < types and types > 1 else ""
    if num_token_types:
        of_type = of_type and f" of token types below {num_token_types}"
    if set(used) <= set(index_tables):
        rows = {name: len(found[bert_parts.table(name)]) for name in used}
        limits = [
            f"{name} below {min(rows[name], index_tables[name])}" for name in used
        ]
        return f"every window{of_type} with {', '.join(limits)}"
    if _TOKEN in index_tables and used == (_POSITION,):
        pieces = min(index_tables[_TOKEN] - 1, len(found[bert_parts.POSITIONS]) - 2)
        if pieces > 0:
            return (
                f"windows{of_type} that hold one sentence from its first piece on, of "
                f"at most {pieces} pieces"
            )
    return ""
