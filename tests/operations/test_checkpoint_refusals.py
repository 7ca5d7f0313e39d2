"""What `checkpoint` refuses, with which code and exit, before anything is written; and what it does not refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

import deltacli
from deltacli.core.errors import DeltacliError
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest
from deltacli.storage import FileStat, LocalStorage, Storage, open_storage
from tests.support import damage
from tests.support.actions import add, birth, metadata, protocol, txn
from tests.support.builder import LOG, TableBuilder
from tests.support.checkpointing import FORMS, any_form_table, write
from tests.support.reading import NOW_MS, open_at


def features(*names: str, readers: tuple[str, ...] = ()) -> TableBuilder:
    """A table with these writer features, and `readers` as reader features too."""
    line = protocol(3, 7, reader_features=list(readers), writer_features=[*names, *readers])
    return TableBuilder().commit(line, metadata(), add("a", records=1))


def refusal(storage: Storage, **request: Any) -> DeltacliError:
    """The error of a request that must change nothing."""
    before = snapshot_of(storage)
    with pytest.raises(DeltacliError) as caught:
        write(open_at(storage), CheckpointRequest(**request))
    assert before == snapshot_of(storage)
    return caught.value


def snapshot_of(storage: Storage) -> list[FileStat]:
    return list(storage.list_from(LOG))


V2, CLASSIC = {"layout": "v2"}, {"layout": "classic"}
PARTS = {"layout": "multi-part", "parts": 2}
CASES: dict[str, tuple[TableBuilder, dict[str, Any], int, str, str]] = {
    "writer feature": (features("futureWriter"), {}, 4, "protocol.unknown-feature", "futureWriter"),
    "reader feature": (features(readers=("futureReader",)), {}, 3, "protocol.unknown-feature", "futureReader"),
    "manifests": (features(readers=("adaptiveMetadata",)), {}, 3, "protocol.unknown-feature", "adaptiveMetadata"),
    "redirect": (
        features(readers=("redirectReaderWriter-preview",)),
        {},
        3,
        "protocol.unknown-feature",
        "redirectReaderWriter-preview",
    ),
    "writer version": (
        TableBuilder().commit(protocol(1, 8), metadata()),
        {},
        4,
        "protocol.version-out-of-range",
        "writer version 8",
    ),
    "no feature": (features(), V2, 4, "checkpoint.v2-without-feature", "v2Checkpoint"),
    "forbidden parts": (features(readers=("v2Checkpoint",)), PARTS, 4, "checkpoint.multipart-forbidden", "multi-part"),
    "no commit": (
        TableBuilder().commits(4).checkpoint(3).damaged(damage.gap(3)),
        {},
        4,
        "log.checkpoint-commit-missing",
        "version 3 has no commit file",
    ),
    "gap": (TableBuilder().commits(4).damaged(damage.gap(1)), {}, 3, "log.gap", "commit 1 is missing"),
    "gone": (
        TableBuilder().commits(4).checkpoint(3).damaged(damage.head_cleaned(3)),
        {"version": 1},
        3,
        "table.version-absent",
        "can no longer be rebuilt",
    ),
    "never": (TableBuilder().commits(4), {"version": 9}, 3, "table.version-absent", "the newest is 3"),
    "too large": (
        TableBuilder().commit(*birth(), txn("app", 2**63)),
        CLASSIC,
        3,
        "action.wrong-type",
        "txn has the wrong type",
    ),
    "half a character": (
        TableBuilder().commit(
            *birth(), raw=b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n{"metaData":{"id":"\\ud800"}}\n'
        ),
        CLASSIC,
        3,
        "action.wrong-type",
        "metaData has the wrong type",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_changes_nothing_and_states_the_reason(name: str) -> None:
    builder, request, code, rule, said = CASES[name]

    fault = refusal(builder.in_memory(), **request)

    assert (code, rule) == (fault.exit_code, fault.code)
    assert said in fault.message


@pytest.mark.parametrize("form", FORMS[2:], ids=lambda form: form.name)
def test_values_that_no_file_can_store_are_refused_in_v2_too(form: Any) -> None:
    builder = features(readers=("v2Checkpoint",)).commit(txn("app", 2**64))

    fault = refusal(builder.in_memory(), **form.request())

    assert (3, "action.wrong-type") == (fault.exit_code, fault.code)


CONTRADICTIONS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"parts": 2}, "--parts requires"),
    ({"layout": "multi-part", "parts": 1}, "two parts or more"),
    ({"layout": "multi-part", "parts": 129}, "at most 128 parts"),
    ({"layout": "multi-part", "parts": 2**31}, "at most 128 parts"),
    ({"layout": "multi-part"}, "requires --parts or"),
    ({"layout": "classic", "rows_per_file": 2}, "a classic checkpoint is one file"),
    ({"layout": "multi-part", "rows_per_file": 0}, "less than 1"),
    ({"layout": "multi-part", "rows_per_file": 100}, "fit into one file"),
)


@pytest.mark.parametrize(("request_", "said"), CONTRADICTIONS)
@pytest.mark.parametrize("dry_run", [False, True])
def test_contradictions_are_usage(request_: dict[str, Any], said: str, dry_run: bool) -> None:
    table = open_at(TableBuilder().commits(3).in_memory())

    with pytest.raises(DeltacliError) as caught:
        table.checkpoint(**request_, dry_run=dry_run)

    assert (2, "usage") == (caught.value.exit_code, caught.value.code)
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["layout", "v2_top", "stats"])
def test_unknown_words_are_usage_errors(name: str) -> None:
    with pytest.raises(DeltacliError, match=f"{name} is 'odd', expected") as caught:
        open_at(TableBuilder().commits(1).in_memory()).checkpoint(**{name: "odd"})  # type: ignore[arg-type]

    assert 2 == caught.value.exit_code


def test_a_store_that_cannot_create_atomically_is_read_only(tmp_path: Path) -> None:
    system, root = fsspec.filesystem("memory"), f"/{tmp_path.name}"
    for path, file in TableBuilder().commits(3).files.items():
        system.pipe_file(f"{root}/{path}", file.data)

    fault = refusal(open_storage(f"memory:/{root}"))

    assert (4, "storage.no-atomic-create") == (fault.exit_code, fault.code)


def test_a_directory_that_may_not_be_written_is_a_fault_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TableBuilder().commits(3).write(tmp_path)
    make = os.open

    def refuse(path: Any, *arguments: Any, **others: Any) -> int:
        if str(path).endswith(".tmp"):
            raise PermissionError(13, "Permission denied", path)
        found: int = make(path, *arguments, **others)
        return found

    monkeypatch.setattr("deltacli.storage.local_write.os.open", refuse)

    fault = refusal(LocalStorage(str(tmp_path)))

    assert (7, "storage.permission") == (fault.exit_code, fault.code)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize(("name", "rule"), [("numFiles", "crc.num-files"), ("tableSizeBytes", "crc.table-size")])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_checksum_file_that_counts_otherwise_stops_it(form: Any, name: str, rule: str, dry_run: bool) -> None:
    builder = any_form_table(form)
    right = {"numFiles": 4, "tableSizeBytes": 110}
    storage = builder.file(f"{LOG}/{builder.newest:020d}.crc", json.dumps(right | {name: 7}).encode()).in_memory()
    before = sorted(storage._files)

    with pytest.raises(DeltacliError) as caught:
        open_at(storage).checkpoint(**form.request(), dry_run=dry_run)

    assert (4, rule) == (caught.value.exit_code, caught.value.code)
    assert before == sorted(storage._files)
    storage.write(f"{LOG}/{builder.newest:020d}.crc", json.dumps(right).encode())
    assert not open_at(storage).checkpoint(**form.request(), dry_run=dry_run).skipped


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"numFiles":"4"}', b'{"numFiles":true}', b"[" * 100_000])
def test_an_empty_checksum_file_blocks_nothing(data: bytes) -> None:
    builder = TableBuilder().commits(3).file(f"{LOG}/{2:020d}.crc", data)

    assert 2 == open_at(builder.in_memory()).checkpoint().hint_version


@pytest.mark.halved
def test_rows_per_file_do_not_need_more_parts_than_can_be_open() -> None:
    storage = TableBuilder().commit(protocol(), metadata(), *(add(f"f{n}", records=1) for n in range(200))).in_memory()

    fault = refusal(storage, layout="multi-part", rows_per_file=1)

    assert (2, "202 rows need 202 parts; at most 128 are written") == (fault.exit_code, fault.message)
    assert "--rows-per-file 2" in str(fault.hint)
    assert 101 == len(open_at(storage).checkpoint(layout="multi-part", rows_per_file=2).files)


def test_parts_of_a_whole_set_are_not_replaced_one_by_one() -> None:
    form = FORMS[1]
    storage = any_form_table(form).in_memory()
    write(open_at(storage), CheckpointRequest(**form.request()))

    fault = refusal(storage, **form.request(force=True))

    assert (4, "checkpoint.parts-mix") == (fault.exit_code, fault.code)
    assert 4 == len(open_at(storage).checkpoint(**form.request(force=True, parts=4)).files)


def test_a_catalog_managed_table_gets_checkpoints_of_what_is_published() -> None:
    builder = features("inCommitTimestamp", readers=("catalogManaged", "v2Checkpoint"))

    assert 0 == open_at(builder.in_memory()).checkpoint().hint_version


def test_force_writes_the_state_of_the_older_log_and_not_the_fault() -> None:
    builder = TableBuilder().commits(3)
    storage = builder.checkpoint(2, actions=TableBuilder().commits(1).states[0].actions()).in_memory()
    table = open_at(storage)
    (before,) = verdicts(storage)

    result = table.checkpoint(force=True)

    assert ("differs", ["agrees"]) == (before, verdicts(storage))
    assert (False, 3, 0) == (result.skipped, table.snapshot().counts()[0].count + 1, result.plan.behind)


def verdicts(storage: Storage) -> list[str]:
    from deltacli.operations.checkpoint.verify import verify_checkpoints

    return [found.verdict.value for found in verify_checkpoints(open_at(storage))]


def test_expired_transactions_missing_in_a_checkpoint_are_not_a_difference() -> None:
    properties = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    builder = TableBuilder().commit(*birth(configuration=properties), txn("old", 1, last_updated=5), txn("timeless", 1))
    storage = builder.in_memory()

    result = open_at(storage).checkpoint()

    assert 1 == result.actions["txn"]
    assert ["agrees"] == verdicts(storage)


def test_transactions_without_a_time_missing_in_a_checkpoint_are_not_a_difference() -> None:
    properties = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    builder = TableBuilder().commit(
        *birth(configuration=properties), txn("timeless", 1), txn("new", 1, last_updated=NOW_MS)
    )
    theirs = [line for line in builder.states[0].actions() if line.get("txn", {}).get("appId") != "timeless"]
    other = [line for line in theirs if "txn" not in line]

    assert ["agrees"] == verdicts(builder.checkpoint(0, actions=theirs).in_memory())
    assert ["differs"] == verdicts(builder.checkpoint(0, actions=other).in_memory())


@pytest.mark.parametrize(("age", "is_kept"), [(86_399_999, True), (86_400_000, False)])
def test_a_transaction_expires_when_its_time_is_up(age: int, is_kept: bool) -> None:
    properties = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    builder = TableBuilder().commit(*birth(configuration=properties), txn("app", 1, last_updated=NOW_MS - age))

    assert is_kept == ("txn" in open_at(builder.in_memory()).checkpoint().actions)


def test_a_checkpoint_that_is_written_again_gets_its_size_into_the_hint() -> None:
    storage = TableBuilder().commits(3).in_memory()
    open_at(storage).checkpoint()

    again = open_at(storage).checkpoint(force=True, stats="both")

    hint = json.loads(storage.read(f"{LOG}/_last_checkpoint"))
    assert again.files[0].size_bytes == hint["sizeInBytes"] == storage.stat(again.files[0].path).size_bytes


def test_a_missing_hint_is_written_by_the_next_run() -> None:
    storage = TableBuilder().commits(3).checkpoint(2).in_memory()
    assert "_last_checkpoint" not in str(sorted(storage._files))

    dry = open_at(storage).checkpoint(dry_run=True)
    result = open_at(storage).checkpoint()

    assert (True, None) == (dry.skipped, dry.hint_version)
    assert (True, 2) == (result.skipped, result.hint_version)
    hint = json.loads(storage.read(f"{LOG}/_last_checkpoint"))
    assert (2, 5, 2) == (hint["version"], hint["size"], hint["numOfAddFiles"])


def test_the_public_api_writes_one(tmp_path: Path) -> None:
    TableBuilder().commits(3).write(tmp_path)

    result = deltacli.open_table(str(tmp_path)).checkpoint(version=1)

    assert (1, 1, 2) == (result.version, result.hint_version, result.actions["add"])
    assert deltacli.open_table(str(tmp_path)).checkpoint(if_behind=2).skipped


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_dry_run_counts_what_will_be_written(form: Any) -> None:
    properties = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    storage = any_form_table(form).commit(metadata(configuration=properties), txn("old", 1, last_updated=5)).in_memory()
    before = sorted(storage._files)

    dry = open_at(storage).checkpoint(**form.request(), dry_run=True)
    assert before == sorted(storage._files)
    real = open_at(storage).checkpoint(**form.request())

    assert (dict(real.actions), real.expired_tombstones_dropped) == (dict(dry.actions), dry.expired_tombstones_dropped)
    assert (True, False, ()) == (dry.dry_run, real.dry_run, dry.files)


@pytest.mark.parametrize("stats", ["json", "both"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_written_checkpoint_has_no_findings(form: Any, stats: str) -> None:
    properties = {"delta.checkpoint.writeStatsAsStruct": "true" if stats == "both" else "false"}
    storage = any_form_table(form).commit(metadata(configuration=properties)).in_memory()

    for file in open_at(storage).checkpoint(**form.request(stats=stats)).files:
        storage.write(
            file.path, storage.read(file.path), modified_ms=NOW_MS
        )  # when it was written decides what expired
    found = open_at(storage).validate(select=("checkpoint.*", "sidecar.*", "hint.*", "stats.*"))

    assert [] == [one for one in found.findings if one.rule.id != "checkpoint.multipart-deprecated"]
