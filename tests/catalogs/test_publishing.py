"""Publication: in order, compared, and reported only behind durable copies; and what is done only behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.changing.change import execute_change
from deltacli.changing.commit import commit
from deltacli.changing.execution import ChangeExecution
from deltacli.core.errors import DeltacliError, PartlyDone, Refused, StorageFailed
from deltacli.operations.catalog import Publish, PublishOutcome, PublishPlan
from deltacli.storage import Creation
from deltacli.storage.outcomes import Created
from tests.support.actions import to_bytes
from tests.support.builder import commit_path
from tests.support.catalog_state import Fault, ServerError
from tests.support.in_memory import MemoryStorage
from tests.support.managed_tables import TAG, ManagedTable, adding, managed_lines, rewritten


class Failing(MemoryStorage):
    """A store in which the copy of one version fails, or is written otherwise."""

    def __init__(self, version: int, how: str) -> None:
        super().__init__()
        self.path, self.how = commit_path(version), how

    def copy_within(self, source: str, target: str) -> Creation:
        if target != self.path:
            return super().copy_within(source, target)
        if self.how == "fails":
            raise StorageFailed("the store is full")
        if self.how == "is interrupted":
            raise KeyboardInterrupt
        self.write(target, b"{}\n")
        return Created()


def test_commits_are_published_in_order_and_reported_once() -> None:
    table = ManagedTable(range(8), [8, 9, 10])
    opened, catalog = table.open()
    done = opened.publish_catalog()
    assert (done.published, done.latest_published, catalog.reported) == ((8, 9, 10), 10, [10])
    assert [table.store.read(commit_path(version)) for version in (8, 9, 10)] == [
        table.commits[version] for version in (8, 9, 10)
    ]
    assert done.as_json(dry_run=False) == {"published": [8, 9, 10], "latestPublished": 10, "dryRun": False}
    assert opened.publish_catalog().as_json(dry_run=False)["published"] == []
    assert catalog.requests.count("report") == 1


def test_a_dry_run_says_what_would_be_published() -> None:
    table = ManagedTable(range(9), [8, 9])
    opened, catalog = table.open()
    plan = opened.plan_publish_catalog()
    assert [(one.version, one.is_there) for one in plan.items] == [(8, True), (9, False)]
    assert opened.publish_catalog(dry_run=True).as_json(dry_run=True) == {
        "published": [8, 9],
        "latestPublished": 7,
        "dryRun": True,
    }
    assert (table.published_versions(), catalog.reported) == ([*range(9)], [])
    assert opened.execute_publish_catalog(plan).published == (8, 9)


@pytest.mark.parametrize(("how", "code"), [("fails", "storage.failed"), ("writes other bytes", "catalog.diverged")])
def test_what_cannot_be_published_stops_what_follows(how: str, code: str) -> None:
    table = ManagedTable(range(8), [8, 9, 10], store=Failing(9, how))
    opened, catalog = table.open()
    with pytest.raises(PartlyDone) as raised:
        opened.publish_catalog()
    assert (raised.value.code, catalog.reported, 10 in table.published_versions()) == (code, [8], False)


@pytest.mark.parametrize(
    ("how", "fault"),
    [("fails", PartlyDone), ("writes other bytes", PartlyDone), ("is interrupted", KeyboardInterrupt)],
)
def test_what_was_published_before_an_error_or_an_interruption_is_told(how: str, fault: type[BaseException]) -> None:
    opened, _ = ManagedTable(range(8), [8, 9, 10], store=Failing(9, how)).open()
    executions: list[ChangeExecution[PublishPlan, PublishOutcome]] = []

    with pytest.raises(fault) as raised:
        execute_change(Publish(), opened, on_start=executions.append)

    assert [8] == executions[0].outcome.as_json(dry_run=False)["published"]
    told = raised.value.facts["so far"] if isinstance(raised.value, PartlyDone) else raised.value.__notes__
    assert told in ("published up to version 8", ["1 version published"])


def test_a_first_copy_that_differs_is_not_reported() -> None:
    table = ManagedTable(range(8), [8], store=Failing(8, "writes other bytes"))
    opened, catalog = table.open()
    with pytest.raises(Refused):
        opened.publish_catalog()
    assert catalog.reported == []


@pytest.mark.parametrize(
    ("change", "is_done"),
    [(lambda data: data, True), (lambda data: data.removesuffix(b"\n"), True), (rewritten, False)],
)
def test_a_published_file_is_done_if_its_lines_are_the_same(change: Callable[[bytes], bytes], *, is_done: bool) -> None:
    table = ManagedTable(range(8), [8])
    table.memory.write(commit_path(8), change(table.commits[8]))
    opened, catalog = table.open()
    if is_done:
        assert opened.publish_catalog().published == (8,)
    else:
        with pytest.raises(Refused) as raised:
            opened.publish_catalog()
        assert raised.value.code == "catalog.diverged"
    assert catalog.reported == ([8] if is_done else [])


BAD: dict[str, Callable[[ManagedTable], None]] = {
    "a hole before": lambda table: _delete(table, commit_path(7)),
    "size": lambda table: table.now.rows[0].commit.update({"file-size": 9}),
    "time": lambda table: table.now.rows[0].commit.update({"timestamp": 9}),
    "gone": lambda table: _delete(table, _staged(table)),
    "cut": lambda table: _write(table, table.commits[8][:-20]),
    "no object": lambda table: _write(table, table.commits[8][: -len(table.commits[8].splitlines()[-1]) - 1] + b"[]\n"),
    "no commitInfo": lambda table: _write(table, b"\n".join(table.commits[8].splitlines()[1:]) + b"\n"),
    "an empty line": lambda table: _write(table, table.commits[8].replace(b"\n", b"\n\n", 1)),
}


def _staged(table: ManagedTable) -> str:
    return f"_delta_log/_staged_commits/{table.now.rows[0].file_name}"


def _delete(table: ManagedTable, path: str) -> None:
    list(table.memory.delete_many([path]))


def _write(table: ManagedTable, data: bytes) -> None:
    table.memory.write(_staged(table), data)
    table.now.rows[0].commit["file-size"] = len(data)


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_as_ratified_is_not_published(case: str) -> None:
    table = ManagedTable(range(8), [8, 9])
    BAD[case](table)
    opened, catalog = table.open()
    assert opened.plan_publish_catalog().refusal is not None
    with pytest.raises(Refused) as raised:
        opened.publish_catalog()
    assert (raised.value.code, catalog.reported, 8 in table.published_versions()) == ("catalog.diverged", [], False)


def test_a_report_that_fails_is_said_and_can_be_repeated() -> None:
    table = ManagedTable(range(8), [8])
    opened, catalog = table.open(table.catalog(decide=lambda what: Fault.BEFORE if what == "report" else None))
    with pytest.raises(PartlyDone) as raised:
        opened.publish_catalog()
    assert (raised.value.code, raised.value.exit_code) == ("catalog.published-unreported", 5)
    assert [row.version for row in table.now.unpublished] == [8]
    catalog.decide = lambda _: None
    assert opened.publish_catalog().reported == 8


def test_a_report_that_the_server_refuses_leaves_its_commits() -> None:
    table = ManagedTable(range(8), [8])
    opened, catalog = table.open()

    def refuse(what: str) -> None:
        if what == "report":
            raise ServerError(400, "InvalidParameterValue", "file 8 is missing")

    catalog.before = refuse
    with pytest.raises(PartlyDone, match="file 8 is missing"):
        opened.publish_catalog()
    assert [row.version for row in table.now.unpublished] == [8]


def test_a_checkpoint_is_written_behind_a_publication() -> None:
    table = ManagedTable(range(3), [3, 4])
    opened, catalog = table.open()
    assert opened.checkpoint().version == 4
    assert (table.published_versions(), catalog.reported) == ([*range(5)], [4])


def test_no_checkpoint_is_written_where_publication_is_not_possible() -> None:
    table = ManagedTable(range(3), [3, 4])
    table.memory.write(commit_path(4), to_bytes(managed_lines(4))[:-1] + b" \n")
    opened, _ = table.open()
    with pytest.raises(DeltacliError):
        opened.checkpoint()
    assert not [stat.name for stat in table.store.list_from("_delta_log") if ".checkpoint." in stat.name]


def test_a_checksum_needs_no_publication_and_a_compaction_does() -> None:
    table = ManagedTable(range(3), [3, 4])
    opened, _ = table.open()
    opened.write_checksum()
    assert table.published_versions() == [0, 1, 2]
    opened.compact_log(2, 4)
    assert table.published_versions() == [*range(5)]


def _status(table: ManagedTable) -> Any:
    return table.open()[0].status_catalog()


def test_status_says_where_both_stand() -> None:
    table = ManagedTable(range(3), [3, 4])
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    table.now.columns = schema
    found = _status(table)
    assert found.divergence == ()
    assert (found.latest_ratified, found.latest_published, [one.version for one in found.unpublished]) == (4, 2, [3, 4])
    assert found.unpublished[0].age_ms == found.unpublished[1].age_ms + 1_000
    document = found.as_json()
    assert document["permissions"] == ["DATA_CLEANUP", "DATA_REORGANIZATION", "METADATA_CLEANUP"]
    table.now.operations = None
    assert _status(table).as_json()["permissions"] is None


DIVERGENCES: dict[str, tuple[Callable[[ManagedTable], None], str, str]] = {
    "property": (
        lambda t: t.now.properties.update({"delta.checkpointPolicy": "v1"}),
        "property",
        "delta.checkpointPolicy",
    ),
    "property of vectors": (
        lambda t: t.now.properties.update({"delta.enableDeletionVectors": "false"}),
        "property",
        "delta.enableDeletionVectors",
    ),
    "feature": (
        lambda t: t.now.properties.update({"delta.feature.domainMetadata": "supported"}),
        "protocol",
        "domainMetadata",
    ),
    "schema": (lambda t: t.now.columns.update({"fields": []}), "schema", "id"),
    "partition": (lambda t: t.now.partition_columns.append("day"), "schema", "partition columns"),
    "location": (lambda t: setattr(t.now, "location", "s3://elsewhere/t"), "location", "location"),
    "size": (lambda t: t.now.rows[0].commit.update({"file-size": 7}), "version", "3"),
    "time": (lambda t: t.now.rows[0].commit.update({"timestamp": 7}), "version", "3"),
    "published otherwise": (lambda t: t.memory.write(commit_path(3), rewritten(t.commits[3])), "version", "3"),
    "published above": (lambda t: t.memory.write(commit_path(5), b"{}\n"), "version", "5"),
    "hole": (lambda t: _delete(t, commit_path(2)), "version", "2"),
    "staged gone": (lambda t: _delete(t, _staged(t)), "missing-staged", "3"),
}


@pytest.mark.parametrize("case", DIVERGENCES)
def test_status_names_what_differs(case: str) -> None:
    change, kind, name = DIVERGENCES[case]
    table = ManagedTable(range(3), [3, 4])
    table.now.columns = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    assert _status(table).agrees
    change(table)
    assert (kind, name) in [(one.kind.value, one.name) for one in _status(table).divergence]


def test_staged_files_have_a_fate() -> None:
    table = ManagedTable(range(5), [4, 5])
    table.stage(3, table.commits[3], "published")
    table.stage(3, rewritten(table.commits[3]), "lost")
    table.stage(4, table.commits[4], "lost")
    table.stage(6, b"{", "future")
    table.builder.file("_delta_log/_staged_commits/readme.txt", b"x")
    found = table.open()[0].staged_catalog().items
    assert {(one.path.rpartition("/")[2].split(".", 1)[-1], one.version): one.fate.value for one in found} == {
        ("published.json", 3): "ratified",
        ("lost.json", 3): "lost",
        (f"{TAG}.json", 4): "ratified",
        ("lost.json", 4): "lost",
        (f"{TAG}.json", 5): "ratified",
        ("future.json", 6): "unknown",
        ("txt", None): "unknown",
    }


def test_other_tables_have_no_catalog() -> None:
    from deltacli.api.table import Table

    with pytest.raises(DeltacliError) as raised:
        Table(ManagedTable([0]).store).status_catalog()
    assert (raised.value.code, raised.value.exit_code) == ("catalog.not-managed", 2)
    assert raised.value.facts["a managed one"] == "uc://CATALOG.SCHEMA.TABLE"


def test_what_is_published_and_not_reported_is_a_note() -> None:
    found = _status(ManagedTable(range(4), [2, 3]))
    assert (found.unpublished, found.latest_published) == ((), 3)
    assert found.notes == ("published, but not reported to the catalog: 2-3",)


def test_a_commit_is_done_where_what_is_before_it_cannot_be_published() -> None:
    table = ManagedTable(range(3), [3])
    table.builder.checkpoint(2)
    del table.builder.files[commit_path(2)]
    opened, catalog = table.open()
    made = commit(opened.bind_to_directory(), adding("new.parquet"))
    assert (made.read_version, catalog.reported, table.published_versions()) == (3, [], [0, 1])
    why = "version 2 is neither published nor in the catalog, so no later version can be published"
    assert table.notes == [f"the commit is ratified and not published yet: {why}"]
