"""Random small tables: a schema, then a few commits of whatever may happen to a table."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from hypothesis import strategies as st

from tests.support.small_parquet import TEXTS, Look, PartitionText
from tests.support.small_types import (
    Array,
    Column,
    Map,
    Row,
    Struct,
    Type,
    every_field,
    leaves,
    structs,
    widened,
    wider,
    with_column,
    with_fields,
)
from tests.support.small_values import partition_texts, some_row
from tests.support.small_writer import DataFile, Event, SmallTable

DECIMALS = ("decimal(1,0)", "decimal(5,2)", "decimal(9,9)", "decimal(10,0)", "decimal(18,4)", "decimal(38,10)")
LEAVES = (
    "long", "string", "integer", "byte", "short", "float", "double", "boolean", "binary", "date", "timestamp",
    "timestamp_ntz", *DECIMALS,
)  # fmt: skip
KEYS = ("string", "integer", "byte", "date", "decimal(5,2)", "long")
NAMES = ("c", "a.b", "é", "Mixed")
ODD_NAMES = ("has blank", "x,y;{}()", "ünï", "`tick`")
DIRECTORIES = ("", "", "p=lie", "p=lie/q=__HIVE_DEFAULT_PARTITION__", "a b%20c=é#?+", "year=1999")
FILE_NAMES = ("", "", "a b {}.parquet", "%41{}.parquet", "é+=&{}.parquet")
ALL_FEATURES = (
    "deletionVectors", "columnMapping", "typeWidening", "timestampNtz", "changeDataFeed", "appendOnly", "invariants",
    "inCommitTimestamp",
)  # fmt: skip


@dataclass
class Steps:
    """The table under construction, with what chooses the details."""

    table: SmallTable
    chooser: random.Random
    draw: st.DrawFn
    numbers: int = 0

    def number(self) -> int:
        """A column number that was never used."""
        self.numbers += 1
        return self.numbers

    def column(self, kind: Type, *, nullable: bool = True, name: str | None = None) -> Column:
        """A column of a type, with a name of its own unless one is given."""
        number = self.number()
        mapped = self.table.mapped
        chosen = name or f"{self.chooser.choice(NAMES + ODD_NAMES if mapped else NAMES)}{number}"
        physical = f"col-{self.chooser.getrandbits(64):016x}" if mapped and self.chooser.random() < 0.8 else chosen
        if mapped and name is not None:
            physical = f"col-{self.chooser.getrandbits(64):016x}"
        return Column(chosen, kind, number, physical, nullable)

    def kind(self, depth: int = 3) -> Type:
        """A type, nested up to a depth."""
        form = self.draw(st.sampled_from(["leaf"] * 3 + (["struct", "struct", "array", "map"] if depth else [])))
        match form:
            case "struct":
                count = self.draw(st.integers(1, 3))
                fields = [self.column(self.kind(depth - 1), nullable=self.maybe(0.8)) for _ in range(count)]
                if self.maybe(0.1):
                    fields.append(self.column("void"))
                return Struct(tuple(fields))
            case "array":
                return Array(self.kind(depth - 1), self.maybe(0.8))
            case "map":
                return Map(self.draw(st.sampled_from(KEYS)), self.kind(depth - 1), self.maybe(0.8))
        return self.draw(st.sampled_from(LEAVES))

    def maybe(self, chance: float) -> bool:
        """Return True as often as configured."""
        return self.chooser.random() < chance

    def some(self, count: int) -> frozenset[int]:
        """Some of the first numbers."""
        return frozenset(number for number in range(count) if self.maybe(0.4))

    def look(self) -> Look:
        """How a file is written."""
        choose = self.chooser.choice
        return Look(
            ids=self.maybe(0.8),
            element_ids=self.maybe(0.5),
            upper_case=self.maybe(0.2),
            order=self.chooser.randrange(100),
            timestamps=choose(("us", "us", "ms", "ns", "int96")),
            texts=choose(tuple(TEXTS)),
            large_lists=self.maybe(0.3),
            decimals_as_integers=self.maybe(0.5),
            small_as_integers=self.maybe(0.5),
            pages=choose(("1.0", "2.0")),
            dictionary=self.maybe(0.5),
            group_rows=choose((1, 2, 1000)),
            keep_arrow_schema=self.maybe(0.5),
            compression=choose(("snappy", "none", "zstd", "gzip")),
            omits_nulls=self.maybe(0.3),
            all_nullable=self.maybe(0.7),
            foreign_names=self.maybe(0.3),
            materializes=self.maybe(0.1),
        )

    def texts(self) -> dict[int, str | None]:
        """Partition values."""
        return {
            column.number: self.chooser.choice(partition_texts(str(column.type)))
            for column in self.table.partition_columns
        }

    def rows(self, count: int) -> list[Row]:
        """Rows without partition values."""
        tame = self.maybe(0.3)
        return [some_row(self.chooser, self.table.data_columns, tame=tame) for _ in range(count)]

    def file(self, rows: Sequence[Row], texts: dict[int, str | None] | None = None) -> DataFile:
        """A data file of rows."""
        name = self.chooser.choice(FILE_NAMES)
        return self.table.new_file(
            rows,
            name=name.format(self.table.files),
            directory=self.chooser.choice(DIRECTORIES),
            look=self.look(),
            mode=self.chooser.choice(("none", "records", "some", "all", "wide")),
            texts=self.texts() if texts is None else texts,
        )

    def files_of(self, rows: Sequence[Row]) -> list[DataFile]:
        """Files of rows that exist already: one for each partition they lie in."""
        groups: dict[tuple[tuple[int, PartitionText], ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple((number, row[number]) for number in self.table.partition), []).append(row)
        return [self.file(group, {number: value.text for number, value in key}) for key, group in groups.items()]

    def live_paths(self) -> list[str]:
        """One or two live files, or none where there are none."""
        paths = sorted(self.table.live)
        return self.chooser.sample(paths, min(len(paths), self.chooser.randint(1, 2)))


def append(steps: Steps) -> None:
    """A few files; without rows now and then."""
    counts = [steps.chooser.choice((0, 1, 2, 3, 5, 8)) for _ in range(steps.chooser.randint(1, 3))]
    steps.table.append([steps.file(steps.rows(count)) for count in counts])


def mark(steps: Steps, *, story: str = "delete by vector") -> None:
    """Vectors on live files; over older ones, so that some rows come back."""
    paths = steps.live_paths()
    deleted = {path: steps.some(len(steps.table.live[path].file.rows)) for path in paths}
    if steps.maybe(0.5):
        deleted = {path: rows | steps.table.live[path].deleted for path, rows in deleted.items()}
    steps.table.mark(deleted, vectors(steps, deleted), cdc=tells(steps), story=story)


def vectors(steps: Steps, deleted: dict[str, frozenset[int]]) -> dict[str, dict[str, object] | None]:
    """Vectors of any storage."""
    return steps.table.vectors(
        deleted,
        how=steps.chooser.choice(("i", "u", "u", "p")),
        uuid=UUID(int=steps.chooser.getrandbits(128)),
        prefix=steps.chooser.choice(("", "", "ab", "x-é")),
        run_keys=steps.chooser.choice((frozenset(), None)),
    )


def tells(steps: Steps) -> bool:
    """True if the commit writes change files."""
    return steps.table.has_change_feed and steps.maybe(0.6)


def update(steps: Steps) -> None:
    """Rows leave their files by vectors, and come back changed in another."""
    paths = steps.live_paths()
    deleted, pairs = {}, []
    for path in paths:
        live = steps.table.live[path]
        chosen = steps.some(len(live.file.rows)) - live.deleted
        deleted[path] = live.deleted | chosen
        for position in sorted(chosen):
            old = live.file.rows[position]
            kept = {number: old[number] for number in steps.table.partition}
            pairs.append((old, {**some_row(steps.chooser, steps.table.data_columns), **kept}))
    added = steps.files_of([new for _, new in pairs])
    news = [row for file in added for row in file.rows]
    by_partition = sorted(range(len(pairs)), key=lambda place: _place(added, pairs[place][1], steps))
    updates = [(pairs[place][0], news[position]) for position, place in enumerate(by_partition)]
    found = vectors(steps, deleted)
    steps.table.mark(deleted, found, added=added, updates=updates, cdc=tells(steps), story="update by vector")


def _place(added: Sequence[DataFile], row: Row, steps: Steps) -> int:
    """The file that a row went into."""
    for place, file in enumerate(added):
        if all(file.rows[0][number] == row[number] for number in steps.table.partition):
            return place
    raise AssertionError("a row went into no file")


def rewrite(steps: Steps) -> None:
    """Files are written anew with some rows changed, others as they were."""
    paths = steps.live_paths()
    if not paths:
        return append(steps)
    told: list[Event] = []
    rows = []
    for row in [row for path in paths for row in steps.table.live[path].rows]:
        kept = {number: row[number] for number in steps.table.partition}
        match steps.chooser.choice(("keep", "keep", "change", "delete")):
            case "keep":
                rows.append(row)
            case "change":
                changed = {**some_row(steps.chooser, steps.table.data_columns), **kept}
                rows.append(changed)
                told += [("update_preimage", row), ("update_postimage", changed)]
            case _:
                told.append(("delete", row))
    with_files = tells(steps) and bool(told)
    added = steps.files_of(rows)
    steps.table.replace_files(paths, added, data_change=True, told=told if with_files else None, story="copy on write")
    return None


def compact(steps: Steps) -> None:
    """The same rows in other files."""
    paths = steps.live_paths()
    rows = [row for path in paths for row in steps.table.live[path].rows]
    steps.table.replace_files(paths, steps.files_of(rows), data_change=False, story="compact")


def drop_file(steps: Steps) -> None:
    """Whole files go."""
    paths = steps.live_paths()
    told: list[Event] | None = None
    if paths and tells(steps):
        told = [("delete", row) for path in paths for row in steps.table.live[path].rows]
    steps.table.replace_files(paths, [], data_change=True, told=told, story="delete files")


def add_again(steps: Steps) -> None:
    """A file that went comes back."""
    if not steps.table.removed:
        return append(steps)
    steps.table.add_again(steps.chooser.choice(sorted(steps.table.removed)))
    return None


def add_column(steps: Steps) -> None:
    """A column, or a field in a struct, that older files lack."""
    holders = [column for column in every_field(steps.table.columns) if any(structs(column.type))]
    new = steps.column("void" if steps.maybe(0.1) else steps.kind(2))
    if holders and steps.maybe(0.7):
        holder = steps.chooser.choice(holders)
        fields = list(next(structs(holder.type)).fields)
        fields.insert(steps.chooser.randint(0, len(fields)), new)
        steps.table.set_columns(with_column(steps.table.columns, with_fields(holder, fields)), "add a field")
        return
    columns = list(steps.table.columns)
    columns.insert(steps.chooser.randint(0, len(columns)), new)
    steps.table.set_columns(columns, "add a column")


def rename(steps: Steps) -> None:
    """A column or field under another name; sometimes two columns change their names."""
    if not steps.table.mapped:
        return reorder(steps)
    columns = steps.table.columns
    if len(columns) > 1 and steps.maybe(0.3):
        one, other = steps.chooser.sample(columns, 2)
        swapped = with_column(columns, replace(one, name=other.name))
        steps.table.set_columns(with_column(swapped, replace(other, name=one.name)), "swap names")
        return None
    chosen = steps.chooser.choice(list(every_field(columns)))
    renamed = replace(chosen, name=f"renamed{len(steps.table.versions)}")
    steps.table.set_columns(with_column(columns, renamed), "rename")
    return None


def _first(column: Column) -> list[Struct]:
    """The first struct that the type of a column holds, if any."""
    return list(structs(column.type))[:1]


def drop_column(steps: Steps) -> None:
    """Drop a column; sometimes another takes its name at once."""
    if not steps.table.mapped:
        return add_column(steps)
    holders = [column for column in every_field(steps.table.columns) if any(len(s.fields) > 1 for s in _first(column))]
    if holders and steps.maybe(0.7):
        holder = steps.chooser.choice(holders)
        (struct,) = _first(holder)
        left = [column for column in struct.fields if column.type == "void" or steps.maybe(0.4)]
        left = left if any(column.type != "void" for column in left) else [steps.column(steps.kind(1)), *left]
        steps.table.set_columns(with_column(steps.table.columns, with_fields(holder, left)), "drop fields")
        return None
    droppable = [column for column in steps.table.data_columns if column.type != "void"]
    if len(droppable) < 2:
        return add_column(steps)
    gone = steps.chooser.choice(droppable)
    columns = [column for column in steps.table.columns if column is not gone]
    steps.table.set_columns(columns, "drop a column")
    if steps.maybe(0.6):
        again = steps.column(gone.type if steps.maybe(0.5) else steps.kind(1), name=gone.name)
        steps.table.set_columns([*columns, again], "add a column of the old name")
    return None


def reorder(steps: Steps) -> None:
    """Columns, or the fields of a struct, in another order."""
    holders = [column for column in every_field(steps.table.columns) if any(structs(column.type))]
    if holders and steps.maybe(0.7):
        holder = steps.chooser.choice(holders)
        fields = list(next(structs(holder.type)).fields)
        steps.chooser.shuffle(fields)
        steps.table.set_columns(with_column(steps.table.columns, with_fields(holder, fields)), "reorder fields")
        return
    columns = list(steps.table.columns)
    steps.chooser.shuffle(columns)
    steps.table.set_columns(columns, "reorder")


def widen(steps: Steps) -> None:
    """A leaf anywhere gets a wider type."""
    if "typeWidening" not in steps.table.features:
        return append(steps)
    possible = [
        (column, path, to)
        for column in every_field(steps.table.columns)
        for path, name in leaves(column.type)
        for to in wider(name)
    ]
    if not possible:
        return append(steps)
    column, path, to = steps.chooser.choice(possible)
    steps.table.set_columns(with_column(steps.table.columns, widened(column, path, to)), f"widen to {to}")
    return None


STEPS: tuple[Callable[[Steps], None], ...] = (
    append, mark, update, widen, rewrite, add_column, drop_column, rename, reorder, compact, drop_file, add_again,
    mark, mark, update, widen,
)  # fmt: skip
"""What may happen to a table; what reading has to think about most is there more than once."""


@st.composite
def small_tables(draw: st.DrawFn, root: Path, *, most: int = 7) -> SmallTable:
    """A table in a directory: a schema, a first append, then up to `most` steps."""
    features = ALL_FEATURES if draw(st.booleans()) else tuple(name for name in ALL_FEATURES if name != "typeWidening")
    steps = Steps(
        SmallTable(
            root / draw(st.sampled_from(["t", "t b%20é+#"])),
            (),
            mapping=draw(st.sampled_from(["none", "name", "id"])),
            features=features,
        ),
        random.Random(draw(st.integers(0, 2**32 - 1))),
        draw,
    )
    table = steps.table
    if draw(st.sampled_from([True, True, False])):
        table.configuration["delta.enableChangeDataFeed"] = "true"
    if draw(st.booleans()):
        table.configuration["delta.enableInCommitTimestamps"] = "true"
    table.bare_removes = draw(st.booleans())
    table.configuration["delta.enableDeletionVectors"] = "true"
    if "typeWidening" in table.features:
        table.configuration["delta.enableTypeWidening"] = "true"
    columns = [steps.column(steps.kind(), nullable=steps.maybe(0.8)) for _ in range(draw(st.integers(1, 4)))]
    partition = [steps.column(draw(st.sampled_from(LEAVES))) for _ in range(draw(st.sampled_from([0, 0, 1, 2])))]
    if steps.maybe(0.1):
        columns.append(steps.column("void"))
    table.columns, table.partition = (*columns, *partition), tuple(column.number for column in partition)
    table.create()
    for step in [append, *draw(st.lists(st.sampled_from(STEPS), min_size=min(3, most), max_size=most))]:
        step(steps)
    return table
