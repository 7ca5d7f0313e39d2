"""What clients do with each table of `tables`: whether they read its rows, and whether they append to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from tests.support.row_counts import Rows, count_rows
from tools.clients.asking import Question, ask, served
from tools.clients.probe import NOT_CONVERTED

OF_SHARES = "delta-sharing"
"""The client that reads tables from a server, and writes none."""
_EXACT_FLOATS = 2**53
_Verdict = tuple[bool | None, str | None]


class Access(NamedTuple):
    """Whether a client read a table and appended to it, and why not; None where that could not be judged."""

    reads: bool | None
    writes: bool | None
    why_not_read: str | None = None
    why_not_written: str | None = None


def measure(python: Path, client: str, tables: Sequence[Path], work: Path) -> tuple[str, list[Access]]:
    """Return the version of a client, and what it does with tables. One that writes changes them; `work` is empty."""
    contents = [rows_of(path) for path in tables]
    places = [work / f"{number}.arrow" for number in range(len(tables))]
    opened: AbstractContextManager[Sequence[Path | str]]
    opened = served(tables, work) if client == OF_SHARES else nullcontext(tables)
    with opened as addresses:
        asked = zip(addresses, places, contents, strict=True)
        questions = [Question(address, to, like=_types(ours, to)) for address, to, ours in asked]
        version, refusals = ask(python, client, questions)
    read = [
        (None, refusal) if ours is None else _compared(ours, to, refusal, client)
        for ours, to, refusal in zip(contents, places, refusals, strict=True)
    ]
    written: list[_Verdict] = [(None, None)] * len(tables)
    if client != OF_SHARES:
        written = _written(python, client, tables, contents, work)
    return version, [
        Access(reads, writes, why_not, why_not_written)
        for (reads, why_not), (writes, why_not_written) in zip(read, written, strict=True)
    ]


class Content(NamedTuple):
    """The columns and the rows of a table."""

    schema: Any  # Any: pyarrow has no types
    rows: Rows
    batches: list[Any]

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)


def rows_of(path: Path) -> Content | None:
    """Return what deltacli reads in the newest version; None where it reads nothing."""
    try:
        scan = open_table(path, allow_external=[path.parent.as_uri()]).snapshot().scan()
        schema, batches = scan.schema, list(scan)
    except DeltacliError:
        return None
    return Content(schema, count_rows(batches, schema.names), batches)


def _types(ours: Content | None, place: Path) -> Path:
    """Write the types of a table's columns beside `place`, and return where."""
    like = place.with_suffix(".types")
    schema = pa.schema([]) if ours is None else ours.schema
    with pa.OSFile(str(like), "wb") as sink, pa.ipc.new_file(sink, schema):
        return like


def _compared(ours: Content, place: Path, refusal: str | None, client: str) -> _Verdict:
    if refusal is not None:
        return None if refusal.startswith(NOT_CONVERTED) else False, refusal
    with pa.memory_map(str(place)) as source:
        theirs = pa.ipc.open_file(source).read_all()
        if set(ours.names) != set(theirs.schema.names):
            return False, "other columns"
        same = comparable(ours.rows, client) == comparable(count_rows([theirs], ours.names), client)
    if not same and client == OF_SHARES and _is_inexact(ours.rows):
        return None, "integers that pandas has as floats"
    if same and not ours.rows:
        return None, "no rows, which show no wrong value"
    return same, None if same else "other values"


def comparable(rows: Rows, client: str) -> Rows:
    """Return rows without what the types of a client cannot express: chdb has text for binary values, and neither
    null arrays nor null maps and structs; pandas has NaN for null.
    """
    if client not in _WITHOUT:
        return rows
    found: Rows = Rows()
    for row, count in rows.items():
        found[tuple(map(_WITHOUT[client], row))] += count
    return found


def _is_inexact(rows: Rows) -> bool:
    """Return whether a column has a null and an integer with more digits than a float: pandas rounds these."""
    columns = [list(_leaves(column)) for column in zip(*rows, strict=True)]
    return any(
        None in leaves and any(type(one) is int and abs(one) > _EXACT_FLOATS for one in leaves) for leaves in columns
    )


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _without_nan(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_without_nan, value))
    return None if value == "nan" else value


def _without_nulls(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, tuple):
        inner = tuple(_without_nulls(one) for one in value if one != "list")
        return None if all(one is None for one in inner) else inner
    return value


_WITHOUT: Mapping[str, Callable[[object], object]] = {"chdb": _without_nulls, OF_SHARES: _without_nan}


def _written(
    python: Path, client: str, tables: Sequence[Path], before: Sequence[Content | None], work: Path
) -> list[_Verdict]:
    """Return for each table whether a row that was appended to what was in it `before` is in it, and why not."""
    asked, questions = [], []
    for number, (path, content) in enumerate(zip(tables, before, strict=True)):
        if content is None or not content.rows:
            continue
        row = pa.Table.from_batches([one for one in content.batches if one.num_rows][:1]).slice(0, 1)
        place = work / f"{number}.rows.arrow"
        with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_file(sink, row.schema) as writer:
            writer.write_table(row)
        asked.append((number, count_rows([row], content.names)))
        questions.append(Question(path, append=place))
    found: list[_Verdict] = [(None, None)] * len(tables)
    _, refusals = ask(python, client, questions)
    for (number, added), refusal in zip(asked, refusals, strict=True):
        old, new = before[number], rows_of(tables[number])
        assert old is not None
        same = new is not None and new.rows == old.rows + added
        found[number] = same and refusal is None, refusal or (None if same else "another row")
    return found
