"""Live files in an archive of their store: which ones are reported, by whom, and what a restored copy changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from deltacli.api.table import Table
from deltacli.cli.app import run
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.repairs import Condition
from deltacli.storage import Storage, open_storage
from tests.support.actions import add, remove
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.builder import TableBuilder
from tests.support.reading import open_at
from tests.support.s3 import S3Server, says

LIVE = ("a.parquet", "p/b.parquet", "c.parquet")
REMOVED = "old.parquet"
VECTORS = "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"


class Cloud(NamedTuple):
    """A table on a store, and what moves one of its files to a storage class."""

    storage: Storage
    move: Callable[[str, str], None]
    archive: str


def builder() -> TableBuilder:
    """Three live files and a removed one; `c.parquet` has a deletion vector in a file of its own."""
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    made = TableBuilder().commits(1).commit(remove("part-00000.parquet"), *(add(path, size=7) for path in LIVE[:2]))
    made.commit(add(LIVE[2], size=7, deletionVector=vector), add(REMOVED, size=7)).commit(remove(REMOVED))
    for path in (*LIVE, REMOVED):
        made.file(path, bytes(7))
    return made.file(VECTORS, bytes(45))


@pytest.fixture
def on_s3(s3: S3Server) -> Cloud:
    bucket = s3.make_bucket()
    for path, file in builder().files.items():
        s3.put(bucket, f"t/{path}", file.data)

    def move(path: str, storage_class: str) -> None:
        s3.move_to_class(bucket, f"t/{path}", storage_class)

    return Cloud(open_storage(f"s3://{bucket}/t"), move, "GLACIER")


@pytest.fixture
def on_azure(azure: AzureServer) -> Cloud:
    container = azure.make_container()
    for path, file in builder().files.items():
        azure.put(container, f"t/{path}", file.data)

    def move(path: str, tier: str) -> None:
        azure.move_to_tier(container, f"t/{path}", tier)

    return Cloud(open_storage(f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t"), move, "Archive")


@pytest.fixture(params=["on_s3", "on_azure"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    made: Cloud = request.getfixturevalue(request.param)
    return made


def table_of(cloud: Cloud) -> Table:
    return open_at(cloud.storage)


def archived(cloud: Cloud) -> list[Finding]:
    found = table_of(cloud).validate(level="storage")
    return [finding for finding in found.findings if finding.rule.id == "data.archived"]


def test_a_table_without_archived_files_is_not_reported(cloud: Cloud) -> None:
    assert [] == archived(cloud)


def test_archived_live_files_are_one_error_that_names_files_and_class(cloud: Cloud) -> None:
    for path in LIVE[:2]:
        cloud.move(path, cloud.archive)

    (finding,) = archived(cloud)

    assert "error" == finding.severity
    assert "2" == finding.seen
    assert LIVE[0] == finding.place.key
    assert all(text in finding.message for text in (*LIVE[:2], cloud.archive))


def test_several_classes_are_named(on_s3: Cloud) -> None:
    on_s3.move(LIVE[0], "DEEP_ARCHIVE")
    on_s3.move(LIVE[1], "GLACIER")

    (finding,) = archived(on_s3)

    assert "DEEP_ARCHIVE, GLACIER" in finding.message


def test_a_file_of_a_deletion_vector_counts(cloud: Cloud) -> None:
    cloud.move(VECTORS, cloud.archive)

    (finding,) = archived(cloud)

    assert "1" == finding.seen
    assert VECTORS in finding.message


@pytest.mark.parametrize("storage_class", ["STANDARD_IA", "GLACIER_IR", "INTELLIGENT_TIERING", "ONEZONE_IA"])
def test_classes_that_are_read_at_once_are_not_reported(storage_class: str, on_s3: Cloud) -> None:
    for path in LIVE:
        on_s3.move(path, storage_class)

    assert [] == archived(on_s3)


@pytest.mark.parametrize("tier", ["Cool", "Cold"])
def test_tiers_that_are_read_at_once_are_not_reported(tier: str, on_azure: Cloud) -> None:
    for path in LIVE:
        on_azure.move(path, tier)

    assert [] == archived(on_azure)


def test_a_removed_file_may_be_archived(cloud: Cloud) -> None:
    cloud.move(REMOVED, cloud.archive)

    assert [] == archived(cloud)
    assert [] == [one.code for one in table_of(cloud).doctor().advice if one.code == "files.archived"]


def test_a_restored_copy_can_be_read_although_the_class_remains(on_s3: Cloud, s3: S3Server) -> None:
    for path in LIVE[:2]:
        on_s3.move(path, "DEEP_ARCHIVE")
    s3.restore(on_s3.storage.uri.split("/")[2], f"t/{LIVE[0]}")

    (finding,) = archived(on_s3)

    assert "1" == finding.seen
    assert LIVE[1] in finding.message
    assert LIVE[0] not in finding.message


def test_the_listing_decides_where_a_file_must_not_be_asked_for(on_s3: Cloud, s3: S3Server) -> None:
    on_s3.move(LIVE[0], "GLACIER")
    s3.fail("HEAD", LIVE[0], says("403 FORBIDDEN", "AccessDenied"))
    try:
        (finding,) = archived(on_s3)
    finally:
        s3.forget_faults()

    assert LIVE[0] in finding.message


def test_only_archived_live_files_are_asked_for(on_s3: Cloud, s3: S3Server) -> None:
    on_s3.move(LIVE[0], "GLACIER")
    on_s3.move(REMOVED, "GLACIER")
    before = len(s3.requests)

    archived(on_s3)

    asked = {path.partition("/t/")[2] for method, path, _ in s3.requests[before:] if method == "HEAD"}
    assert {LIVE[0]} == asked & {*LIVE, REMOVED}


def test_the_verdict_is_that_rows_cannot_be_read_and_no_file_is_lost(cloud: Cloud) -> None:
    """A lost file stops a vacuum and asks for a repair; an archived file does neither."""
    cloud.move(LIVE[0], cloud.archive)

    assert Condition.WHOLE is table_of(cloud).validate(level="storage").condition


def test_doctor_gives_this_advice_first_and_opens_no_file(cloud: Cloud) -> None:
    for path in LIVE[:2]:
        cloud.move(path, cloud.archive)

    advice = table_of(cloud).doctor().advice

    assert [("files.archived", {"archivedFiles": 2})] == [
        (one.code, dict(one.now)) for one in advice if one.code.startswith("files.")
    ]


def test_the_footer_of_an_archived_file_is_unread_because_of_the_archive(cloud: Cloud) -> None:
    cloud.move(LIVE[0], cloud.archive)

    found = table_of(cloud).validate(level="footers").findings
    messages = {one.place.key: one.message for one in found if one.rule.id == "validate.file-unreadable"}

    assert "archive" in messages[LIVE[0]]


def test_a_repair_that_may_give_rows_up_leaves_archived_files_alone(cloud: Cloud) -> None:
    cloud.move(LIVE[0], cloud.archive)
    version = table_of(cloud).snapshot().version

    table_of(cloud).repair(accept_loss=True)

    assert version == table_of(cloud).snapshot().version


def test_the_page_of_doctor_has_them_in_its_title(on_s3: Cloud, tmp_path: Path) -> None:
    on_s3.move(LIVE[0], "GLACIER")
    page = tmp_path / "page.html"

    code = run(["doctor", "table", on_s3.storage.uri, "--html", str(page)])

    assert 0 == code
    assert "1 live file archived</title>" in page.read_text()
