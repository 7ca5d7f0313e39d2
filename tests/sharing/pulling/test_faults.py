"""Pulls from servers and onto disks that fail: a clear error or the right rows, and no file downloaded twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable, DeltacliError, NoSpace, PermissionRefused, Unreadable
from deltacli.sharing.client.faults import AnswerBroken
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.pulling.origin import Origin, files_asked, pull, rows_of
from tests.sharing.served import shared

Truly = Callable[[], Sent]
LARGE = range(300_000)


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin").append(range(10)).append(range(10, 15))


@pytest.fixture
def proxy(origin: Origin, tmp_path: Path) -> Iterator[Proxy]:
    with proxied(tmp_path, shared(origin.path)) as proxy:
        yield proxy


def _lines(change: Callable[[dict[str, Any]], None]) -> Callable[[Asked, Truly], Sent]:  # Any: JSON values
    """Change the file lines of answers."""

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        if not asked.target.endswith("/query"):
            return sent
        lines = sent.lines
        for line in lines:
            if "file" in line:
                change(line["file"])
        return sent.with_lines(lines)

    return plant


def _larger(file: dict[str, Any]) -> None:
    file["deltaSingleAction"]["add"]["size"] += 1


def _smaller(file: dict[str, Any]) -> None:
    file["deltaSingleAction"]["add"]["size"] -= 1


def _more_rows(file: dict[str, Any]) -> None:
    file["deltaSingleAction"]["add"]["stats"] = '{"numRecords":11}'


@pytest.mark.parametrize(
    ("change", "why"),
    [(_larger, "another size"), (_smaller, "another size"), (_more_rows, "another number of rows")],
)
def test_a_file_that_is_not_as_declared_is_not_committed(
    proxy: Proxy, tmp_path: Path, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    proxy.plant = _lines(change)

    with pytest.raises(DataUnreadable, match=why) as fault:
        pull(proxy, tmp_path / "local")

    assert "share.file-differs" == fault.value.code
    assert [] == list((tmp_path / "local").glob("*.parquet"))
    assert not (tmp_path / "local" / "_delta_log").exists()


def _same_bytes(sent: Sent) -> Sent:
    return Sent(sent.status, sent.headers, b"PAR1" + b"\0" * (len(sent.body) - 4))


def _short(sent: Sent) -> Sent:
    return Sent(sent.status, sent.headers, sent.body[:-7])


@pytest.mark.parametrize(("change", "why"), [(_same_bytes, "not a Parquet file"), (_short, "another size")])
def test_a_file_with_other_bytes_is_not_committed(
    proxy: Proxy, tmp_path: Path, change: Callable[[Sent], Sent], why: str
) -> None:
    proxy.plant = lambda asked, truly: change(truly()) if asked.is_for_file else truly()

    with pytest.raises(DataUnreadable, match=why):
        pull(proxy, tmp_path / "local")

    assert not (tmp_path / "local" / "_delta_log").exists()


def test_files_that_are_finished_are_not_downloaded_again(origin: Origin, proxy: Proxy, tmp_path: Path) -> None:
    for number in range(40):
        origin.append(range(100 + number, 101 + number))
    served: list[str] = []

    def plant(asked: Asked, truly: Truly) -> Sent:
        if asked.is_for_file and len(served) >= 20:
            return Sent(403, {}, b"")
        if asked.is_for_file:
            served.append(asked.target.partition("?")[0])
        return truly()

    proxy.plant = plant
    with pytest.raises(DeltacliError):
        pull(proxy, tmp_path / "local")
    proxy.plant = None
    proxy.asked.clear()

    pull(proxy, tmp_path / "local")

    assert [] == sorted(set(served) & set(files_asked(proxy)))
    assert 42 == len(served) + len(files_asked(proxy))
    assert [*range(15), *range(100, 140)] == rows_of(tmp_path / "local")


def test_a_large_file_continues_where_the_connection_was_cut(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "origin").append(LARGE)
    size = origin.files[0]["size"]
    cuts = iter([1_500_000, 400_000])

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        cut = next(cuts, None) if asked.is_for_file else None
        return sent if cut is None else Sent(sent.status, sent.headers, sent.body, cut_at=cut)

    with proxied(tmp_path, shared(origin.path)) as proxy:
        proxy.plant = plant
        result = pull(proxy, tmp_path / "local")

    ranges = [asked.headers.get("range") for asked in proxy.asked if asked.is_for_file]
    assert [None, "bytes=1500000-", "bytes=1900000-"] == ranges
    assert size == result.received_bytes
    assert list(LARGE) == rows_of(tmp_path / "local")


def test_a_file_that_was_replaced_between_two_parts_begins_anew(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "origin").append(LARGE)
    workspace = tmp_path / "local" / ".deltacli-pull"

    with proxied(tmp_path, shared(origin.path)) as proxy:
        planned = pull(proxy, tmp_path / "local", dry_run=True)
        workspace.mkdir(parents=True)
        part = workspace / f"{planned.difference.wanted[0].name}.part"
        part.write_bytes(b"x" * 1_500_000)
        part.with_name(f"{part.name}.tag").write_text('"of other bytes"')
        pull(proxy, tmp_path / "local")

    assert list(LARGE) == rows_of(tmp_path / "local")


def test_contents_that_keep_changing_are_an_error(tmp_path: Path) -> None:
    """
    Two servers behind one URL, with different tags, that both cut connections.
    """
    origin = Origin(tmp_path / "origin").append(LARGE)
    tags = count()

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        if not asked.is_for_file:
            return sent
        headers = {"etag": f'"{next(tags)}"'}
        if "range" not in asked.headers:
            return Sent(200, headers, sent.body, cut_at=1_200_000)
        start, size = int(asked.headers["range"][6:-1]), origin.files[0]["size"]
        return Sent(206, {**headers, "content-range": f"bytes {start}-{size - 1}/{size}"}, b"x" * (size - start))

    with proxied(tmp_path, shared(origin.path)) as proxy:
        proxy.plant = plant
        with pytest.raises(DataUnreadable, match="was replaced while it was downloaded"):
            pull(proxy, tmp_path / "local")

    assert len(files_asked(proxy)) < 10


def test_connections_that_hardly_bring_a_byte_are_an_error(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "origin").append(LARGE)

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return Sent(sent.status, sent.headers, sent.body, cut_at=1) if asked.is_for_file else sent

    with proxied(tmp_path, shared(origin.path)) as proxy:
        proxy.plant = plant
        with pytest.raises(AnswerBroken):
            pull(proxy, tmp_path / "local")

    assert len(files_asked(proxy)) < 10


def test_urls_that_expire_in_the_middle_are_renewed(proxy: Proxy, tmp_path: Path) -> None:
    refused: set[str] = set()

    def plant(asked: Asked, truly: Truly) -> Sent:
        if asked.is_for_file and not refused:
            refused.add(asked.target)
            proxy.served.now_ms += 1_000
            return Sent(403, {}, b"expired")
        return truly()

    proxy.plant = plant

    pull(proxy, tmp_path / "local")

    assert list(range(15)) == rows_of(tmp_path / "local")


def test_a_table_that_moves_on_is_pulled_at_its_newest_version(origin: Origin, tmp_path: Path) -> None:
    """
    The server shares no history and has no refresh tokens: files of a table that was rewritten are listed again.
    """
    moved: list[str] = []

    def plant(asked: Asked, truly: Truly) -> Sent:
        if asked.is_for_file and not moved:
            moved.append(asked.target)
            origin.append(range(50, 53), removing=2)
            return Sent(403, {}, b"")
        sent = truly()
        if not asked.target.endswith("/query") or sent.status != 200:
            return sent
        lines = sent.lines
        lines[-1]["endStreamAction"].pop("refreshToken", None)
        return sent.with_lines(lines)

    with proxied(tmp_path, shared(origin.path, history_shared=False)) as proxy:
        proxy.plant = plant
        result = pull(proxy, tmp_path / "local")

    assert 2 == result.shared_version
    assert [50, 51, 52] == open_table(tmp_path / "local").snapshot().scan().to_arrow()["a"].to_pylist()


@pytest.mark.parametrize("name", ["../../escaped", "/etc/passwd", "a/b", "..", ".hidden", "x" * 300, "con\0"])
def test_ids_with_path_tricks_write_nothing_outside_the_target(proxy: Proxy, tmp_path: Path, name: str) -> None:
    ids = iter([name, f"{name}2"])
    proxy.plant = _lines(lambda file: file.update(id=next(ids)))

    pull(proxy, tmp_path / "local")

    assert {"local", "origin", "p.share"} == {path.name for path in tmp_path.iterdir()}
    assert list(range(15)) == rows_of(tmp_path / "local")


def test_a_full_disk_is_named_and_the_pull_continues(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(NoSpace, match="no space left on device") as fault:
            pull(proxy, tmp_path / "local")
    pull(proxy, tmp_path / "local")

    assert "df -h" in str(fault.value.hint)
    assert list(range(15)) == rows_of(tmp_path / "local")


def test_files_that_do_not_fit_are_refused_before_the_first_download(proxy: Proxy, tmp_path: Path) -> None:
    def huge(file: dict[str, Any]) -> None:
        file["deltaSingleAction"]["add"]["size"] = 1 << 60

    proxy.plant = _lines(huge)

    with pytest.raises(NoSpace, match="no room"):
        pull(proxy, tmp_path / "local")

    assert [] == files_asked(proxy)
    assert not (tmp_path / "local").exists()


def test_a_target_without_permission_is_named(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "closed" / "local"
    make = os.makedirs

    def refuse(place: Any, *arguments: Any, **named: Any) -> None:  # Any: as there
        if str(place) == str(target):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))  # root writes everywhere
        make(place, *arguments, **named)

    monkeypatch.setattr(os, "makedirs", refuse)

    with pytest.raises(PermissionRefused, match=str(target)):
        pull(proxy, target)

    assert [] == files_asked(proxy)


def test_resume_finishes_the_version_of_the_interrupted_pull(origin: Origin, proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"
    proxy.plant = lambda asked, truly: Sent(404, {}, b"") if asked.is_for_file else truly()
    with pytest.raises(DeltacliError):
        pull(proxy, target)
    proxy.plant = None
    origin.append(range(20, 22))

    resumed = pull(proxy, target, resumes=True)

    assert 1 == resumed.shared_version
    assert list(range(15)) == rows_of(target)


def test_two_pulls_at_once_make_one_version(proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"
    others: list[Any] = []

    def plant(asked: Asked, truly: Truly) -> Sent:
        if asked.is_for_file and not others:
            others.append(None)
            others.append(pull(proxy, target))
        return truly()

    proxy.plant = plant

    result = pull(proxy, target)

    assert {0} == {result.local_version, others[1].local_version}
    assert [False, True] == sorted([result.is_committed, others[1].is_committed])
    assert list(range(15)) == rows_of(target)


def test_a_size_that_changes_for_a_pulled_file_is_refused(origin: Origin, proxy: Proxy, tmp_path: Path) -> None:
    target = tmp_path / "local"
    pull(proxy, target)
    origin.append(range(20, 22))
    proxy.plant = _lines(_larger)

    with pytest.raises(Unreadable, match="changed the size of a file"):
        pull(proxy, target)

    assert list(range(15)) == rows_of(target)
