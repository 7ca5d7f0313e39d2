"""Random hints on random tables with real rows, checked for several clients at once."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa

from deltacli.sharing.hints.file_selection import HintResult, Hints, select_files
from tests.delta.predicate.support import adds_of, config_of
from tests.support.client_conditions import Client, ClientCondition, ConditionMaker
from tests.support.predicates import Leaf, Maker, Row
from tests.support.written_stats import is_partitionable, partition_text, stats_text

PREDICATES = 25
CLIENTS = 4


class SharedFiles:
    """A table with real rows: its files, some with deleted rows, and what the log has about them."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.physical = (
            {name: f"col-{name}" for leaf in maker.leaves for name in leaf.path} if maker.chance(0.3) else {}
        )
        plain = [leaf for leaf in maker.leaves if len(leaf.path) == 1 and is_partitionable(leaf.type_name)]
        self.partitions = maker.random.sample(plain, maker.random.randint(0, min(len(plain), 2)))
        self.files = [self._rows() for _ in range(maker.random.randint(1, 6))]
        self.values = [self._partition_values(rows[0]) for rows in self.files]
        self.deleted = [{place for place in range(len(rows)) if maker.chance(0.15)} for rows in self.files]
        self.config = config_of(
            maker.schema(self.physical), [leaf.path[0] for leaf in self.partitions], is_mapped=bool(self.physical)
        )

    def _rows(self) -> list[Row]:
        """Rows of one file: near to each other, and equal in the partition columns."""
        first = self.maker.row()
        rows: list[Row] = [first]
        for _ in range(self.maker.random.randint(0, 5)):
            row = self.maker.row()
            if row[("s",)] == first[("s",)]:
                row |= {path: value for path, value in first.items() if self.maker.chance(0.8)}
            rows.append({**row, **{leaf.path: first[leaf.path] for leaf in self.partitions}})
        return rows

    def _partition_values(self, row: Row) -> dict[Leaf, str | None]:
        return {leaf: partition_text(self.maker, leaf.type_name, row[leaf.path]) for leaf in self.partitions}

    def adds(self) -> pa.RecordBatch:
        others = [leaf for leaf in self.maker.leaves if leaf not in self.partitions]
        adds = adds_of(
            [stats_text(self.maker, rows, others, self.physical) for rows in self.files],
            [
                {self.physical.get(leaf.path[0], leaf.path[0]): text for leaf, text in values.items()}
                for values in self.values
            ],
        )
        place = adds.schema.get_field_index("deletionVector")
        vectors = [{"storageType": "u", "cardinality": len(rows)} if rows else None for rows in self.deleted]
        return adds.set_column(place, adds.schema.field(place), pa.array(vectors, adds.schema.field(place).type))

    def rows_for(self, client: Client) -> list[list[Row]]:
        """The live rows of each file as a client sees them: partition values without a zone are in its own."""
        found: list[list[Row]] = []
        for rows, values, deleted in zip(self.files, self.values, self.deleted, strict=True):
            changes: dict[tuple[str, ...], Any] = {}
            for leaf, text in values.items():
                if leaf.type_name == "timestamp" and text and not text.endswith("Z"):
                    changes[leaf.path] = rows[0][leaf.path] - client.offset
                if text == "" and client.empty_is_null:
                    changes[leaf.path] = None
            found.append([{**row, **changes} for place, row in enumerate(rows) if place not in deleted])
        return found


def check_hints(seed: int) -> Counter[str]:
    """Check the hints of one seed, and return how much they left out."""
    seen: Counter[str] = Counter()
    maker = Maker(Random(seed))
    files = SharedFiles(maker)
    adds = files.adds()
    clients = [Client(maker.random) for _ in range(CLIENTS)]
    tables = [files.rows_for(client) for client in clients]
    conditions = ConditionMaker(maker, [row for rows in files.files for row in rows])

    for _ in range(PREDICATES):
        made = [conditions.condition() for _ in range(maker.random.choice((1, 1, 1, 2)))]
        limit = maker.random.choice((None, None, 1, 2, 5))
        hints = hints_of(maker, made, limit)
        result = select_files(adds, files.config, hints)

        kept = result.kept.to_pylist() if result.kept is not None else [True] * len(files.files)
        for client, table in zip(clients, tables, strict=True):
            check_client(client, made, table, kept, hints, result)
        seen["files"] += len(kept)
        seen["left out"] += len(kept) - sum(kept)
        seen["used"] += result.used
        seen["hints"] += 1
    return seen


def hints_of(maker: Maker, made: list[ClientCondition], limit: int | None) -> Hints:
    """Hints in one of the languages, with those conditions that it has."""
    if len(made) == 2:
        in_json = json.dumps(made[1].json, ensure_ascii=maker.chance(0.5)) if made[1].json is not None else None
        return Hints(sql=(made[0].sql,) if made[0].sql else (), json=in_json, limit=limit)
    if made[0].sql is not None and (made[0].json is None or maker.chance(0.5)):
        return Hints(sql=(made[0].sql,), limit=limit)
    return Hints(json=json.dumps(made[0].json), limit=limit)


def check_client(
    client: Client,
    made: list[ClientCondition],
    table: list[list[Row]],
    kept: list[bool],
    hints: Hints,
    result: HintResult,
) -> None:
    """Whatever was not sent to the server is not part of what the client wants either."""
    sent = made if len(made) == 1 else [
        one for one, is_sent in zip(made, (hints.sql, hints.json), strict=True) if is_sent
    ]  # fmt: skip
    wanted = [sum(all(one.truth(client, row) is True for one in sent) for row in rows) for rows in table]
    found = sum(count for count, is_kept in zip(wanted, kept, strict=True) if is_kept)
    needed = sum(wanted) if hints.limit is None else min(hints.limit, sum(wanted))

    assert found >= needed, (hints, result.reason)
