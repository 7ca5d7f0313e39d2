"""The files that deltacli writes for itself: a value that no run has written is an error that names its field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from deltacli.changing.clone_notes import NOTES_DIRECTORY, CloneNote, read_notes
from deltacli.changing.recorded_fields import (
    MAX_SIZE_BYTES,
    digest_content,
    validate_array,
    validate_object,
    validate_path,
    validate_sha256,
    validate_size_bytes,
    validate_time_ms,
    validate_uri,
    validate_version,
)
from deltacli.cli.running.trend_entries import TrendEntry, read_trend
from deltacli.core.errors import Unreadable, UsageError
from deltacli.delta.log.segment import BACKUP_LIST, MAX_TIME_MS, MAX_VERSION
from deltacli.operations.copy.note import NOTE_PATH, CopiedCommit, CopyNote, read_note
from deltacli.operations.log.log_copy import BackedUp, BackupList, read_list
from deltacli.operations.log.log_restore import plan_log_restore
from deltacli.operations.recover.copies import Manifest, UnfitManifestError, read_manifest
from tests.operations.log_copies import back_up, builder_of, handle
from tests.support.in_memory import MemoryStorage

DIGEST = "0" * 64
WRONG_TIMES: list[object] = [None, True, "5", 1.5, [], float("inf"), MAX_TIME_MS + 1, 2**63, 10**30, -(10**30)]

WRONG_URIS: list[object] = [
    None,
    5,
    [],
    "",
    "/a",
    "a",
    "file:///a\0b",
    "file:///a%00b",
    "file:///\ud800",
    "s3://b/\ud800",
]


@pytest.mark.parametrize(
    ("read", "least", "most"),
    [
        (validate_size_bytes, 0, MAX_SIZE_BYTES),
        (validate_time_ms, -MAX_TIME_MS, MAX_TIME_MS),
        (validate_version, 0, MAX_VERSION),
    ],
)
def test_integers_are_read_between_their_extremes(read: Callable[[object, str], int], least: int, most: int) -> None:
    assert (least, most) == (read(least, "a"), read(most, "a"))
    others: list[object] = [least - 1, most + 1, True, 1.0, "1", None, [], float("nan")]
    for wrong in others:
        with pytest.raises(ValueError, match=r"^the field is "):
            read(wrong, "the field")


@pytest.mark.parametrize("path", ["a", "a/b", ".a", "...", "a b", "caf\udce9", "ü", "a\nb"])
def test_paths_below_a_directory_are_read(path: str) -> None:
    assert path == validate_path(path, "path")


@pytest.mark.parametrize(
    "path", ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0", "\ud800", None, 5, []]
)
def test_paths_that_lead_elsewhere_are_refused(path: object) -> None:
    with pytest.raises(ValueError):
        validate_path(path, "path")


@pytest.mark.parametrize("uri", ["file:///a", "file:///a%20b/%E9", "file:///caf\udce9", "s3://bucket/a", "memory://t"])
def test_uris_of_directories_are_read(uri: str) -> None:
    assert uri == validate_uri(uri, "table")


@pytest.mark.parametrize("uri", WRONG_URIS)
def test_uris_that_no_directory_has_are_refused(uri: object) -> None:
    with pytest.raises(ValueError, match=r"^table is "):
        validate_uri(uri, "table")


@pytest.mark.parametrize(("read", "right"), [(validate_array, [1]), (validate_object, {"a": 1})])
def test_containers_are_not_taken_for_each_other(read: Callable[[object, str], object], right: object) -> None:
    assert right == read(right, "files")
    others: list[object] = [None, "", "ab", 5, (), [1], {"a": 1}]
    for wrong in others:
        if wrong != right:
            with pytest.raises(ValueError, match=r"^files is "):
                read(wrong, "files")


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, DIGEST + "\n", None, 0, []])
def test_only_a_digest_in_hexadecimal_is_one(digest: object) -> None:
    assert DIGEST == validate_sha256(DIGEST, "sha256")
    with pytest.raises(ValueError, match="sha256"):
        validate_sha256(digest, "sha256")


def test_the_digest_of_a_document_does_not_depend_on_the_order_of_its_keys() -> None:
    assert digest_content({"a": 1, "b": [2]}) == digest_content({"b": [2], "a": 1}) != digest_content({"a": 1, "b": 2})


def edited_list(edit: Callable[[list[dict[str, Any]]], None]) -> MemoryStorage:
    """A backup of a log with an edited list."""
    backup = MemoryStorage("backup")
    back_up(builder_of().in_memory(), backup)
    lines = [json.loads(line) for line in backup.read(BACKUP_LIST).splitlines()]
    edit(lines)
    backup.put(BACKUP_LIST, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return backup


@pytest.mark.parametrize("time_ms", WRONG_TIMES)
@pytest.mark.parametrize(("line", "field"), [(0, "timestampMs"), (2, "modificationTimeMs")])
def test_a_log_is_not_restored_from_a_list_with_a_time_that_no_file_has(time_ms: object, line: int, field: str) -> None:
    backup = edited_list(lambda lines: lines[line].update({field: time_ms}))

    with pytest.raises(Unreadable) as error:
        plan_log_restore(handle(MemoryStorage("table")), backup)

    assert "backup.list-corrupt" == error.value.code
    assert field in str(error.value.facts["reason"])


@pytest.mark.parametrize("version", [-1, True, 1.0, "1", 10**30, float("inf")])
def test_a_list_of_a_version_that_no_log_has_is_corrupt(version: object) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        read_list(edited_list(lambda lines: lines[0].update(version=version)))


@pytest.mark.parametrize("uri", WRONG_URIS)
def test_a_list_of_a_table_that_no_store_has_is_corrupt(uri: object) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        read_list(edited_list(lambda lines: lines[0].update(table=uri)))


def test_a_list_with_the_extremes_of_its_fields_is_read() -> None:
    files = {
        name: BackedUp(name, size, DIGEST, time) for name, size, time in (("a", 0, -MAX_TIME_MS), ("b", 1, MAX_TIME_MS))
    }
    listed, storage = BackupList("memory://t", None, MAX_VERSION, MAX_TIME_MS, True, files), MemoryStorage("backup")
    storage.put(BACKUP_LIST, listed.to_bytes())

    assert listed == read_list(storage)


NOTE = CopyNote("memory://source", "an-id", True, True, 0, 1, 5, {0: CopiedCommit(0, 1, 2, DIGEST)})


@pytest.mark.parametrize(
    "edit",
    [
        *({"timestampMs": time_ms} for time_ms in WRONG_TIMES),
        {"firstVersion": "0"},
        {"lastVersion": float("inf")},
        {"lastVersion": -1},
        {"ownId": 5},
        *({"source": uri} for uri in WRONG_URIS),
    ],
)
def test_a_note_of_a_copy_that_no_copy_has_written_is_refused(edit: dict[str, Any]) -> None:
    storage = MemoryStorage("copy")
    storage.put(NOTE_PATH, NOTE.to_bytes())
    assert NOTE == read_note(storage)
    storage.put(NOTE_PATH, json.dumps(json.loads(NOTE.to_bytes()) | edit).encode())

    with pytest.raises(Unreadable) as error:
        read_note(storage)

    assert "copy.note-corrupt" == error.value.code


@pytest.mark.parametrize(
    "edit",
    [
        *({"createdTime": time_ms} for time_ms in WRONG_TIMES),
        {"version": 10**30},
        {"version": -2},
        *({"clone": uri} for uri in WRONG_URIS),
    ],
)
def test_a_note_of_a_clone_that_no_clone_has_written_is_refused(edit: dict[str, Any]) -> None:
    storage, note = MemoryStorage("source"), CloneNote("an-id", "memory://clone", 3, 5)
    note.write(storage)
    assert [note] == [stored.note for stored in read_notes(storage)]
    storage.put(
        f"{NOTES_DIRECTORY}/an-id.json",
        json.dumps(json.loads(storage.read(f"{NOTES_DIRECTORY}/an-id.json")) | edit).encode(),
    )

    with pytest.raises(Unreadable) as error:
        list(read_notes(storage))

    assert "clone.note-unreadable" == error.value.code


@pytest.mark.parametrize(
    "edit", [*({"timestampMs": one} for one in WRONG_TIMES), {"paths": ["a\0"]}, {"paths": ["\ud800"]}]
)
def test_a_manifest_of_a_quarantine_that_no_vacuum_has_written_is_unfit(edit: dict[str, Any]) -> None:
    manifest = Manifest("memory://t", "an-id", "a-plan", None, 5, True, ["a"])
    content = {"table": "memory://t", "tableId": "an-id", "planId": "a-plan", "timestampMs": 5, "complete": True}
    content |= {"paths": ["a"], "files": 1}
    assert manifest == read_manifest(json.dumps(content).encode(), "an-id/a-plan", "an-id")

    with pytest.raises(UnfitManifestError):
        read_manifest(json.dumps(content | edit).encode(), "an-id/a-plan", "an-id")


@pytest.mark.parametrize("edit", [*({"timestampMs": one} for one in WRONG_TIMES), {"exitCode": float("inf")}])
def test_a_line_of_a_history_that_no_validate_has_written_is_refused(edit: dict[str, Any]) -> None:
    line = json.loads(TrendEntry(5, "log", {}, "error", [], [], 0).encode_line("0"))
    assert 1 == len(read_trend(json.dumps(line).encode(), "trend.ndjson"))

    with pytest.raises(UsageError, match=r"trend.ndjson:1"):
        read_trend(json.dumps(line | edit).encode(), "trend.ndjson")
