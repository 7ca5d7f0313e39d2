"""Random histories of a table with row tracking, dropped and added again, and restores: no two rows have one row id,
and those of a live file stay.
"""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import Refused
from tests.support.actions import Action, Line, add, commit_info, domain, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.effort import examples
from tests.support.model import State
from tests.support.restoring import Restoring
from tests.support.small_vectors import inline

ROWS = 10
SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "p", "type": "string", "nullable": True, "metadata": {}}]},
)
CHANGES = ("append", "append", "delete", "mark", "mark")


class Writer:
    """An engine that gives ids; each time that tracking is added it begins with 0 again, and it may name columns."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.builder = TableBuilder()
        self._draw = draw
        self.drops = 0
        self._is_on, self._mark, self._files = True, -1, 0
        self._live: dict[str, tuple[str, int | None]] = {}
        self._vectors: dict[str, Action] = {}
        self.builder.commit(commit_info(), *self._settings())

    def step(self, kind: str) -> None:
        lines: list[Line] = []
        if kind == "append":
            self._files += 1
            self._live[f"f{self._files}"] = self._draw(st.sampled_from("12")), None
            lines = self._numbered(data_change=True)
        elif kind == "delete" and self._live:
            path = self._draw(st.sampled_from(sorted(self._live)))
            values, _ = self._live.pop(path)
            lines = [remove(path, vector=self._vectors.pop(path, None), partitionValues={"p": values})]
        elif kind == "mark" and self._live:
            path = self._draw(st.sampled_from(sorted(self._live)))
            before, after = self._vectors.get(path), inline([self._draw(st.integers(0, ROWS - 1))])
            if before != after:
                self._vectors[path] = after
                lines = [remove(path, vector=before), self._add(path, data_change=True)]
        elif kind == "drop" and self._is_on:
            self._is_on, self.drops, self._mark = False, self.drops + 1, -1
            lines = [*self._settings(), domain("delta.rowTracking", "", removed=True)]
            if self._draw(st.booleans()):
                self._live = {path: (values, None) for path, (values, _) in self._live.items()}
                lines += [self._add(path) for path in self._live]
        elif kind == "enable" and not self._is_on:
            self._is_on = True
            self._live = {path: (values, None) for path, (values, _) in self._live.items()}
            lines = [*self._settings(), *self._numbered(data_change=False)]
        if lines:
            self.builder.commit(commit_info(), *lines)

    def _settings(self) -> list[Line]:
        names = ["deletionVectors", "domainMetadata", *(["rowTracking"] if self._is_on else [])]
        named = {"delta.rowTracking.materializedRowIdColumnName": f"_row_{self.drops}"}
        configuration = {"delta.enableDeletionVectors": "true"}
        configuration |= named if self._is_on and self._draw(st.booleans()) else {}
        return [
            protocol(3, 7, reader_features=["deletionVectors"], writer_features=names),
            metadata(configuration=configuration, schema_string=SCHEMA, partition_columns=["p"]),
        ]

    def _numbered(self, *, data_change: bool) -> list[Line]:
        """The files that have no ids, with ids where tracking is on."""
        lines = []
        for path in [path for path, (_, base) in self._live.items() if base is None]:
            if self._is_on:
                self._live[path] = self._live[path][0], self._mark + 1
                self._mark += ROWS
            lines.append(self._add(path, data_change=data_change))
        if self._is_on and lines:
            lines.append(domain("delta.rowTracking", f'{{"rowIdHighWaterMark":{self._mark}}}'))
        return lines

    def _add(self, path: str, *, data_change: bool = False) -> Line:
        values, base = self._live[path]
        ids: dict[str, Any] = {} if base is None else {"baseRowId": base, "defaultRowCommitVersion": 0}
        ids |= {"deletionVector": self._vectors[path]} if path in self._vectors else {}
        return add(path, size=7, records=ROWS, partition_values={"p": values}, dataChange=data_change, **ids)


CHANGED = st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4)


@st.composite
def written(draw: st.DrawFn) -> Writer:
    writer = Writer(draw)
    again = draw(st.sampled_from([(), ("drop",), ("drop", "enable"), ("drop", "enable")]))
    for kind in ("append", *draw(CHANGED), *again, *draw(CHANGED)):
        writer.step(kind)
    return writer


@given(written(), st.data())
@examples(80)
def test_no_row_id_is_given_twice(writer: Writer, data: st.DataObject) -> None:
    restoring = Restoring(writer.builder)
    for _ in range(2):
        before = restoring.state()
        where: dict[str, Any] = {"where": "p = '1'"} if data.draw(st.booleans(), "where") else {}
        version = data.draw(st.integers(0, writer.builder.newest), "version")
        with suppress(Refused) if writer.drops else nullcontext():
            restoring.restore(version, **where)
        after = restoring.state()
        tracked = "rowTracking" in (after.protocol or {})["writerFeatures"]
        bases: list[Any] = [one.get("baseRowId") for one in after.live.values()]
        if tracked and "rowTracking" in (before.protocol or {})["writerFeatures"]:
            ids = [base + row for base in bases for row in range(ROWS)]
            assert len(ids) == len({*ids})
            assert max(ids, default=-1) <= mark_of(after)
            assert mark_of(before) <= mark_of(after)
            known = {one["path"]: one.get("baseRowId") for one in before.live.values()}
            kept = [one for one in after.live.values() if known.get(one["path"]) is not None]
            assert [known[one["path"]] for one in kept] == [one.get("baseRowId") for one in kept]


def mark_of(state: State) -> int:
    stated = state.live_domains.get("delta.rowTracking")
    mark: int = -1 if stated is None else json.loads(stated["configuration"])["rowIdHighWaterMark"]
    return mark
