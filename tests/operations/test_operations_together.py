"""Operations of many kinds, one after the other, on one table: each version has the rows of a model, its changes are
what differs, and `validate` finds no error.

Each operation has tests of its own. Here it finds what the others have left: statistics without a column, files from
before a rename, a log that begins at a checkpoint, a type that a restore made narrow again.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.changing.commit import commit
from deltacli.core.errors import DeltacliError
from deltacli.storage import open_storage
from tests.support.altering import table_of
from tests.support.appending import append
from tests.support.effort import is_soaking
from tests.support.file_commits import live_files, remove_of, request_of
from tests.support.row_counts import Rows, count_rows
from tests.support.small_types import Array, Column, Map, Row, Struct, arrow_type, shown, wider
from tests.support.small_values import some_row
from tests.support.small_vectors import inline

SEEDS = range(300) if is_soaking() else range(2)
STEPS = 30
DAY_MS = 86_400_000
START_MS = 2_000_000_000_000
"""After the times of the files."""
TYPES = (
    *("byte", "short", "integer", "long", "float", "double", "string", "boolean", "date", "timestamp", "binary"),
    *("decimal(5,2)", "decimal(18,0)", "struct<x: integer, y: string>", "array<integer>", "map<string,integer>"),
)
SETTINGS: Sequence[dict[str, str]] = (
    {"delta.checkpoint.writeStatsAsStruct": "true"},
    {"delta.parquet.compression.codec": "gzip"},
    {"delta.dataSkippingNumIndexedCols": "0"},
    {"delta.dataSkippingNumIndexedCols": "-1"},
    {"delta.randomizeFilePrefixes": "true"},
    {"delta.enableChangeDataFeed": "true"},
)
CHECKPOINTS: Sequence[dict[str, Any]] = (
    {},
    {"layout": "multi-part", "parts": 3},
    {"layout": "v2"},
    {"stats": "struct"},
)
EXPECTED = {
    *("alter.clustering-column", "alter.clustering-statistics", "alter.mapping-needed", "alter.name"),
    *(
        "alter.partitioned",
        "checkpoint.multipart-forbidden",
        "checkpoint.several-forms",
        "checkpoint.v2-without-feature",
        "features.not-present",
    ),
    *(
        "log.gap",
        "optimize.clustered",
        "optimize.not-clustered",
        "properties.feature-needed",
        "restore.file-missing",
        "restore.row-ids",
    ),
    *("table.version-absent", "usage.column"),
}
"""Codes of refusals that a table in such a state deserves; any other error is a fault."""


@dataclass
class Described:
    """What a version must have."""

    columns: tuple[Column, ...]
    rows: dict[int, Row]

    def counted(self) -> Rows:
        names = [column.name for column in self.columns]
        rows = [shown(row, Struct(self.columns)) for row in self.rows.values()]
        arrays = [
            pa.array([row[number] for row in rows], arrow_type(one.type)) for number, one in enumerate(self.columns)
        ]
        return count_rows([pa.Table.from_arrays(arrays, names=names)], names)


@dataclass
class Together:
    """A table and the model of all its versions that can be read. `now` is its clock."""

    place: str
    chooser: random.Random
    columns: tuple[Column, ...]
    rows: dict[int, Row] = field(default_factory=dict)
    versions: dict[int, Described] = field(default_factory=dict)
    next_row: int = 0
    next_column: int = 100
    dropped: list[str] = field(default_factory=list)
    now: int = START_MS
    steps: list[str] = field(default_factory=list)

    @property
    def table(self) -> Table:
        """The table, a minute later."""
        self.now += 60_000
        now = self.now
        return Table(open_storage(self.place), clock=lambda: now)

    def step(self) -> None:
        """Do one thing, and look at the newest version."""
        operation = self.chooser.choice(OPERATIONS)
        self.steps.append(operation.__name__)
        try:
            operation(self)
        except DeltacliError as refusal:
            if refusal.code not in EXPECTED:
                raise
            self.steps[-1] += f": {refusal.code}"
        self.require_rows(self.note())

    def note(self) -> int:
        """Describe what was committed since the last call, and return the newest version."""
        newest = self.table.snapshot().version
        for version in range(max(self.versions, default=-1) + 1, newest + 1):
            self.versions[version] = Described(self.columns, {key: dict(row) for key, row in self.rows.items()})
        return newest

    def require_rows(self, version: int) -> None:
        """Read a version."""
        found = self.table.snapshot(version=version).scan().to_arrow()
        expected = self.versions[version]
        assert [column.name for column in expected.columns] == found.column_names
        assert expected.counted() == count_rows([found], found.column_names)

    def require_readable_versions(self) -> None:
        """Read every version that can be read, and the changes between two of them."""
        for version in list(self.versions):
            try:
                self.require_rows(version)
            except DeltacliError:
                assert version != max(self.versions)
                del self.versions[version]
        first, last = (self.chooser.choice(list(self.versions)) for _ in "ab")
        between = {version.columns for number, version in self.versions.items() if first <= number <= last}
        if first < last and len(between) == 1:
            self.require_changes(first, last)

    def require_changes(self, first: int, last: int) -> None:
        """What was inserted between two versions, and not deleted, is what the later one has more."""
        names = [column.name for column in self.versions[first].columns]
        try:
            found = self.table.changes(from_version=first + 1, to_version=last).to_arrow()
        except DeltacliError:
            return  # a version in between had other columns, or its files are gone
        expected = Counter(self.versions[last].counted())
        expected.subtract(self.versions[first].counted())
        kinds = pa.array(
            [kind in ("insert", "update_postimage") for kind in found.column("_change_type").to_pylist()], pa.bool_()
        )
        expected.subtract(count_rows([found.filter(kinds)], names))
        expected.update(count_rows([found.filter(pc.invert(kinds))], names))
        assert {} == {row: count for row, count in expected.items() if count}

    def require_no_error(self) -> None:
        found = self.table.validate(level="data").findings
        assert [] == [(one.rule.id, one.message) for one in found if one.severity == "error"]

    def some_column(self) -> Column:
        """Any column except that of the ids."""
        return self.chooser.choice([one for one in self.columns if one.number > 0])

    def put(self, changed: Column) -> None:
        """Change a column of the model."""
        self.columns = tuple(changed if one.number == changed.number else one for one in self.columns)

    def alter(self, kind: str, **fields: Any) -> None:
        self.table.alter([{"change": kind, **fields}], enable=True, upgrade_protocol=True)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# -- rows --------------------------------------------------------------------------------------------------------------


def add_rows(of: Together) -> None:
    rows = []
    for _ in range(of.chooser.choice([1, 3, 20, 60])):
        rows.append(some_row(of.chooser, of.columns) | {0: of.next_row})
        of.next_row += 1
    for row in rows:
        value = rows[of.chooser.randrange(min(2, len(rows)))][1]  # few partitions
        row[1] = None if value == "" else value  # as partition values have it
    arrays = [pa.array([shown(row[one.number], one.type) for row in rows], arrow_type(one.type)) for one in of.columns]
    append(of.table, pa.Table.from_arrays(arrays, names=[one.name for one in of.columns]))
    of.rows |= {row[0]: row for row in rows}


def delete_rows(of: Together) -> None:
    """Mark rows of a file as deleted, all of them perhaps; then the file may go."""
    snapshot = of.table.snapshot()
    files = list(live_files(snapshot).values())
    if not files or snapshot.properties.get("delta.enableDeletionVectors") != "true":
        return
    file, name = of.chooser.choice(files), next(one.name for one in of.columns if one.number == 0)
    stored = next(snapshot.config.physical_name(one) for one in snapshot.schema.fields if one.name == name)
    ids = pq.ParquetFile(Path(of.place, unquote(file["path"]))).read([stored]).column(0).to_pylist()
    left = [number for number, row in enumerate(ids) if row in of.rows]
    if not left:
        return
    gone = of.chooser.sample(left, of.chooser.choice([1, len(left)]))
    vector = inline(number for number, row in enumerate(ids) if row not in of.rows or number in gone)
    stats = json.dumps(json.loads(file["stats"]) | {"tightBounds": False})
    marked = {**file, "deletionVector": vector, "stats": stats, "dataChange": True}
    adds = [marked] if len(gone) < len(left) or of.chooser.random() < 0.5 else []
    commit(of.table, lambda _: request_of("DELETE", adds, [remove_of(file)]))
    of.rows = {key: row for key, row in of.rows.items() if key not in {ids[number] for number in gone}}


def restore(of: Together) -> None:
    version, wanted = of.chooser.choice(list(of.versions.items()))
    of.table.restore(version=version)
    of.columns, of.rows = wanted.columns, {key: dict(row) for key, row in wanted.rows.items()}


# -- columns -----------------------------------------------------------------------------------------------------------


def add_column(of: Together) -> None:
    name = of.chooser.choice([f"c{of.next_column}", *of.dropped])
    if any(one.name == name for one in of.columns):
        return
    kind = of.chooser.choice(TYPES)
    added = column_of(kind, of.next_column, name)
    is_last = of.chooser.random() < 0.5
    of.alter("add", column=quoted(name), type=kind, position="last" if is_last else "first")
    of.columns = (*of.columns, added) if is_last else (added, *of.columns)
    of.next_column += 10


def drop_column(of: Together) -> None:
    column = of.some_column()
    if column.number > 1:
        of.alter("drop", column=quoted(column.name))
        of.columns = tuple(one for one in of.columns if one.number != column.number)
        of.dropped.append(column.name)


def rename_column(of: Together) -> None:
    column, name = of.chooser.choice(of.columns), of.chooser.choice(["a b", "x.y", "ü`n", f"r{of.next_column}"])
    if all(one.name != name for one in of.columns):
        of.alter("rename", column=quoted(column.name), name=name)
        of.put(replace(column, name=name))
        of.next_column += 10


def widen(of: Together) -> None:
    column = of.some_column()
    types = wider(column.type) if isinstance(column.type, str) else []
    if types:
        to = of.chooser.choice(types)
        of.table.widen_type((quoted(column.name), to), enable=True, upgrade_protocol=True)
        of.put(replace(column, type=to))


def map_columns(of: Together) -> None:
    of.alter("mapping", mode="name")


def cluster(of: Together) -> None:
    of.alter("cluster", columns=[quoted(of.some_column().name) for _ in range(of.chooser.randrange(3))])


# -- care --------------------------------------------------------------------------------------------------------------


def optimize(of: Together) -> None:
    by = [quoted(of.chooser.choice(of.columns).name) for _ in range(of.chooser.choice([1, 1, 2]))]
    small: dict[str, Any] = {"target_size": 2_000, "min_size": 1_500}
    kinds: Sequence[dict[str, Any]] = ({}, small, {"purge": True, "verify": True}, {"zorder": by}, {"cluster": True})
    of.table.optimize(**of.chooser.choice(kinds))


def checkpoint(of: Together) -> None:
    of.table.checkpoint(**of.chooser.choice(CHECKPOINTS))


def compact_log(of: Together) -> None:
    last = max(of.versions)
    first = of.chooser.randrange(last + 1)
    if first < last:
        of.table.compact_log(first, last)


def write_checksum(of: Together) -> None:
    of.table.write_checksum()


def vacuum(of: Together) -> None:
    of.now += of.chooser.choice([0, 8 * DAY_MS])
    of.table.vacuum(max_delete="100%", log_entries=of.chooser.random() < 0.5)


def expire_log(of: Together) -> None:
    of.now += of.chooser.choice([0, 31 * DAY_MS])
    of.table.expire_log()


def set_property(of: Together) -> None:
    of.table.set_properties(of.chooser.choice(SETTINGS))


def drop_feature(of: Together) -> None:
    of.table.drop_features(of.chooser.choice(["deletionVectors", "rowTracking", "columnMapping", "typeWidening"]))


OPERATIONS: Sequence[Callable[[Together], None]] = (
    *(
        add_rows,
        add_rows,
        add_rows,
        delete_rows,
        delete_rows,
        optimize,
        optimize,
        restore,
        add_column,
        drop_column,
        rename_column,
        widen,
    ),
    *(map_columns, cluster, checkpoint, compact_log, write_checksum, vacuum, expire_log, set_property, drop_feature),
)


# -- tables ------------------------------------------------------------------------------------------------------------


def column_of(name: str, number: int, called: str) -> Column:
    """A column of a type in SQL; the fields of a struct have the numbers after its own."""
    kinds: dict[str, Any] = {
        "struct<x: integer, y: string>": Struct(
            (Column("x", "integer", number + 1, ""), Column("y", "string", number + 2, ""))
        ),
        "array<integer>": Array("integer"),
        "map<string,integer>": Map("string", "integer"),
    }
    return Column(called, kinds.get(name, name), number, "")


def first_table(seed: int, place: Path) -> Together:
    """A table without rows, with features and properties from the seed."""
    chooser = random.Random(seed)
    kinds = ["long", chooser.choice(["string", "integer", "date", "byte"]), *chooser.sample(TYPES, 3)]
    names = ["id", "p", "c2", "c3", "c4"]
    columns = tuple(
        column_of(kind, 10 * number if number > 1 else number, name)
        for number, (kind, name) in enumerate(zip(kinds, names, strict=True))
    )
    features, properties = {"appendOnly", "deletionVectors", "invariants"}, {"delta.enableDeletionVectors": "true"}
    if chooser.random() < 0.5:
        features |= {"rowTracking", "domainMetadata"}
        properties |= {"delta.enableRowTracking": "true"}
        kept = "delta.rowTracking.materializedRow"
        properties |= {f"{kept}IdColumnName": "_row_id", f"{kept}CommitVersionColumnName": "_row_version"}
    if chooser.random() < 0.5:
        features.add("v2Checkpoint")
    text = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    partitions = ["p"] if chooser.random() < 0.5 else []
    table_of(text, partitions=partitions, properties=properties, features=sorted(features)).write(place)
    return Together(str(place), chooser, columns)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_version_has_the_rows_of_the_model(seed: int, tmp_path: Path) -> None:
    of = first_table(seed, tmp_path / "table")
    if seed % 2:
        map_columns(of)
    of.note()
    try:
        for number in range(STEPS):
            of.step()
            if number % 10 == 9:
                of.require_readable_versions()
                of.require_no_error()
    except Exception as fault:
        fault.add_note(f"seed {seed}: {', '.join(of.steps)}")
        raise
