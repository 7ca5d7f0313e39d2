"""Commits that a catalog ratifies: what is sent, what an answer proves, and what the catalog is told of metadata."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from deltacli.catalogs.base import Answer, CatalogTable, Verdict
from deltacli.catalogs.lockstep import CONTRACT
from deltacli.changing.commit import Committed, commit
from deltacli.core.errors import (
    CatalogNameUnknown,
    CatalogUnavailable,
    ConflictLost,
    DeltacliError,
    OutcomeUnknown,
    Refused,
)
from deltacli.table.rebuild import read_snapshot
from tests.support.actions import add, commit_info, domain, remove, to_bytes
from tests.support.builder import commit_path
from tests.support.catalog_state import FEATURES, NAME, UUID, Fault, KilledError, MemoryCatalog, Row
from tests.support.managed_tables import (
    PROPERTIES,
    ManagedTable,
    adding,
    managed_birth,
    managed_lines,
    paths_of,
    proposed,
    quiet_machine,
    removing,
    stamp_of,
)

STAGED = "_delta_log/_staged_commits"


def faults(*planned: Fault | None, of: str = "ratify") -> Callable[[str], Fault | None]:
    """Return what decides on the requests of a kind, one after the other; later ones go well."""
    left = list(planned)
    return lambda what: left.pop(0) if what == of and left else None


def _commit(table: ManagedTable, catalog: MemoryCatalog, make: Any = None, **opened: Any) -> Committed:
    done = commit(table.open(catalog, **opened)[0].bind_to_directory(), make or adding("new.parquet"))
    assert isinstance(done, Committed)
    return done


def _paths(table: ManagedTable) -> list[str]:
    return paths_of(read_snapshot(table.open()[0]))


def test_a_property_is_staged_ratified_published_and_reported() -> None:
    table = ManagedTable([0])
    opened, catalog = table.open()
    assert opened.set_properties({"delta.appendOnly": "false", "owner": "me"}).committed_version == 1
    (name,) = table.staged_names()
    assert re.fullmatch(rf"{1:020d}\.[0-9a-f-]{{36}}\.json", name)
    data = table.store.read(f"{STAGED}/{name}")
    assert data.endswith(b"}\n")
    assert table.store.read(commit_path(1)) == data
    (body,) = catalog.bodies
    sent = proposed(body)
    assert sent["set-properties"]["updates"] == {"delta.appendOnly": "false", "owner": "me"}
    assert sent.keys() == {"add-commit", "set-properties"}
    assert sent["add-commit"]["commit"]["file-size"] == len(data)
    stamp = json.loads(data.splitlines()[0])["commitInfo"]["inCommitTimestamp"]
    assert sent["add-commit"]["commit"]["timestamp"] == stamp
    assert (table.now.properties["owner"], table.now.unpublished, catalog.reported) == ("me", [], [1])


def _others(table: ManagedTable, *lines: Any) -> Callable[[str], None]:
    """Return what lets another writer have version 1 before the first proposal arrives."""

    def act(what: str) -> None:
        if what == "ratify" and table.now.latest == 0:
            data = to_bytes(managed_lines(1, *lines))
            commit_of = table._commit(1, data, "theirs")
            table.memory.write(f"{STAGED}/{commit_of['file-name']}", data, modified_ms=stamp_of(1) + 1)
            table.now.rows = [Row(commit_of)]

    return act


def test_another_writer_comes_first() -> None:
    table = ManagedTable([0])
    catalog = table.catalog()
    catalog.before = _others(table, add("theirs.parquet", size=1, records=1))
    done = _commit(table, catalog)
    assert done.version == 2
    first, second = (proposed(body)["add-commit"]["commit"] for body in catalog.bodies)
    assert first["file-name"] != second["file-name"]
    assert second["timestamp"] > stamp_of(1)
    assert _paths(table) == ["new.parquet", "part-00000.parquet", "theirs.parquet"]
    assert table.published_versions() == [0, 1, 2]


def test_a_conflict_that_stands_only_in_a_staged_file_is_found() -> None:
    table = ManagedTable([0])
    catalog = table.catalog()
    catalog.before = _others(table, remove("part-00000.parquet", deleted_ms=1))
    with pytest.raises(Refused, match="is gone"):
        _commit(table, catalog, removing("part-00000.parquet"))
    assert (table.now.latest, len(table.staged_names())) == (1, 2)


LOST = {
    "landed, answered again": ("0.6", [Fault.AFTER], 1),
    "landed, denied later": ("0.5", [Fault.AFTER], 1),
    "lost on the way": ("0.6", [Fault.BEFORE], 1),
    "late": ("0.6", [Fault.LATE], 1),
    "late, denied": ("0.5", [Fault.LATE], 1),
    "unknown three times": ("0.6", [Fault.UNKNOWN] * 3, 1),
    "unknown and done": ("main", [Fault.UNKNOWN_DONE] * 2, 1),
    "asked to wait": ("0.6", [Fault.THROTTLED] * 3, 1),
    "locked": ("0.6", [Fault.LOCKED], 1),
    "locked, then lost": ("0.5", [Fault.LOCKED, Fault.AFTER], 1),
    "lost, then asked to wait": ("0.6", [Fault.AFTER, Fault.THROTTLED], 1),
}


@pytest.mark.parametrize("case", LOST)
def test_lost_answers_are_resolved_with_the_same_bytes(case: str) -> None:
    release, planned, version = LOST[case]
    table = ManagedTable([0], release=release)
    catalog = table.catalog(decide=faults(*planned))
    assert _commit(table, catalog).version == version
    assert len({*catalog.bodies}) == 1
    assert len(table.staged_names()) == 1
    assert (table.now.latest, _paths(table)) == (1, ["new.parquet", "part-00000.parquet"])
    assert table.published_versions() == [0, 1]


@pytest.mark.parametrize("release", ["0.5", "0.6", "main"])
@pytest.mark.parametrize("is_own", [True, False])
def test_a_version_that_left_the_catalog_is_decided_by_its_published_file(release: str, *, is_own: bool) -> None:
    table = ManagedTable([0], release=release)
    catalog = table.catalog(decide=faults(Fault.AFTER if is_own else Fault.BEFORE))
    gone: list[str] = []

    def act(what: str) -> None:
        if gone or what != "load" or len(catalog.bodies) != 1:
            return
        gone.append(what)
        if not is_own:
            table.now.rows = [Row(table._commit(1, b"x", "theirs"))]
        data = (
            table.store.read(f"{STAGED}/{table.now.rows[0].file_name}")
            if is_own
            else to_bytes(managed_lines(1, add("theirs.parquet", size=1, records=1)))
        )
        table.memory.write(commit_path(1), data)
        last = table._commit(2, b"", "last")
        data = to_bytes(managed_lines(2, add("later.parquet", size=1, records=1)))
        table.memory.write(commit_path(2), data)
        table.now.rows = [Row(last, is_backfilled=True)]

    catalog.before = act
    assert _commit(table, catalog).version == (1 if is_own else 3)
    assert _paths(table).count("new.parquet") == 1


def test_a_success_that_shows_another_file_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ManagedTable([0])
    catalog = table.catalog()
    catalog.before = _others(table, add("theirs.parquet", size=1, records=1))
    ratify, load = catalog.ratify, catalog.load

    def claim(found: Any, body: bytes) -> Any:
        answer = ratify(found, body)
        return answer if answer.verdict is not Verdict.LOST else Answer(Verdict.RATIFIED, load(NAME))

    monkeypatch.setattr(catalog, "ratify", claim)
    assert _commit(table, catalog).version == 2
    assert _paths(table) == ["new.parquet", "part-00000.parquet", "theirs.parquet"]


def test_an_outcome_that_stays_unknown_is_said_so() -> None:
    table = ManagedTable([0])
    catalog = table.catalog(decide=lambda what: Fault.UNKNOWN if what == "ratify" else None)
    with pytest.raises(OutcomeUnknown) as raised:
        _commit(table, catalog)
    (name,) = table.staged_names()
    assert (raised.value.exit_code, len({*catalog.bodies}), len(catalog.bodies)) == (8, 1, 6)
    assert name in raised.value.facts["why"]
    assert "if the table has version 1 and contains this txnId" in raised.value.facts["to check"]


@pytest.mark.parametrize(
    ("fault", "budget", "sent"), [(Fault.UNKNOWN, 1.0, 3), (Fault.UNKNOWN, 0.0, 1), (Fault.THROTTLED, 1.0, 3)]
)
def test_pauses_of_a_proposal_end_with_the_retry_budget(fault: Fault, budget: float, sent: int) -> None:
    table = ManagedTable([0])
    catalog = table.catalog(decide=lambda what: fault if what == "ratify" else None)
    handle, _ = table.open(catalog, budget_seconds=budget)
    began = handle.machine.monotonic()
    with pytest.raises(OutcomeUnknown if fault is Fault.UNKNOWN else CatalogUnavailable):
        commit(handle.bind_to_directory(), adding("new.parquet"))
    assert (len(catalog.bodies), len(table.staged_names())) == (sent, 1)
    assert handle.machine.monotonic() - began < budget + 1.5


@pytest.mark.parametrize("found", ["no table", "another table in the answer"])
def test_a_lost_answer_and_another_table_end_the_run_at_once(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ManagedTable([0])
    catalog = table.catalog(decide=lambda what: Fault.BEFORE if what == "ratify" else None)
    ratify = catalog.ratify

    def judged(known: CatalogTable, body: bytes) -> Answer:
        ratify(known, body)
        if found == "no table":

            def load(_: object) -> CatalogTable:
                raise CatalogNameUnknown("the catalog has no table")

            monkeypatch.setattr(catalog, "load", load)
            return Answer(Verdict.UNKNOWN, said="no answer")
        return Answer(Verdict.UNKNOWN, known._replace(uuid="another"), "the answer is about another table")

    monkeypatch.setattr(catalog, "ratify", judged)
    with pytest.raises(OutcomeUnknown) as raised:
        _commit(table, catalog)
    assert len(catalog.bodies) == 1
    assert ("was dropped or renamed" if found == "no table" else "is another table") in raised.value.facts["why"]


@pytest.mark.parametrize("then", [Verdict.REFUSED, Verdict.PUBLISH_FIRST, Verdict.AGAIN, "another table"])
def test_nothing_that_is_said_after_a_lost_answer_proves_that_nothing_was_committed(
    then: Verdict | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ManagedTable([0])
    catalog = table.catalog(decide=lambda what: Fault.UNKNOWN if what == "ratify" else None)
    ratify = catalog.ratify

    def judged(found: CatalogTable, body: bytes) -> Answer:
        answer = ratify(found, body)
        if len(catalog.bodies) == 1:
            return answer
        if isinstance(then, Verdict):
            return Answer(then, said="no")
        table.server.uuid = "another"
        return Answer(Verdict.LOST)

    monkeypatch.setattr(catalog, "ratify", judged)
    with pytest.raises(OutcomeUnknown) as raised:
        _commit(table, catalog)
    (name,) = table.staged_names()
    assert (raised.value.exit_code, len({*catalog.bodies})) == (8, 1)
    assert name in raised.value.facts["why"]


def test_a_run_that_ends_before_the_proposal_leaves_a_file_and_no_version() -> None:
    table = ManagedTable([0])
    with pytest.raises(KilledError):
        _commit(table, table.catalog(decide=faults(Fault.KILLED_BEFORE)))
    assert _commit(table, table.catalog(), machine=quiet_machine(seed=1)).version == 1
    assert (len(table.staged_names()), _paths(table)) == (2, ["new.parquet", "part-00000.parquet"])


def test_a_run_that_ends_before_the_publication_is_followed_by_one_that_publishes() -> None:
    table = ManagedTable([0])
    with pytest.raises(KilledError):
        _commit(table, table.catalog(decide=faults(Fault.KILLED_AFTER)))
    assert table.published_versions() == [0]
    assert _commit(table, table.catalog(), adding("second.parquet")).version == 2
    assert table.published_versions() == [0, 1, 2]


def test_too_many_commits_are_published_first() -> None:
    table = ManagedTable([0], range(1, 11))
    catalog = table.catalog()
    assert _commit(table, catalog).version == 11
    assert (table.published_versions(), catalog.reported) == ([*range(12)], [10, 11])
    assert len({*catalog.bodies}) == 1


def test_too_many_commits_that_cannot_be_published_stop_the_commit() -> None:
    table = ManagedTable([0], range(1, 11))
    table.memory.write(commit_path(3), b"{}\n")
    with pytest.raises(ConflictLost) as raised:
        _commit(table, table.catalog())
    assert (raised.value.code, raised.value.facts["not published"]) == ("catalog.unpublished-limit", "3-10")


def test_a_limit_that_publication_does_not_help_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ManagedTable([0], range(1, 4))
    catalog = table.catalog()
    full = Answer(Verdict.PUBLISH_FIRST, said="full")
    monkeypatch.setattr(catalog, "ratify", lambda *_: full)
    with pytest.raises(ConflictLost) as raised:
        _commit(table, catalog)
    assert (raised.value.code, raised.value.exit_code) == ("catalog.unpublished-limit", 6)
    assert (table.now.latest, table.published_versions()) == (3, [0, 1, 2, 3])


def test_a_catalog_that_asks_to_wait_for_ever_is_an_error_with_nothing_done() -> None:
    table = ManagedTable([0])
    with pytest.raises(CatalogUnavailable):
        _commit(table, table.catalog(decide=lambda what: Fault.THROTTLED if what == "ratify" else None))
    assert table.now.latest == 0


def _as(catalog: MemoryCatalog, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> MemoryCatalog:
    """Let a client take requests that were not ratified otherwise."""
    ratify = catalog.ratify

    def judged(found: CatalogTable, body: bytes) -> Answer:
        answer = ratify(found, body)
        return answer._replace(verdict=verdict) if answer.verdict is Verdict.AGAIN else answer

    monkeypatch.setattr(catalog, "ratify", judged)
    return catalog


def test_requirements_that_are_not_met_may_count_as_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ManagedTable([0])
    catalog = _as(table.catalog(decide=faults(Fault.LOCKED, Fault.LOCKED)), Verdict.LOST, monkeypatch)
    assert _commit(table, catalog).version == 1
    assert (_paths(table), table.now.latest) == (["new.parquet", "part-00000.parquet"], 1)


def test_a_limit_without_anything_to_publish_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ManagedTable([0])
    catalog = _as(table.catalog(decide=faults(Fault.THROTTLED, Fault.THROTTLED)), Verdict.PUBLISH_FIRST, monkeypatch)
    assert _commit(table, catalog).version == 1
    assert len({*catalog.bodies}) == 1


@pytest.mark.parametrize("verdict", [Verdict.AGAIN, Verdict.LOST])
def test_another_table_under_the_name_ends_the_run(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ManagedTable([0])
    catalog = _as(table.catalog(), verdict, monkeypatch)

    def replace(what: str) -> None:
        if what == "ratify":
            table.now.uuid = "another"

    catalog.before = replace
    with pytest.raises(Refused, match="another table") as raised:
        _commit(table, catalog)
    assert (raised.value.code, len(catalog.bodies)) == ("plan.other-table", 1)
    assert (table.now.latest, table.published_versions()) == (0, [0])


@pytest.mark.parametrize("moment", ["load", "ratify"])
def test_a_table_that_is_no_longer_managed_ends_the_run(moment: str) -> None:
    table = ManagedTable([0])
    opened, catalog = table.open()

    def act(what: str) -> None:
        if what == moment:
            table.now.properties = {}
            table.now.table_type = "EXTERNAL"

    catalog.before = act
    held = opened.bind_to_directory()
    read_snapshot(held)
    with pytest.raises(Refused):
        commit(held, adding("new.parquet"))
    assert table.published_versions() == [0]


def test_the_clock_of_a_commit_never_goes_back() -> None:
    table = ManagedTable([0, 1], [2])
    catalog = table.catalog()
    _commit(table, catalog, machine=quiet_machine(stamp_of(2) - 3_600_000))
    assert proposed(catalog.bodies[0])["add-commit"]["commit"]["timestamp"] == stamp_of(2) + 1


# -- metadata in lockstep ----------------------------------------------------------------------------------------------


def test_columns_are_told_in_the_spelling_of_the_catalog() -> None:
    table = ManagedTable([0])
    opened, catalog = table.open()
    opened.alter(changes=[{"change": "add", "column": "tags", "type": "array<map<string, array<int>>>"}])
    (field,) = [one for one in proposed(catalog.bodies[0])["set-columns"]["columns"]["fields"] if one["name"] == "tags"]
    assert field["type"]["contains-null"] is True
    assert field["type"]["element-type"]["value-type"]["element-type"] == "integer"
    schema = json.loads(next(line["metaData"]["schemaString"] for line in table.lines(1) if "metaData" in line))
    assert schema["fields"][1]["type"]["elementType"]["valueType"]["elementType"] == "integer"


def test_a_feature_is_told_with_all_others() -> None:
    table = ManagedTable([0])
    opened, catalog = table.open()
    opened.add_features(["domainMetadata"])
    told = proposed(catalog.bodies[0])["set-protocol"]["protocol"]
    assert sorted(told["writer-features"]) == sorted([*FEATURES, "domainMetadata"])
    assert (told["min-reader-version"], told["min-writer-version"]) == (3, 7)


def test_a_property_that_is_removed_is_told() -> None:
    table = ManagedTable([0], birth=lambda: managed_birth(properties=PROPERTIES | {"owner": "me"}))
    opened, catalog = table.open()
    opened.unset_properties(["owner"])
    sent = proposed(catalog.bodies[0])
    assert (sent["remove-properties"]["removals"], "set-properties" in sent) == (["owner"], False)
    assert not [
        key for line in table.lines(1) for key in line.get("metaData", {}).get("configuration", {}) if "delta.f" in key
    ]


FULL = {**PROPERTIES, "delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "true"}


def contracted() -> ManagedTable:
    """A table that meets the contract of its catalog, which checks it as servers do."""
    table = ManagedTable([0], birth=lambda: managed_birth(properties=FULL))
    table.server.properties |= FULL
    table.state.contract = CONTRACT
    return table


@pytest.mark.parametrize("key", [key for key in CONTRACT if key != "delta.enableInCommitTimestamps"])
@pytest.mark.parametrize("is_dry", [True, False])
def test_a_change_of_what_the_contract_requires_is_noted_before_it_is_made(key: str, *, is_dry: bool) -> None:
    table = contracted()
    opened, _ = table.open()

    opened.set_properties({"owner": "me"}, dry_run=is_dry)
    assert [note for note in table.notes if "requires" in note] == []
    opened.unset_properties([key], dry_run=is_dry)

    assert [f"{key}={CONTRACT[key]}" in note for note in table.notes if "requires" in note] == [True]


def test_a_feature_that_the_contract_refuses_names_the_command_that_cures_it() -> None:
    table = contracted()
    seeds = itertools.count()

    def opened() -> Any:
        return table.open(machine=quiet_machine(seed=next(seeds)))[0]

    opened().set_properties({"delta.checkpointPolicy": "classic"})
    opened().unset_properties(["delta.checkpoint.writeStatsAsJson"])

    with pytest.raises(Refused) as raised:
        opened().add_features(["domainMetadata"])

    required = {"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsJson": "true"}
    assert raised.value.facts["required"] == ", ".join(f"{key}={value}" for key, value in required.items())
    assert str(raised.value.hint).startswith("deltacli properties")
    assert all(f"{key}={value}" in str(raised.value.hint) for key, value in required.items())

    opened().set_properties(required)
    opened().add_features(["domainMetadata"])
    assert "delta.feature.domainMetadata" in table.now.properties


def test_another_refusal_of_the_catalog_advises_no_properties() -> None:
    table = contracted()
    table.state.contract = {"delta.unknown": "x"}

    with pytest.raises(Refused) as raised:
        table.open()[0].add_features(["domainMetadata"])

    assert "required" not in raised.value.facts
    assert "properties" not in str(raised.value.hint)


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "in-commit timestamps off": (
        lambda table: table.set_properties({"delta.enableInCommitTimestamps": "false"}),
        "catalog.property",
    ),
    "another id": (
        lambda table: table.set_properties({"io.unitycatalog.tableId": "x"}, force=True),
        "catalog.property",
    ),
    "vectors dropped": (lambda table: table.drop_features("deletionVectors"), "catalog.feature"),
    "checkpoints dropped": (lambda table: table.drop_features("v2Checkpoint"), "catalog.feature"),
    "management dropped": (lambda table: table.drop_features("catalogManaged"), ""),
    "management added": (lambda table: table.add_features(["catalogOwned-preview"]), ""),
}


@pytest.mark.parametrize("is_dry", [True, False])
@pytest.mark.parametrize("case", REFUSED)
def test_what_the_catalog_needs_is_not_changed(case: str, *, is_dry: bool) -> None:
    change, code = REFUSED[case]
    table = ManagedTable([0])
    opened, catalog = table.open()
    if is_dry:
        made = {"set_properties", "drop_features", "add_features"}
        opened = _Dry(opened, made)  # type: ignore[assignment]
    with pytest.raises(DeltacliError) as raised:
        change(opened)
    assert raised.value.exit_code in (2, 4)
    assert code in ("", raised.value.code)
    assert (catalog.bodies, table.published_versions()) == ([], [0])


class _Dry:
    """A table whose changes are only planned."""

    def __init__(self, table: Any, names: set[str]) -> None:
        self._table, self._names = table, names

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)
        return (lambda *given, **named: method(*given, **named, dry_run=True)) if name in self._names else method


def test_a_table_that_is_kept_as_iceberg_is_not_changed() -> None:
    uniform = PROPERTIES | {"delta.universalFormat.enabledFormats": "iceberg"}
    for table in (ManagedTable([0], birth=lambda: managed_birth(properties=uniform)), ManagedTable([0])):
        if "delta.universalFormat.enabledFormats" not in str(table.commits[0]):
            table.now.uniform = {"iceberg": {}}
        with pytest.raises(Refused) as raised:
            _commit(table, table.catalog())
        assert raised.value.code == "catalog.uniform"


def test_domains_without_a_form_are_refused_and_others_told() -> None:
    features = (*FEATURES, "clustering", "domainMetadata")
    clustered = json.dumps({"clusteringColumns": [["id"]], "domainName": "delta.clustering"})

    def making(name: str, text: str) -> Any:
        def make(_: Any) -> Any:
            from deltacli.delta.log.commit_content import CommitRequest

            return CommitRequest("CLUSTER BY", domains=(domain(name, text)["domainMetadata"],))

        return make

    table = ManagedTable([0], birth=lambda: managed_birth(features))
    catalog = table.catalog()
    _commit(table, catalog, making("delta.clustering", clustered))
    assert proposed(catalog.bodies[0])["set-domain-metadata"]["updates"] == {
        "delta.clustering": {"clusteringColumns": [["id"]]}
    }
    with pytest.raises(Refused) as raised:
        _commit(table, table.catalog(), making("x.y", "{}"))
    assert raised.value.code == "catalog.domain"
    assert len(table.staged_names()) == 1


def test_row_ids_that_are_given_are_told() -> None:
    features = (*FEATURES, "rowTracking", "domainMetadata")
    table = ManagedTable(
        [0], birth=lambda: [*managed_birth(features, PROPERTIES | {"delta.enableRowTracking": "true"}), MARK]
    )
    catalog = table.catalog()
    from deltacli.delta.log.commit_content import CommitRequest, body_lines

    line = add("new.parquet", size=1, records=5)
    _commit(table, catalog, lambda _: CommitRequest("WRITE", body=lambda slot: body_lines([line], slot), new_rows=5))
    assert proposed(catalog.bodies[0])["set-domain-metadata"]["updates"] == {
        "delta.rowTracking": {"rowIdHighWaterMark": 104}
    }


MARK = domain("delta.rowTracking", '{"rowIdHighWaterMark":99}')


# -- who may commit ----------------------------------------------------------------------------------------------------


def test_by_path_the_table_is_not_changed_and_the_address_is_named() -> None:
    from deltacli.api.table import Table

    table = ManagedTable([0])
    with pytest.raises(Refused) as raised:
        Table(table.store).set_properties({"owner": "me"})
    assert (raised.value.code, "uc://CATALOG.SCHEMA.TABLE" in str(raised.value.hint)) == ("catalog.managed", True)


@pytest.mark.parametrize(
    ("features", "properties", "code"),
    [
        (("catalogOwned-preview", *FEATURES[1:]), PROPERTIES, "catalog.managed"),
        (FEATURES, {k: v for k, v in PROPERTIES.items() if "tableId" not in k}, "catalog.diverged"),
        (FEATURES, PROPERTIES | {"io.unitycatalog.tableId": "another"}, "catalog.diverged"),
        (FEATURES, PROPERTIES | {"delta.enableInCommitTimestamps": "false"}, "catalog.ict-missing"),
    ],
)
def test_a_log_that_is_not_that_of_the_catalog_is_not_changed(
    features: tuple[str, ...], properties: dict[str, str], code: str
) -> None:
    table = ManagedTable([0], birth=lambda: managed_birth(features, properties))
    handle = table.open()[0]
    assert [read_snapshot(handle).version, read_snapshot(handle).version] == [0, 0]
    of_another = f"the log is of table another, and {NAME} is table {UUID}: its rows may be of another table"
    assert table.notes == [of_another] * ("another" in properties.values())
    with pytest.raises(Refused) as raised:
        _commit(table, table.catalog())
    assert (raised.value.code, table.now.latest) == (code, 0)
    assert "uc://CATALOG" not in str(raised.value.hint)


def test_a_published_file_above_the_latest_version_stops_a_commit() -> None:
    table = ManagedTable([0])
    table.memory.write(commit_path(1), to_bytes([commit_info()]))
    with pytest.raises(Refused) as raised:
        _commit(table, table.catalog())
    assert (raised.value.code, table.now.latest) == ("catalog.diverged", 0)


def test_a_staged_file_that_is_gone_stops_a_commit() -> None:
    table = ManagedTable([0], [1])
    list(table.memory.delete_many([f"{STAGED}/{table.now.rows[0].file_name}"]))
    table.memory.write(commit_path(1), table.commits[1])
    with pytest.raises(Refused) as raised:
        _commit(table, table.catalog())
    assert raised.value.code == "catalog.diverged"
    assert NAME in table.state.tables


def test_log_and_catalog_agree_after_changes_of_all_kinds() -> None:
    table = ManagedTable([0])
    table.now.columns = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    opened, _ = table.open()
    opened.add_features(["domainMetadata"])
    opened.set_properties({"owner": "me", "delta.logRetentionDuration": "interval 9 days"})
    opened.unset_properties(["owner"])
    opened.alter(changes=[{"change": "mapping", "mode": "name"}], upgrade_protocol=True)
    opened.alter(changes=[{"change": "rename", "column": "id", "name": "key"}])
    opened.alter(changes=[{"change": "add", "column": "n", "type": "struct<a: decimal(10,2), b: array<int>>"}])
    opened.alter(changes=[{"change": "table-comment", "comment": "orders"}])
    assert opened.status_catalog().as_json()["divergence"] == []
    assert (table.now.comment, table.now.latest, table.published_versions()) == ("orders", 7, [*range(8)])
