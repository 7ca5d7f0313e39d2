"""`widen-type` on real tables: the rows stay, their values have the wider types, and what must be refused is.

The largest tables are left out: what they would show is shown by smaller ones.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change, plan_change
from deltacli.core.errors import DataUnreadable, DeltacliError, Refused
from deltacli.core.machine import fixed_clock
from deltacli.operations.change.widen_type import Widening, WidenRequest, refusal_error
from deltacli.rules.framework.base import Severity
from deltacli.storage import open_storage
from deltacli.table.version import Snapshot
from tests.corpus.test_checkpoints import NOW_MS, UNWRITABLE, WRITABLE
from tests.corpus.test_read_corpus import REFUSED as UNREADABLE
from tests.support import corpus
from tests.support.builder import commit_path
from tests.support.corpus import CorpusTable, Document
from tests.support.corpus_checkpoints import copy_log, digest_of
from tests.support.corpus_widening import Candidate, arrow_type_at, candidates, widened_rows, widened_schema
from tests.support.row_counts import Rows, count_rows

PARTITION_VALUES_THAT_STAY = {"partition.kernel-unreadable"}
"""A wider type leaves the texts of partition values as they are, and some readers do not parse them by the new type."""
HUGE = {
    "delta-rs/COVID-19_NYT",
    "golden/parquet-decimal-dictionaries-v1",
    "golden/parquet-decimal-dictionaries-v2",
    "golden/parquet-decimal-type",
    "kernel-rs/300k-add-files-100-col-partitioned",
}
"""A hundred thousand rows or files and more: left out."""

NO_LOG = {"derived/empty-directory-a"}

GUARDED: dict[str, dict[str, str]] = {
    # Table -> column -> the guard that refuses it; its other columns are widened.
    "dat/check_constraints": {"int": "widen.check-constraint"},
    "dat/iceberg_compat_v1": {"int": "widen.iceberg-compat", "date": "widen.iceberg-compat"},
    "delta-rs/checkpoint-v2-table": {"id": "widen.identity"},
    "delta-rs/issue-2152": {"ID_D_DATE": "widen.identity"},
    "derived/written-by-deltalake-a": {"id": "widen.check-constraint"},
    "spark/dbr_8_1_generated_columns": {"c1": "widen.generated-column"},
}

NOTHING_TO_WIDEN = {
    # Tables whose columns are all as wide as they can be, and what becomes of a wish for the first one.
    "delta-rs/delta-0.8.0-partitioned": "widen.not-allowed",
    "delta-rs/table_with_column_mapping": "widen.not-allowed",
    "golden/data-reader-escaped-chars": "widen.not-allowed",
    "golden/data-reader-nullable-field-invalid-schema-key": "usage.column",
}

REFUSED = {
    # Table -> why none of its columns can be widened.
    "delta-rs-err/table_c": "log.gap",
    "delta-rs-err/table_d": "protocol.unknown-feature",
    "delta-rs-err/table_h": "protocol.unknown-feature",
    "derived/commit-truncated-a": "commit.bad-json",
    "derived/first-commit-missing-a": "log.start-missing",
    "derived/unknown-reader-feature-a": "protocol.unknown-feature",
    "derived/unknown-writer-feature-a": "protocol.unknown-feature",
    "golden/canonicalized-paths-normal-a": "schema.bad-json",
    "golden/canonicalized-paths-special-b": "schema.bad-json",
    "golden/corrupted-last-checkpoint": "schema.bad-json",
    "golden/deltalog-commit-info": "schema.bad-json",
    "golden/deltalog-invalid-protocol-version": "protocol.version-out-of-range",
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": "schema.bad-json",
    "golden/deltalog-state-reconstruction-without-protocol": "protocol.missing",
    "golden/update-deleted-directory": "schema.bad-json",
    "derived/last-checkpoint-dangling-a": "hint.ahead-of-log",
    "kernel-java/catalog-owned-preview": "catalog.managed",
    "kernel-rs-uc/catalog_managed_0": "catalog.managed",
    "kernel-rs/crc-malformed": "log.not-a-table",
}

ALLOWED_INFOS = {"history.writer-mix", "checkpoint.replay-unavailable"}
"""Observations that a widened table may have for the first time: another engine has written to it; the checkpoint that
was all there was has a commit after it now.
"""

CHOSEN = [table for table in (*WRITABLE, *UNWRITABLE) if table.id not in HUGE | NO_LOG]
WHOLLY_GUARDED = GUARDED.keys() - {"dat/check_constraints"}
WIDENED = [table for table in CHOSEN if table.id not in {*REFUSED, *NOTHING_TO_WIDEN, *WHOLLY_GUARDED}]


def each(tables: list[CorpusTable]) -> pytest.MarkDecorator:
    """Return one case per table."""
    chosen = [pytest.param(table, id=table.id) for table in tables]
    return pytest.mark.parametrize("table", chosen)


def open_copy(table: CorpusTable, root: Path, place: Path) -> Table:
    return Table(open_storage(str(copy_log(table, root, place, with_data=True))), clock=fixed_clock(NOW_MS))


def columns_of(snapshot: Snapshot) -> list[Candidate]:
    return candidates(json.loads(snapshot.metadata.schema_string or ""), snapshot.metadata.partition_columns)


def widen(opened: Table, *changes: tuple[str, str]) -> int:
    version = opened.widen_type(*changes, enable=True, upgrade_protocol=True).committed_version
    assert version is not None
    commit = Path(opened.uri.removeprefix("file://")) / commit_path(version)
    os.utime(commit, ns=(NOW_MS * 1_000_000,) * 2)  # the clock stands still, that of files does not
    return version


def rows_of(table: CorpusTable, snapshot: Snapshot) -> Rows | None:
    """All rows; None where data files of the table are missing, which it must know."""
    scan = snapshot.scan()
    if table.id in UNREADABLE:
        with pytest.raises(DataUnreadable):
            list(scan)
        return None
    return count_rows(scan, scan.schema.names)


def rules_of(opened: Table, *, infos: bool) -> set[str]:
    """The rules that find something."""
    found = opened.validate(max_findings=1).findings
    return {finding.rule.id for finding in found if (finding.rule.severity is Severity.INFO) == infos}


@each(WIDENED)
def test_rows_stay_and_their_values_have_the_wider_types(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    opened = open_copy(table, root, tmp_path / "t")
    before = opened.snapshot()
    chosen = [one for one in columns_of(before) if one.path not in GUARDED.get(table.id, {})]
    rows, found, seen = rows_of(table, before), rules_of(opened, infos=False), rules_of(opened, infos=True)
    is_of_preview = "typeWidening-preview" in before.config.features
    schema = json.loads(before.metadata.schema_string or "")
    assert chosen

    version = widen(opened, *(one.change for one in chosen))

    after = opened.snapshot()
    assert before.version + 1 == version == after.version
    expected = widened_schema(schema, chosen, version if is_of_preview else None)
    assert expected == json.loads(after.metadata.schema_string or "")
    assert after.config.features >= before.config.features | {
        "typeWidening-preview" if is_of_preview else "typeWidening"
    }
    assert after.raw_metadata["configuration"]["delta.enableTypeWidening"] == "true"
    widened = after.scan().schema
    assert [one.arrow_type for one in chosen] == [arrow_type_at(widened, one.steps) for one in chosen]
    assert before.scan().schema.names == widened.names
    assert rows_of(table, after) == (None if rows is None else widened_rows(rows, before.scan().schema, chosen))
    old = opened.snapshot(version=before.version)
    assert (before.scan().schema, schema) == (old.scan().schema, json.loads(old.metadata.schema_string or ""))
    assert rows == rows_of(table, old)
    assert set() == rules_of(opened, infos=False) - found - PARTITION_VALUES_THAT_STAY
    assert set() == rules_of(opened, infos=True) - seen - ALLOWED_INFOS


@each([table for table in CHOSEN if table.id in GUARDED])
def test_columns_on_which_something_depends_are_refused(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    opened = open_copy(table, root, tmp_path / "t")
    before = digest_of(tmp_path / "t" / "_delta_log")
    by_path = {one.path: one for one in columns_of(opened.snapshot())}

    for path, code in GUARDED[table.id].items():
        with pytest.raises(Refused) as raised:
            widen(opened, by_path[path].change)
        assert code == raised.value.code

    assert before == digest_of(tmp_path / "t" / "_delta_log")


@each([table for table in CHOSEN if table.id in REFUSED or table.id in NOTHING_TO_WIDEN])
def test_tables_that_cannot_be_widened_are_refused_by_reason(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    opened = open_copy(table, root, tmp_path / "t")
    before = digest_of(tmp_path / "t" / "_delta_log")

    request = WidenRequest((wish_of(table),), enable=True, upgrade_protocol=True)
    codes = [code_of(lambda: execute_change(Widening(request), opened)), code_of(lambda: planned(opened, request))]

    assert [(REFUSED | NOTHING_TO_WIDEN)[table.id]] * 2 == codes
    assert before == digest_of(tmp_path / "t" / "_delta_log")


def planned(opened: Table, request: WidenRequest) -> None:
    """Plan, and raise what refuses the plan."""
    refusals = plan_change(Widening(request), opened).refusals
    if refusals:
        raise refusal_error(refusals)


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(DeltacliError) as raised:
        action()
    return raised.value.code


def wish_of(table: CorpusTable) -> tuple[str, str]:
    """A change of the first column that can be widened, or of the first at all."""
    texts = [one["schema"] for one in reversed(table.entry.get("metadatas", [])) if one.get("schema")]
    schema: Document = json.loads(texts[0]) if texts else {"type": "struct", "fields": []}
    first = schema["fields"][0]["name"] if schema["fields"] else "id"
    return next((one.change for one in candidates(schema, ())), (f"`{first}`", "long"))


def test_every_table_is_widened_or_refused(root: Path) -> None:
    kinds: dict[str, Counter[str]] = {"top": Counter(), "nested": Counter(), "partition": Counter()}
    for table in WIDENED:
        state = next(version for version in reversed(table.versions) if "error" not in version)
        metadata = table.entry["metadatas"][state["metadata"]]
        found = candidates(json.loads(metadata["schema"]), metadata["partitionColumns"])
        for one in found:
            kinds[one.place][one.kind] += one.path not in GUARDED.get(table.id, {})

    assert (194, 188) == (len(corpus.tables()), len(CHOSEN))
    assert (160, 5, 19, 4) == (len(WIDENED), len(WHOLLY_GUARDED), len(REFUSED), len(NOTHING_TO_WIDEN))
    assert len(CHOSEN) == len(WIDENED) + len(WHOLLY_GUARDED) + len(REFUSED) + len(NOTHING_TO_WIDEN)
    assert {
        "top": {"byte": 7, "short": 9, "integer": 74, "long": 80, "decimal": 13, "float": 7, "date": 28},
        "nested": {"byte": 2, "short": 3, "integer": 12, "long": 9, "decimal": 2, "float": 2},
        "partition": {"byte": 1, "short": 1, "integer": 9, "long": 3, "decimal": 1, "float": 1, "date": 1},
    } == kinds
