"""`vacuum --schemas`: what is deleted, what keeps a schema, what forbids it, faults, and the tables of the corpus."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltacli
from deltacli.core.errors import DeltacliError, Refused, UsageError
from deltacli.core.machine import fixed_clock
from deltacli.core.times import DAY_MS
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.paimon.table_files import find_schema_users, list_branches
from deltacli.operations.paimon.vacuum_schemas import (
    SchemaVacuumPlan,
    SchemaVacuumRequest,
    execute_schema_vacuum,
    plan_schema_vacuum,
)
from deltacli.storage import LocalStorage, Storage
from deltacli.table.handle import TableHandle
from tests.paimon.answers import Capture, ask, document, lines
from tests.support.builder import TableBuilder
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.paimon_builder import ID, NAME, PRICE, PaimonBuilder
from tests.support.paimon_corpus import branches

LATER = "2030-01-01"
LATER_MS = 1_893_456_000_000
VACUUM = ("--schemas", "--keep-last", "1", "--now", LATER)
COLUMNS = (ID, NAME, PRICE)


@pytest.fixture
def table(tmp_path: Path) -> PaimonBuilder:
    """Six schemas, written in 2023: a snapshot uses 1, a tag 2, data files 1 and 3; 4 is used by nothing."""
    built = PaimonBuilder(tmp_path / "t")
    for number in range(6):
        built.schema(*COLUMNS, options={"bucket": "2", "k": str(number)})
    built.snapshot(2, adds={"a": 1}).tag("keep", 1).snapshot(2, adds={"b": 3}).without("snapshot/snapshot-1")
    return aged(built)


def aged(built: PaimonBuilder) -> PaimonBuilder:
    """Give all files the same old time."""
    for path in built.root.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return built


def verdicts(capsys: Capture, built: PaimonBuilder, *options: str) -> dict[int, str]:
    """Return the reason for each schema."""
    found = document(capsys, "vacuum", built.root, *VACUUM, "--files", "--dry-run", *options)
    return {file["schemaId"]: file["reason"] for file in found["items"]}


def refusal(capsys: Capture, built: PaimonBuilder, *options: str) -> tuple[int, str]:
    """Return the exit code and the code of the error of a run that may delete; it must not."""
    before = sorted(path.name for path in (built.root / "schema").iterdir())
    code, _, err = ask(capsys, "vacuum", built.root, *VACUUM, "--yes", "--json", *options)
    assert before == sorted(path.name for path in (built.root / "schema").iterdir())
    return code, json.loads(err.splitlines()[-1])["code"]


def test_only_schemas_that_nothing_needs_are_deleted(table: PaimonBuilder, capsys: Capture) -> None:
    reasons = verdicts(capsys, table)

    assert {0: "oldest", 1: "used", 2: "used", 3: "used", 4: "unreferenced", 5: "newest"} == reasons


def test_deletion_needs_consent_and_is_repeatable(
    table: PaimonBuilder, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.cli.running.consent.system_clock", lambda: LATER_MS)

    refused = refusal_without_yes(capsys, table)
    done = document(capsys, "vacuum", table.root, *VACUUM, "--yes")
    again = document(capsys, "vacuum", table.root, *VACUUM, "--yes")

    assert (4, "consent.missing") == refused
    assert [1, 0] == [done["deleted"]["files"], again["deleted"]["files"]]
    assert ["schema-0", "schema-1", "schema-2", "schema-3", "schema-5"] == sorted(os.listdir(table.root / "schema"))


def refusal_without_yes(capsys: Capture, built: PaimonBuilder) -> tuple[int, str]:
    code, out, err = ask(capsys, "vacuum", built.root, *VACUUM, "--json")
    assert json.loads(out)["dryRun"]
    return code, json.loads(err.splitlines()[-1])["code"]


def test_lines_and_documents_have_the_same_content(table: PaimonBuilder, capsys: Capture) -> None:
    found = document(capsys, "vacuum", table.root, *VACUUM, "--files", "--dry-run")
    told = lines(capsys, "vacuum", table.root, *VACUUM, "--dry-run")

    assert found["items"] == [{key: value for key, value in line.items() if key != "type"} for line in told[:-1]]
    assert found["planId"] == told[-1]["planId"]


def test_the_age_of_a_schema_counts_from_its_replacement(table: PaimonBuilder, capsys: Capture) -> None:
    """
    A writer that opened the table before the change may still commit files of the older schema.
    """
    path = table.root / "schema/schema-5"
    os.utime(path, (LATER_MS / 1_000 - 86_400, LATER_MS / 1_000 - 86_400))

    assert "young" == verdicts(capsys, table)[4]


def test_the_last_versions_are_kept(table: PaimonBuilder, capsys: Capture) -> None:
    found = document(capsys, "vacuum", table.root, "--schemas", "--keep-last", "2", "--now", LATER, "--dry-run")

    assert (1, 0) == (found["kept"]["last"], found["candidates"]["files"])


def test_a_schema_that_cannot_be_read_is_kept(table: PaimonBuilder, capsys: Capture) -> None:
    aged(table.write("schema/schema-4", b"{"))

    assert "unreadable" == verdicts(capsys, table)[4]


def branched(built: PaimonBuilder) -> PaimonBuilder:
    """Copy all schemas to a branch, as Paimon does."""
    for path in (built.root / "schema").iterdir():
        built.write(f"branch/branch-b/schema/{path.name}", path.read_bytes())
    return built


USERS: dict[str, Callable[[PaimonBuilder], object]] = {
    "statistics": lambda built: built.write("statistics/s", {"schemaId": 4, "snapshotId": 3}).snapshot(
        2, statistics="s"
    ),
    "another branch": lambda built: branched(built).snapshot(4, prefix="branch/branch-b/"),
    "a changelog": lambda built: built.write("changelog/changelog-1", {"id": 1, "schemaId": 4}),
    "a commit that is not finished": lambda built: built.snapshot(4, adds={"c": 4}).without("snapshot/snapshot-3"),
}


@pytest.mark.parametrize("user", USERS)
def test_every_user_keeps_a_schema(user: str, table: PaimonBuilder, capsys: Capture) -> None:
    USERS[user](table)
    aged(table)

    assert "used" == verdicts(capsys, table)[4]


def test_a_tag_outlives_the_changelog_of_its_snapshot(table: PaimonBuilder, capsys: Capture) -> None:
    """When Paimon expires the snapshot, it deletes the manifest list of the changelog and keeps those of the tag."""
    table.snapshot(3, changelogManifestList="manifest-list-gone").tag("old", 3)
    table.without("snapshot/snapshot-3")
    aged(table)

    assert "unreferenced" == verdicts(capsys, table)[4]


BROKEN: dict[str, Callable[[PaimonBuilder], object]] = {
    "snapshot": lambda built: built.write("snapshot/snapshot-2", b"{"),
    "tag": lambda built: built.write("tag/tag-keep", b""),
    "changelog": lambda built: built.write("changelog/changelog-1", b"[]"),
    "manifest": lambda built: built.write("manifest/manifest-1", b"Obj\x01"),
    "manifest list": lambda built: built.without("manifest/manifest-list-2-1"),
    "statistics": lambda built: built.snapshot(2, statistics="gone"),
    "consumer": lambda built: built.write("consumer/consumer-c", b"{}"),
    "branch": lambda built: built.write("branch/branch-b/snapshot/snapshot-1", b"nothing"),
    "young manifest": lambda built: built.write("manifest/manifest-99", b"half"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_nothing_is_deleted_where_users_may_be_missing(what: str, table: PaimonBuilder, capsys: Capture) -> None:
    BROKEN[what](table)
    aged(table)
    if what == "young manifest":
        os.utime(table.root / "manifest/manifest-99", (LATER_MS / 1_000, LATER_MS / 1_000))

    assert (4, "paimon.users-unknown") == refusal(capsys, table)


def test_remains_of_old_commits_do_not_forbid_deletion(table: PaimonBuilder, capsys: Capture) -> None:
    aged(table.write("manifest/manifest-99", b"half"))

    assert "unreferenced" == verdicts(capsys, table)[4]


DAMAGED: dict[str, Callable[[PaimonBuilder], object]] = {
    "a schema in use": lambda built: built.without("schema/schema-3"),
    "a snapshot in between": lambda built: built.write(
        "snapshot/snapshot-5", (built.root / "snapshot/snapshot-2").read_bytes()
    ),
    "the newest snapshot": lambda built: built.write("snapshot/LATEST", b"7"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_nothing_of_a_table_is_deleted_that_misses(what: str, table: PaimonBuilder, capsys: Capture) -> None:
    aged(table) if DAMAGED[what](table) else None

    assert (4, "paimon.table-damaged") == refusal(capsys, table)


def test_a_short_retention_and_iceberg_metadata_are_refused(table: PaimonBuilder, capsys: Capture) -> None:
    _, _, err = ask(capsys, "vacuum", table.root, *VACUUM, "--retention", "1h", "--dry-run")
    short = refusal(capsys, table, "--retention", "1h")
    allowed = verdicts(capsys, table, "--retention", "1h", "--allow-retention-below", "7d")
    aged(table.schema(*COLUMNS, options={"bucket": "2", "metadata.iceberg.storage": "hive-catalog"}))

    assert (4, "vacuum.retention") == short
    assert "  if no writer is older  deltacli vacuum " in err
    assert f"hint: deltacli vacuum {table.root} {' '.join(VACUUM)} --dry-run" == err.splitlines()[-1]
    assert "unreferenced" == allowed[4]
    assert (4, "paimon.iceberg") == refusal(capsys, table)


def test_iceberg_metadata_in_the_table_is_refused(table: PaimonBuilder, capsys: Capture) -> None:
    table.write("metadata/v1.metadata.json", {})

    assert (4, "paimon.iceberg") == refusal(capsys, table)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((), "--schemas"),
        (("--dry-run", "--retention", "1d"), "--schemas"),
        (("--schemas", "--mode", "lite"), "--mode"),
        (("--schemas", "--save-plan", "p.parquet"), "--save-plan"),
        (("--schemas", "--branch", "b"), "branch"),
    ],
)
def test_options_of_data_files_are_refused(
    options: tuple[str, ...], named: str, table: PaimonBuilder, capsys: Capture
) -> None:
    code, out, err = ask(capsys, "vacuum", table.root, *options)

    assert ("", True) == (out, named in err.splitlines()[0])
    assert code == (3 if "--branch" in options else 2)


def test_a_table_without_schemas_is_an_error(table: PaimonBuilder, capsys: Capture) -> None:
    shutil.rmtree(table.root / "schema")

    code, _, err = ask(capsys, "vacuum", table.root, *VACUUM, "--json")

    assert (3, "paimon.schema-missing") == (code, json.loads(err)["code"])


def test_schemas_of_a_delta_table_cannot_be_deleted(tmp_path: Path, capsys: Capture) -> None:
    delta = TableBuilder().commits(1).write(tmp_path / "d")

    code, _, err = ask(capsys, "vacuum", delta, "--schemas")

    assert (2, "error: --schemas works on Paimon tables only") == (code, err.splitlines()[0])


def test_a_branch_keeps_what_main_uses(table: PaimonBuilder, capsys: Capture) -> None:
    aged(branched(table))

    reasons = verdicts(capsys, table, "--branch", "b")

    assert {0: "oldest", 1: "used", 2: "used", 3: "used", 4: "unreferenced", 5: "newest"} == reasons


def plan_of(root: Path) -> SchemaVacuumPlan:
    return plan_schema_vacuum(handle(LocalStorage(str(root))), SchemaVacuumRequest(keep_last=1))


def handle(storage: Storage) -> TableHandle:
    return TableHandle(storage, clock=fixed_clock(LATER_MS))


def test_users_that_came_after_the_plan_are_seen(table: PaimonBuilder) -> None:
    plan = plan_of(table.root)
    table.snapshot(4)

    outcome = execute_schema_vacuum(handle(LocalStorage(str(table.root))), plan)

    assert (0, 1) == (outcome.deleted.files, outcome.spared)
    assert (table.root / "schema/schema-4").exists()


def test_the_api_deletes_what_the_command_deletes(table: PaimonBuilder) -> None:
    opened = deltacli.open_paimon(table.root, clock=fixed_clock(LATER_MS))

    planned = opened.vacuum(keep_last=1, dry_run=True)
    with pytest.raises(Refused) as refused:
        opened.vacuum(keep_last=1, retention_ms=0)
    with pytest.raises(UsageError):
        opened.vacuum(keep_last=-1)
    assert (plan_of(table.root).as_json(), None) == (planned.plan.as_json(), planned.outcome)
    plan = opened.plan_vacuum(keep_last=1, retention_ms=0, allow_retention_below_ms=7 * DAY_MS)
    assert 6 == len(os.listdir(table.root / "schema"))
    done = opened.execute_vacuum(plan).outcome

    assert ("vacuum.retention", None) == (refused.value.code, refused.value.__cause__)
    assert done is not None
    assert [1, 5] == [done.deleted.files, len(os.listdir(table.root / "schema"))]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_fault_of_any_call_deletes_nothing_that_is_needed(fault: Fault, table: PaimonBuilder, tmp_path: Path) -> None:
    """
    Whatever call fails, only the candidate can be gone, and the next run completes.
    """
    counted = FaultyStorage(LocalStorage(str(table.root)))
    request = SchemaVacuumRequest(keep_last=1)
    calls = 0
    for at in range(1, 200):
        place = tmp_path / "copy"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(table.root, place)
        storage = FaultyStorage(LocalStorage(str(place)), at, fault)
        failed = False
        try:
            plan = plan_schema_vacuum(handle(storage), request)
            execute_schema_vacuum(handle(storage), plan)
        except DeltacliError:
            failed = True
        calls = len(storage.calls)
        left = set(os.listdir(place / "schema"))
        assert {"schema-0", "schema-1", "schema-2", "schema-3", "schema-5"} <= left
        assert failed or "schema-4" not in left, storage.calls[at - 1]
        execute_schema_vacuum(handle(LocalStorage(str(place))), plan_of(place))
        assert not (place / "schema/schema-4").exists()
        if at > calls:
            break
    assert 40 < calls < 199
    assert [] == counted.calls


def facts(root: Path, branch: str) -> Any:  # Any: JSON values
    """Return what engines can see of a branch, apart from schemas that nothing uses."""
    storage, engine = LocalStorage(str(root)), EmbeddedEngine()
    users = find_schema_users(storage, engine, list_branches(storage), cutoff_ms=LATER_MS)
    directory = root / ("" if branch == "main" else f"branch/branch-{branch}") / "schema"
    schemas = {path.name: path.read_bytes() for path in directory.iterdir()}
    used = {f"schema-{number}": schemas.get(f"schema-{number}") for number in users.named}
    newest = max(int(name.removeprefix("schema-")) for name in schemas if name.startswith("schema-"))
    oldest = min(int(name.removeprefix("schema-")) for name in schemas if name.startswith("schema-"))
    return used, users.missing, users.broken, newest, oldest, schemas[f"schema-{newest}"]


def errors_of(capsys: Capture, root: Path) -> set[tuple[str, str, str]]:
    """Return the errors of `validate`: pypaimon writes options that Java refuses."""
    _, out, _ = ask(capsys, "validate", root, "--json")
    findings = json.loads(out)["tables"][0]["findings"]
    found = ((one["rule"], one["location"]["path"], one["message"]) for one in findings if one["severity"] == "error")
    return set(found)


@pytest.mark.halved
def test_tables_of_the_corpus_are_the_same_after_the_cleanup(
    corpus: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, in_turn: InTurn
) -> None:
    monkeypatch.setattr("deltacli.cli.running.consent.system_clock", lambda: LATER_MS)
    deleted, refused = 0, []
    clean = [found for found in branches() if not found.facts["unreferenced"]]
    for found in [*(one for one in branches() if one not in clean), *in_turn(clean)]:
        root = tmp_path / found.table / found.name
        shutil.copytree(corpus / found.table, root)
        before, errors = facts(root, found.name), errors_of(capsys, root)
        code, out, _ = ask(capsys, "vacuum", root, *VACUUM, "--yes", "--json", "--branch", found.name)
        result = json.loads(out)
        refused += [(found.table, one["code"]) for one in result["refusals"]] if code else []
        deleted += result["deleted"]["files"]
        assert before == facts(root, found.name)
        assert result["deleted"]["files"] <= len(found.facts["unreferenced"])
        if result["deleted"]["files"]:
            document(capsys, "history", root, "--branch", found.name)
            assert errors_of(capsys, root) <= errors
    assert [] == refused
    assert (77, 114) == (sum(1 for _ in branches()), deleted)
