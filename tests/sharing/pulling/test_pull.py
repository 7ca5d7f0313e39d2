"""Local copies of shared tables: made, continued, and refused where they would be something else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable, Refused, UsageError
from deltacli.core.machine import fixed_clock
from deltacli.sharing import Client
from deltacli.sharing.client import share_storage as downloads
from deltacli.sharing.pulling.pull import Pull
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.pulling.origin import Origin, files_asked, pull, pull_from, rows_of
from tests.sharing.served import shared


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin").append(range(10)).append(range(10, 15))


@pytest.fixture
def proxy(origin: Origin, tmp_path: Path) -> Iterator[Proxy]:
    with proxied(tmp_path, shared(origin.path)) as proxy:
        yield proxy


def test_later_pulls_download_only_what_is_new_and_commit_the_difference(
    origin: Origin, proxy: Proxy, tmp_path: Path
) -> None:
    target = tmp_path / "local"
    first = pull(proxy, target)
    origin.append(range(20, 22), removing=1).append(range(30, 31))
    proxy.asked.clear()

    second = pull(proxy, target)

    assert (0, 1, 2) == (first.local_version, first.shared_version, len(first.difference.wanted))
    assert (1, 3, 1) == (second.local_version, second.shared_version, second.before)
    assert 2 == len(files_asked(proxy))
    assert (2, 1) == (second.difference.added, second.difference.removed)
    assert [*range(10, 15), 20, 21, 30] == rows_of(target)
    assert list(range(15)) == sorted(open_table(target).snapshot(version=0).scan().to_arrow()["a"].to_pylist())
    assert [] == [path.name for path in target.iterdir() if path.name.startswith(".")]


def test_a_pull_of_what_is_there_sends_one_request_and_commits_nothing(proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"
    pull(proxy, target)
    proxy.asked.clear()

    again = pull(proxy, target)

    assert (False, 0, True) == (again.is_committed, again.local_version, again.is_unchanged)
    assert ["GET"] == [asked.method for asked in proxy.asked]


def test_a_copy_that_was_restored_or_lost_rows_gets_them_back(origin: Origin, proxy: Proxy, tmp_path: Path) -> None:
    """Its transaction still names the shared version."""
    target = tmp_path / "local"
    pull(proxy, target)
    origin.append(range(20, 22))
    pull(proxy, target)
    open_table(target).restore(version=0)

    again = pull(proxy, target)
    removed = next(open_table(target).snapshot().files()).to_pylist()[0]["path"]
    lines = ({"commitInfo": {"operation": "DELETE"}}, {"remove": {"path": removed, "dataChange": True}})
    (target / "_delta_log" / f"{4:020}.json").write_text("\n".join(map(json.dumps, lines)))
    once_more = pull(proxy, target)

    assert [(True, 3, 1), (True, 5, 1)] == [
        (one.is_committed, one.local_version, one.difference.added) for one in (again, once_more)
    ]
    assert [*range(15), 20, 21] == sorted(open_table(target).snapshot().scan().to_arrow()["a"].to_pylist())


def test_a_copy_that_was_restored_gets_the_columns_back_that_came_without_files(
    origin: Origin, proxy: Proxy, tmp_path: Path
) -> None:
    target = tmp_path / "local"
    pull(proxy, target)
    columns = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in "ab"]
    schema = json.dumps({"type": "struct", "fields": columns})
    origin.commit(
        {"commitInfo": {"operation": "ADD COLUMNS"}}, {"metaData": origin._metadata() | {"schemaString": schema}}
    )
    pull(proxy, target)
    open_table(target).restore(version=0)

    again, once_more = pull(proxy, target), pull(proxy, target)

    assert [(True, 3), (False, 3)] == [(one.is_committed, one.local_version) for one in (again, once_more)]
    assert ["a", "b"] == [field.name for field in open_table(target).snapshot().schema.fields]


def test_a_lost_local_file_is_downloaded_again_without_a_commit(proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"
    pull(proxy, target)
    next(target.glob("*.parquet")).unlink()

    again = pull(proxy, target)

    assert (False, 0, 1) == (again.is_committed, again.local_version, len(again.difference.wanted))
    assert list(range(15)) == rows_of(target)


def _flipped(data: bytes) -> bytes:
    """Return a Parquet file with a bit changed in its first data page, whose checksum and footer stay."""
    place = len(data) // 3
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def _with_checksums(origin: Origin) -> None:
    """Write the files of the table again, with random rows and checksums of their pages."""
    for add in origin.files:
        rows = pa.table({"a": pa.array(range(1, 4_001), pa.int64())})
        pq.write_table(rows, origin.path / add["path"], use_dictionary=False, write_page_checksum=True)
        size = (origin.path / add["path"]).stat().st_size
        changed = add | {"size": size, "stats": '{"numRecords": 4000}', "dataChange": False}
        origin.commit({"add": changed})


def test_changed_bytes_of_a_download_are_found_by_decoding_and_nothing_is_committed(
    origin: Origin, proxy: Proxy, tmp_path: Path
) -> None:
    _with_checksums(origin)

    def flip(asked: Asked, truly: Callable[[], Sent]) -> Sent:
        sent = truly()
        return replace(sent, body=_flipped(sent.body)) if asked.is_for_file else sent

    proxy.plant = flip

    assert pull(proxy, tmp_path / "trusting").is_committed
    with pytest.raises(DataUnreadable, match="its data cannot be decoded") as caught:
        pull(proxy, tmp_path / "careful", decodes=True)
    assert "share.file-differs" == caught.value.code
    assert not (tmp_path / "careful/_delta_log").exists()
    assert [] == list((tmp_path / "careful").glob("*.parquet"))


def test_pages_that_unpack_to_more_than_a_share_may_send_are_not_decoded(
    origin: Origin, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"a": ["x" * 100_000] * 100}), origin.path / "bomb", compression="zstd")
    size = (origin.path / "bomb").stat().st_size
    add = {"path": "bomb", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    origin.commit({"add": add})
    monkeypatch.setattr(downloads, "MOST_BYTES", 1_000_000)

    with pytest.raises(DataUnreadable, match="unpacks to more than is accepted"):
        pull(proxy, tmp_path / "local", decodes=True)


def test_local_files_that_cannot_be_decoded_are_downloaded_again_without_a_commit(
    origin: Origin, proxy: Proxy, tmp_path: Path
) -> None:
    _with_checksums(origin)
    target = tmp_path / "local"
    pull(proxy, target)
    damaged = next(target.glob("*.parquet"))
    whole = damaged.read_bytes()
    damaged.write_bytes(_flipped(whole))

    trusting = pull(proxy, target)
    planned = pull(proxy, target, decodes=True, dry_run=True)
    careful = pull(proxy, target, decodes=True)

    assert (True, [damaged.name]) == (trusting.is_unchanged, [file.name for file in planned.difference.wanted])
    assert (False, 1, 1) == (careful.is_committed, len(careful.difference.wanted), careful.difference.present)
    assert whole == damaged.read_bytes()
    assert pull(proxy, target, decodes=True).is_unchanged


def test_removed_files_are_tombstones_that_vacuum_deletes(origin: Origin, proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"
    pull(proxy, target)
    origin.append(range(20, 22), removing=2)
    result = pull(proxy, target)
    later = fixed_clock(max(int(path.stat().st_mtime * 1_000) for path in target.iterdir()) + 30 * 86_400_000)

    open_table(target, clock=later).vacuum(max_delete="100%")

    assert 2 == result.difference.removed
    assert 1 == len(list(target.glob("*.parquet")))
    assert [20, 21] == open_table(target).snapshot().scan().to_arrow()["a"].to_pylist()


def test_a_dry_run_writes_nothing(proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"

    planned = pull(proxy, target, dry_run=True)

    assert (2, None) == (len(planned.difference.wanted), planned.local_version)
    assert planned.difference.wanted_bytes == sum(
        path.stat().st_size for path in (tmp_path / "origin").glob("*.parquet")
    )
    assert not target.exists()
    assert [] == files_asked(proxy)


def test_an_older_version_is_refused(proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"
    pull(proxy, target)

    with pytest.raises(Refused, match="which is newer than 0") as refused:
        pull(proxy, target, version=0)

    assert "share.pull-target" == refused.value.code
    assert list(range(15)) == rows_of(target)


def _own_rows(target: Path) -> None:
    commit = target / "_delta_log" / f"{1:020}.json"
    add = {"path": "own.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    commit.write_text(json.dumps({"add": add}) + "\n")


def _not_pulled(target: Path) -> None:
    Origin(target).append(range(1))


def _other_file(target: Path) -> None:
    target.mkdir()
    (target / "letter.txt").touch()


@pytest.mark.parametrize(
    ("make", "is_pulled", "why"),
    [
        (_own_rows, True, "has rows of its own"),
        (_not_pulled, False, "was not pulled from a share"),
        (_other_file, False, "no pull has written to it"),
    ],
)
def test_a_directory_with_something_else_is_refused(
    proxy: Proxy, tmp_path: Path, make: Any, is_pulled: bool, why: str
) -> None:
    target = tmp_path / "local"
    if is_pulled:
        pull(proxy, target)
    make(target)
    if is_pulled:
        Origin(tmp_path / "origin", versions=2).append(range(3))

    with pytest.raises(Refused, match=why):
        pull(proxy, target)


def test_another_table_is_refused_by_name_finished_or_not(tmp_path: Path, origin: Origin) -> None:
    other = Origin(tmp_path / "other", table_id="7a3a86a2-3f4e-4c3c-9f1f-0f8f7a0a2b11").append(range(3))
    target = tmp_path / "local"
    with proxied(tmp_path, shared(origin.path), shared(other.path, "u")) as proxy:
        pull(proxy, target)

        with pytest.raises(Refused, match="has another table") as refused:
            pull_from(proxy.store("u"), target)

    assert origin.table_id in refused.value.facts["there"]
    assert other.table_id in refused.value.facts["asked for"]


def test_features_of_the_log_are_left_out_and_those_of_the_data_are_kept(tmp_path: Path) -> None:
    features = ["deletionVectors", "v2Checkpoint"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "rowTracking", "domainMetadata", "inCommitTimestamp", "appendOnly"],
    }
    settings = {"delta.appendOnly": "true", "delta.enableDeletionVectors": "true", "team": "sales"}
    origin = Origin(tmp_path / "origin", settings, protocol).append(range(5))

    with proxied(tmp_path, shared(origin.path)) as proxy:
        pull(proxy, tmp_path / "local")

    snapshot = open_table(tmp_path / "local").snapshot()
    assert ("deletionVectors",) == snapshot.protocol.reader_features
    assert "rowTracking" not in (snapshot.protocol.writer_features or ())
    assert "delta.appendOnly" not in snapshot.properties
    assert ("true", "sales") == (snapshot.properties["delta.enableDeletionVectors"], snapshot.properties["team"])
    assert list(range(5)) == rows_of(tmp_path / "local")


def test_python_pulls_a_table_and_continues_it(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "origin").append(range(5)).append(range(5, 8))
    with proxied(tmp_path, shared(origin.path)) as proxy:
        table = Client(proxy.profile).table("Sales.Main.t")

        planned = table.pull(tmp_path / "local", dry_run=True)
        first = table.pull(tmp_path / "local", version=0)
        second = table.pull(tmp_path / "local")
        third = table.pull(str(tmp_path / "local"))
        with pytest.raises(UsageError, match="exclude each other"):
            table.pull(tmp_path / "local", version=0, resume=True)

    assert (2, None, False) == (len(planned.difference.wanted), planned.local_version, planned.is_committed)
    assert (0, 0, True) == (first.shared_version, first.local_version, first.is_committed)
    assert (1, 1, True) == (second.shared_version, second.local_version, second.is_committed)
    assert third.is_unchanged
    assert list(range(8)) == rows_of(tmp_path / "local")


def test_a_plan_is_executed_or_refused_where_its_commit_would_be_another(tmp_path: Path) -> None:
    origin, target = Origin(tmp_path / "origin").append(range(5)), tmp_path / "local"
    with proxied(tmp_path, shared(origin.path)) as proxy:
        table = Client(proxy.profile).table("Sales.Main.t")
        first = table.execute_pull(table.plan_pull(target))
        origin.append(range(5, 8))
        late = table.plan_pull(target)
        origin.append(range(8, 9), removing=1)
        table.pull(target)
        with pytest.raises(Refused, match="is newer than 1"):
            table.execute_pull(late)
        wrong_plans: list[Any] = [None, 3, {}, first]
        for wrong in wrong_plans:
            with pytest.raises(UsageError, match=r"^plan is "):
                table.execute_pull(wrong)

    assert (0, True) == (first.local_version, first.is_committed)
    assert [*range(5, 9)] == rows_of(target)


def test_metadata_that_breaks_a_rule_is_refused_before_a_download(tmp_path: Path) -> None:
    field = {"name": "a", "type": "long", "nullable": True, "metadata": {}}
    origin = Origin(tmp_path / "origin").append(range(5))
    broken = json.dumps({"type": "struct", "fields": [field, field | {"name": "A"}]})
    with proxied(tmp_path, shared(origin.path)) as proxy:
        pull(proxy, tmp_path / "local")
        origin.commit({"metaData": {**origin._metadata(), "schemaString": broken}}).append(range(5, 8))
        proxy.asked.clear()
        for target in ("local", "other"):
            with pytest.raises(Refused) as refused:
                pull(proxy, tmp_path / target)
            assert "schema.duplicate-column" == refused.value.code

    assert [] == files_asked(proxy)
    assert [0, False] == [open_table(tmp_path / "local").snapshot().version, (tmp_path / "other").exists()]


def test_views_of_the_local_table_are_named(proxy: Proxy, origin: Origin, tmp_path: Path) -> None:
    pull(proxy, tmp_path / "local")
    (tmp_path / "local/_symlink_format_manifest").mkdir()
    (tmp_path / "local/_symlink_format_manifest/manifest").touch()
    origin.append(range(20, 22))

    results = [pull(proxy, tmp_path / "local", dry_run=dry_run) for dry_run in (True, False)]

    assert [1, 1] == [sum("Athena" in text for text in one.as_json()["cautions"]) for one in results]


def test_a_log_that_was_rolled_back_is_not_continued(proxy: Proxy, origin: Origin, tmp_path: Path) -> None:
    target = tmp_path / "local"
    pull(proxy, target)
    origin.append(range(20, 22))
    pull(proxy, target)
    origin.append(range(22, 24))
    table = Client(proxy.profile).table("Sales.Main.t")
    plan = table.plan_pull(target)
    (target / "_delta_log" / f"{1:020}.json").unlink()
    proxy.asked.clear()

    with pytest.raises(Refused) as refused:
        table.execute_pull(plan)

    assert "plan.newer" == refused.value.code
    assert [] == files_asked(proxy)


def test_a_pull_is_not_committed_where_another_directory_is_in_the_place_of_its_target(
    origin: Origin, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, moved = tmp_path / "local", tmp_path / "moved"
    pull(proxy, target)
    origin.append(range(20, 22))
    commit = Pull._commit

    def switched(pulling: Pull, *gate: Any) -> None:
        target.rename(moved)
        shutil.copytree(moved, target)
        commit(pulling, *gate)

    monkeypatch.setattr(Pull, "_commit", switched)

    with pytest.raises(Refused) as refused:
        pull(proxy, target)

    assert "plan.other-place" == refused.value.code
    assert [0, 0] == [open_table(place).snapshot().version for place in (target, moved)]
