"""Each change of `alter` and each drop of a feature on each real table: rows stay, under the new names, and `validate`
finds nothing new. What can be read is changed or refused for a reason, what cannot be read is refused.

Four of the tables are in the suite, one in twenty of the others in the long one, and all in `dev.py soak matrix`.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.delta.protocol.feature_changes import REMOVALS
from deltacli.storage import open_storage
from tests.corpus.test_checkpoints import NOW_MS, TABLES
from tests.corpus.test_settings import EXPECTED, REFUSALS
from tests.corpus.test_widen_corpus import HUGE, NO_LOG
from tests.corpus.test_widen_corpus import REFUSED as UNREADABLE
from tests.support.altering import MAPPED, add, change, drop, rename
from tests.support.corpus import CorpusTable
from tests.support.corpus_checkpoints import LOG, copy_log, digest_of
from tests.support.row_counts import Rows, count_rows

Json = Any  # Any: JSON values

CHOSEN = [table for table in TABLES if table.id not in HUGE | NO_LOG]
SAMPLE = {table.id for table in random.Random(7).sample(CHOSEN, min(4, len(CHOSEN)))}
each = pytest.mark.parametrize(
    "table",
    [pytest.param(table, id=table.id, marks=[] if table.id in SAMPLE else [pytest.mark.matrix]) for table in CHOSEN]
    or [pytest.param(None, id="no-corpus")],
)

REFUSED = {name: code for name, code in UNREADABLE.items() if code not in ("schema.bad-json", "catalog.managed")}
"""Tables that no change is made of, and why."""

REASONS: Mapping[str, set[str]] = {
    # Change -> codes with which tables are refused that nothing is wrong with.
    "add": {"iceberg.type-not-allowed"},
    "default": {"alter.identity"},
    "not-null": {"alter.rows-violate", "alter.identity"},
    "false-constraint": {"alter.rows-violate"},
    "cluster": {"alter.clustering-statistics", "alter.partitioned", "usage.column"},
    "rename": {"alter.check-constraint", "alter.generated-column"},
    "drop": {"alter.check-constraint", "alter.generated-column", "alter.partition-column", "alter.last-column"},
    "drop-nested": {"alter.last-column"},
    "drop checkConstraints": {"features.in-use"},
    "drop columnMapping": {"features.required", "alter.name"},
    "drop domainMetadata": {"features.required", "features.in-use"},
}
DAMAGED = {"alter.rows-unknown", "data.file-missing", "dv.file-missing"}
"""Of tables that lack files: what must be read is not decided, and what must be rewritten is not dropped."""
ALLOWED = {
    *EXPECTED,
    "action.deletion-timestamp-odd",
    "log.mtime-future",  # both: the clock of the test is not that of the files
    "property.stats-struct-unset",  # the table has a checkpoint now
    "schema.too-wide",
}


class Wish(NamedTuple):
    """Changes, or the name of a feature. `names`: what columns are called afterwards; None: the column is gone, or has
    other fields.
    """

    kind: str
    changes: list[dict[str, Json]] | str
    names: Mapping[str, str | None] = {}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def wishes(fields: list[dict[str, Json]], features: frozenset[str], properties: Mapping[str, str]) -> Iterator[Wish]:
    first, last = fields[0]["name"], fields[-1]["name"]
    name = quoted(first)
    yield Wish("comment", [change("comment", name, comment="altered")])
    yield Wish("add", [add("added_", "struct<a: int, b: array<string>>", position="first")])
    yield Wish("move", [change("move", name, position="last")])
    yield Wish("nullable", [change("nullable", name)])
    yield Wish("not-null", [change("not-null", name)])
    yield Wish("default", [change("default", name, default="null")])
    condition = f"{name} is null {{}} {name} is not null"
    yield Wish("constraint", [change("add-constraint", name="c_", expression=condition.format("or"))])
    yield Wish("false-constraint", [change("add-constraint", name="c_", expression=condition.format("and"))])
    for key in properties:
        if key.startswith("delta.constraints."):
            yield Wish("drop-constraint", [change("drop-constraint", name=key.split(".", 2)[2])])
    yield Wish("cluster", [change("cluster", columns=[name])])
    yield Wish("no-clustering", [change("cluster", columns=[])])
    yield Wish("table-comment", [change("table-comment", comment="c")])
    yield Wish("name", [change("name", name="n")])
    mapped = [] if properties.get("delta.columnMapping.mode", "none") != "none" else [MAPPED]
    yield Wish("mapping", mapped)
    yield Wish("rename", [*mapped, rename(name, "renamed_")], {first: "renamed_"})
    yield Wish("rename", [*mapped, rename(quoted(last), "a.b `c")], {last: "a.b `c"})
    yield Wish("drop", [*mapped, drop(name)], {first: None})
    struct = next((one for one in fields if isinstance(one["type"], dict) and one["type"]["type"] == "struct"), None)
    if struct is not None:
        inner = f"{quoted(struct['name'])}.{quoted(struct['type']['fields'][0]['name'])}"
        yield Wish("add-nested", [add(f"{quoted(struct['name'])}.added_", "int")], {struct["name"]: None})
        yield Wish("rename-nested", [*mapped, rename(inner, "renamed_")], {struct["name"]: None})
        yield Wish("drop-nested", [*mapped, drop(inner)], {struct["name"]: None})
    yield from (Wish(f"drop {feature}", feature) for feature in sorted(features))


class Subject:
    """A copy of a table, whose log is put back after each change."""

    def __init__(self, table: CorpusTable, root: Path, place: Path) -> None:
        self.id, self.place, self.spare = table.id, place / "t", place / "log"
        copy_log(table, root, self.place, with_data=True)
        shutil.copytree(self.place / LOG, self.spare)
        self.table = Table(open_storage(str(self.place)), clock=fixed_clock(NOW_MS))

    def put_back(self) -> None:
        shutil.rmtree(self.place / LOG)
        shutil.copytree(self.spare, self.place / LOG)

    def read(self) -> None:
        """Read all rows; `rows` is None where files of the table are missing."""
        snapshot = self.table.snapshot()
        scan = snapshot.scan()
        self.version, self.names = snapshot.version, list(scan.schema.names)
        self.batches: list[Any] | None = None  # Any: pyarrow has no types
        self.rows: Rows | None = None
        try:
            self.batches = list(scan)
        except DataUnreadable:
            return
        self.rows = count_rows(self.batches, self.names)

    def made(self, wish: Wish) -> str:
        """`ok` or the code of the error, after which nothing was changed but by a drop that can go on."""
        if isinstance(wish.changes, str):
            return self._try(partial(self.table.drop_features, wish.changes))
        verdicts = (
            self._try(partial(self.table.alter, [one], enable=True, upgrade_protocol=True)) for one in wish.changes
        )
        return next((one for one in verdicts if one != "ok"), "ok")

    def _try(self, action: Callable[[], object]) -> str:
        before, code = digest_of(self.place / LOG), "ok"
        try:
            action()
        except DeltacliError as error:
            code = error.code
        assert code in {"ok", *DAMAGED} or before == digest_of(self.place / LOG), (self.id, code)
        return code

    def findings(self) -> set[str]:
        found = self.table.validate(level="storage").findings
        return {one.rule.id for one in found if one.rule.id != "data.orphan-young"}  # of the changes before

    def check_rows(self, names: Mapping[str, str | None]) -> None:
        """Compare the rows of now, and those of the version before all changes."""
        if self.rows is None:
            return
        assert self.batches is not None
        kept = [name for name in self.names if names.get(name, name) is not None]
        expected = count_rows(self.batches, kept)
        assert expected == count_rows(self.table.snapshot().scan(), [names.get(name) or name for name in kept])
        assert self.rows == count_rows(self.table.snapshot(version=self.version).scan(), self.names)

    def check_verdict(self, wish: Wish, verdict: str) -> None:
        if self.batches is None and verdict in DAMAGED:
            return
        allowed = REASONS.get(wish.kind, set()) | {"ok"}
        if isinstance(wish.changes, str) and wish.changes not in REMOVALS:
            allowed = {"features.not-removable"}
        if self.id in REFUSALS:
            is_idle = wish.kind in IDLE or not wish.changes
            allowed = (allowed if is_idle else allowed - {"ok"}) | {REFUSALS[self.id]}
        assert verdict in allowed, (self.id, wish)
        if verdict == REFUSALS.get(self.id):
            return
        if self.rows is not None and wish.kind == "false-constraint":
            assert verdict == ("alter.rows-violate" if self.rows else "ok")
        if self.rows is not None and wish.kind == "not-null" and verdict != "alter.identity":
            assert verdict == ("alter.rows-violate" if any(row[0] is None for row in self.rows) else "ok")


IDLE = ("nullable", "no-clustering")
"""Changes that are nothing to do in most tables."""


@each
def test_rows_stay_and_validate_finds_nothing_new(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    subject = Subject(table, root, tmp_path)
    if table.id in REFUSED:
        assert REFUSED[table.id] == subject.made(Wish("name", [change("name", name="n")]))
        return
    snapshot = subject.table.snapshot()
    fields = json.loads(snapshot.metadata.schema_string or '{"fields":[]}')["fields"]
    if not fields:
        return
    subject.read()
    known = subject.findings()
    for wish in wishes(fields, frozenset(snapshot.config.features), snapshot.properties):
        verdict = subject.made(wish)

        subject.check_verdict(wish, verdict)
        subject.check_rows(wish.names if verdict == "ok" else {})
        assert subject.findings() - known <= ALLOWED, (table.id, wish)
        subject.put_back()


def test_most_tables_are_changed() -> None:
    assert not CHOSEN or len(CHOSEN) > 180
