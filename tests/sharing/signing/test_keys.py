"""The key file of the server: who may read it, who creates it, and when its keys sign and are accepted."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.sharing.signing.keys import READ_EVERY_MS, STARTS_AFTER_MS, KeyFile, ServerKeys, hkdf

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def test_keys_are_derived_as_in_rfc_5869() -> None:
    found = hkdf(b"\x0b" * 22, bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"), 42, bytes(range(13)))

    assert "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865" == found.hex()


def test_the_file_is_created_once_for_all_workers(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ServerKeys.read_or_create(path, now_ms=NOW_MS), range(16)))

    assert 1 == len({keys.keys for keys in found})
    assert 0o600 == path.stat().st_mode & 0o777
    assert ["keys.json"] == os.listdir(tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys.json"
    ServerKeys.read_or_create(path, now_ms=NOW_MS)
    path.chmod(mode)

    with pytest.raises(UsageError, match="by other users"):
        ServerKeys.read_or_create(path, now_ms=NOW_MS)


@pytest.mark.parametrize("content", [
    b"", b"{}", b"[]", b'{"version":1,"keys":[]}', b'{"version":2,"keys":[{}]}',
    b'{"version":1,"keys":[{"secret":"AA"}]}',
    b'{"version":1,"keys":[{"secret":"' + b"A" * 43 + b'=","startsMs":"1"}]}', b"\xff", b"[" * 50_000,
])  # fmt: skip
def test_a_damaged_file_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(UsageError, match="is damaged"):
        ServerKeys.read_or_create(path, now_ms=NOW_MS)

    assert content == path.read_bytes()


def test_a_link_and_a_missing_directory_are_refused(tmp_path: Path) -> None:
    ServerKeys.read_or_create(tmp_path / "keys.json", now_ms=NOW_MS)
    (tmp_path / "link.json").symlink_to(tmp_path / "keys.json")

    for path in (tmp_path / "link.json", tmp_path / "none" / "keys.json"):
        with pytest.raises(StorageFailed, match="cannot be read or created"):
            ServerKeys.read_or_create(path, now_ms=NOW_MS)


def test_rotation_overlaps(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    old = ServerKeys.read_or_create(path, now_ms=NOW_MS).signing("page", NOW_MS)

    ServerKeys.rotate(path, now_ms=NOW_MS, overlap_ms=DAY_MS)

    keys = ServerKeys.read_or_create(path, now_ms=NOW_MS)
    starts_ms = NOW_MS + STARTS_AFTER_MS
    new = keys.signing("page", starts_ms)
    assert old == keys.signing("page", starts_ms - 1)
    assert old != new == keys.checking("page", new.id, NOW_MS)
    assert old == keys.checking("page", old.id, starts_ms + DAY_MS - 1)
    assert keys.checking("page", old.id, starts_ms + DAY_MS) is None
    assert 0o600 == path.stat().st_mode & 0o777


def test_without_an_overlap_the_old_keys_end_at_once(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    file = KeyFile(path, now_ms=NOW_MS)
    old = file.signing("page", NOW_MS)

    new = ServerKeys.rotate(path, now_ms=NOW_MS, overlap_ms=0).keys[0]

    assert file.checking("page", old.id, NOW_MS + READ_EVERY_MS) is None
    assert new.id == file.signing("page", NOW_MS + READ_EVERY_MS).id


def test_retired_keys_are_dropped_by_the_next_rotation(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for day in range(4):
        ServerKeys.rotate(path, now_ms=NOW_MS + day * 10 * DAY_MS, overlap_ms=DAY_MS)

    assert 2 == len(json.loads(path.read_text())["keys"])


def test_keys_of_different_kinds_differ_and_are_not_shown() -> None:
    keys = ServerKeys.generate(NOW_MS)

    derived = {keys.signing(kind, NOW_MS).secret for kind in ("page", "refresh", "file")}

    assert 3 == len(derived)
    assert keys.keys[0].secret.hex() not in repr(keys) + repr(keys.keys)
    assert repr(keys.keys[0].secret) not in repr(keys) + repr(keys.keys)


def test_a_running_server_notices_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    file = KeyFile(path, now_ms=NOW_MS)
    old = file.signing("page", NOW_MS)

    new = ServerKeys.rotate(path, now_ms=NOW_MS, overlap_ms=DAY_MS).keys[0]

    assert file.checking("page", new.id, NOW_MS + READ_EVERY_MS - 1) is None
    assert file.checking("page", new.id, NOW_MS + READ_EVERY_MS) is not None
    assert old == file.signing("page", NOW_MS + STARTS_AFTER_MS - 1)
    assert new.id == file.signing("page", NOW_MS + STARTS_AFTER_MS).id
    assert file.problem is None


def test_an_unusable_file_changes_nothing_in_a_running_server(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    file = KeyFile(path, now_ms=NOW_MS)
    key = file.signing("page", NOW_MS)
    content = path.read_bytes()

    path.chmod(0o644)
    assert key == file.signing("page", NOW_MS + READ_EVERY_MS)
    assert "by other users" in str(file.problem)
    path.unlink()
    assert key == file.signing("page", NOW_MS + 2 * READ_EVERY_MS)
    assert file.problem is not None
    path.write_bytes(content)
    path.chmod(0o600)
    assert key == file.signing("page", NOW_MS + 3 * READ_EVERY_MS)
    assert file.problem is None
