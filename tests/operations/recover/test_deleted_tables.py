"""A table that was deleted as a whole from a store with versions: each command that misses it names `undelete`."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.core.errors import CommandHint, NotATable
from deltacli.storage import Storage, open_storage
from deltacli.table.find_log import list_log
from deltacli.table.missing_log import build_missing_path_error
from tests.cli.support import deltacli, make_sample
from tests.operations.recover.test_undelete_killed import KEPT_BY, place_at
from tests.support.s3 import S3Server, says

DENIED = says("403 FORBIDDEN", "AccessDenied")


def upload(root: Path, uri: str) -> Storage:
    storage = open_storage(uri)
    for file in root.rglob("*"):
        if file.is_file():
            storage.put_if_absent(file.relative_to(root).as_posix(), file.read_bytes())
    return storage


def delete_all(storage: Storage, root: Path, below: str = "") -> None:
    names = [file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()]
    list(storage.delete_many([name for name in names if name.startswith(below)]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_sample(tmp_path / "trips")


@pytest.mark.parametrize("store", [KEPT_BY[0], *(pytest.param(one, marks=pytest.mark.soak) for one in KEPT_BY[1:])])
@pytest.mark.parametrize("below", ["", "_delta_log/"])
def test_the_error_of_a_deleted_table_names_undelete(
    store: str, below: str, root: Path, request: pytest.FixtureRequest
) -> None:
    storage = upload(root, place_at(store, request))
    delete_all(storage, root, below)

    with pytest.raises(NotATable) as caught:
        list_log(storage)

    assert isinstance(caught.value.hint, CommandHint)
    assert "undelete" == caught.value.hint.call.operation
    assert "deleted log" in caught.value.facts


def test_following_the_hint_brings_the_table_back(root: Path, s3: S3Server) -> None:
    uri = f"s3://{s3.make_bucket('Enabled')}/lake/trips"
    delete_all(upload(root, uri), root)

    for command in ("history", "snapshot", "validate", "vacuum", "read"):
        missing = deltacli(command, uri)
        assert 3 == missing.code
        assert f"hint: deltacli undelete {uri} --dry-run" == missing.err.splitlines()[-1]
    planned = deltacli("undelete", uri, "--dry-run")
    done = deltacli("undelete", uri, "--yes")

    assert (0, 0, 0) == (planned.code, done.code, deltacli("snapshot", uri).code)


def test_one_request_is_enough(root: Path, s3: S3Server) -> None:
    storage = open_storage(f"s3://{s3.make_bucket('Enabled')}/lake/trips")
    delete_all(upload(root, storage.uri), root)
    s3.requests.clear()

    build_missing_path_error(storage)

    assert 1 == len(s3.requests)


@pytest.mark.parametrize("state", ["", "Enabled", "Suspended"])
def test_a_path_that_never_was_names_nothing(state: str, root: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket(state)
    upload(root, f"s3://{bucket}/lake/trips2")

    fault = build_missing_path_error(open_storage(f"s3://{bucket}/lake/trips"))

    assert fault.hint is None


def test_without_the_permission_to_list_versions_the_error_is_as_before(root: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket("Enabled")
    storage = upload(root, f"s3://{bucket}/lake/trips")
    delete_all(storage, root)
    s3.fail("GET", f"/{bucket}", DENIED)

    fault = build_missing_path_error(storage)

    assert ("table.path-missing", None) == (fault.code, fault.hint)


def test_files_of_others_do_not_count(root: Path, s3: S3Server) -> None:
    storage = open_storage(f"s3://{s3.make_bucket('Enabled')}/lake/trips")
    storage.put_if_absent("notes.txt", b"x")
    storage.put_if_absent("_delta_log_old/00000000000000000000.json", b"{}")
    list(storage.delete_many(["notes.txt", "_delta_log_old/00000000000000000000.json"]))

    assert build_missing_path_error(storage).hint is None
