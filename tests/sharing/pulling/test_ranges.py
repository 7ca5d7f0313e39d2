"""Large files that are pulled in ranges by several connections: always of one content, and none received twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from deltacli.core.errors import DataUnreadable, DeltacliError
from deltacli.sharing.client.faults import AnswerInvalid
from deltacli.sharing.pulling import downloading
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.pulling.origin import Origin, pull, rows_of
from tests.sharing.served import shared
from tests.support.waiting import wait_until

Truly = Callable[[], Sent]
ROWS = range(100_000)
RANGE = 128 << 10


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    """A table of one file of several ranges."""
    return Origin(tmp_path / "origin").append(ROWS)


@pytest.fixture
def proxy(origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(downloading, "_RANGE_BYTES", RANGE)
    monkeypatch.setattr("deltacli.sharing.pulling.downloading.LEAST_BYTES", 4 * RANGE)
    with proxied(tmp_path, shared(origin.path)) as proxy:
        yield proxy


def asked_ranges(proxy: Proxy) -> list[str]:
    """The ranges that were asked for, in the order of the file; `all` for a whole file."""
    found = [asked.headers.get("range", "all") for asked in proxy.asked if asked.is_for_file]
    return sorted(found, key=lambda text: [int(number) for number in re.findall("[0-9]+", text)])


def all_ranges(origin: Origin) -> list[str]:
    size = origin.files[0]["size"]
    return [f"bytes={start}-{min(start + RANGE, size) - 1}" for start in range(0, size, RANGE)]


def changed(change: Callable[[Sent, int], Sent]) -> Callable[[Asked, Truly], Sent]:
    """Plant a change of the answers of files, which are numbered from 0 on."""
    numbers = count()

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return change(sent, next(numbers)) if asked.is_for_file else sent

    return plant


def test_every_range_is_received_once_and_on_condition_of_the_first_tag(
    origin: Origin, proxy: Proxy, tmp_path: Path
) -> None:
    result = pull(proxy, tmp_path / "local")

    assert all_ranges(origin) == asked_ranges(proxy)
    assert [True] * (len(all_ranges(origin)) - 1) == [
        "if-range" in asked.headers for asked in proxy.asked if asked.is_for_file
    ][1:]
    assert origin.files[0]["size"] == result.received_bytes
    assert list(ROWS) == rows_of(tmp_path / "local")
    assert not (tmp_path / "local" / ".deltacli-pull").exists()


def test_a_range_continues_where_its_connection_was_cut(origin: Origin, proxy: Proxy, tmp_path: Path) -> None:
    third = all_ranges(origin)[2]
    proxy.plant = lambda asked, truly: (
        replace(truly(), cut_at=100_000) if asked.headers.get("range") == third else truly()
    )

    result = pull(proxy, tmp_path / "local")

    rest = set(asked_ranges(proxy)) - set(all_ranges(origin))
    assert 1 == len(rest)
    assert 100_000 == int(rest.pop()[6:].partition("-")[0]) % RANGE
    assert origin.files[0]["size"] == result.received_bytes
    assert list(ROWS) == rows_of(tmp_path / "local")


def _with(sent: Sent, **headers: str | None) -> Sent:
    kept = {name: value for name, value in sent.headers.items() if name.lower() not in headers}
    return replace(sent, headers={**kept, **{name: value for name, value in headers.items() if value is not None}})


OF_ONE_STREAM = {
    "another tag in the middle": lambda sent, number: _with(sent, etag='"other"') if 2 <= number < 5 else sent,
    "no tag": lambda sent, _: _with(sent, etag=None),
    "a weak tag": lambda sent, _: _with(sent, etag='W/"1"'),
}


@pytest.mark.parametrize("name", OF_ONE_STREAM)
def test_ranges_that_can_be_of_two_contents_are_replaced_by_one_stream(proxy: Proxy, tmp_path: Path, name: str) -> None:
    proxy.plant = changed(OF_ONE_STREAM[name])

    pull(proxy, tmp_path / "local")

    assert "all" in asked_ranges(proxy)
    assert list(ROWS) == rows_of(tmp_path / "local")


@pytest.mark.parametrize("ignored_from", [0, 3])
def test_a_server_that_ignores_ranges_is_read_in_one_stream(
    origin: Origin, proxy: Proxy, tmp_path: Path, ignored_from: int
) -> None:
    whole = next(origin.path.glob("*.parquet")).read_bytes()

    def answer(sent: Sent, number: int) -> Sent:
        return Sent(200, {"etag": '"1"'}, whole) if number >= ignored_from else sent

    proxy.plant = changed(answer)

    pull(proxy, tmp_path / "local")

    assert list(ROWS) == rows_of(tmp_path / "local")


def wait_for_ranges(place: Path, count: int) -> None:
    """Wait until so many ranges are recorded; else an error of another one could end the pull before."""
    wait_until(
        lambda: sum(len(file.read_bytes().splitlines()) - 1 for file in place.rglob("*.ranges")) >= count,
        f"{count} ranges are recorded",
    )


def test_a_pull_that_was_interrupted_receives_only_the_ranges_that_lack(
    origin: Origin, proxy: Proxy, tmp_path: Path
) -> None:
    served: list[str] = []

    def plant(asked: Asked, truly: Truly) -> Sent:
        if not asked.is_for_file:
            return truly()
        if len(served) >= 3:
            wait_for_ranges(tmp_path, len(served))
            return Sent(403, {}, b"")
        served.append(asked.headers["range"])
        return truly()

    proxy.plant = plant
    with pytest.raises(DeltacliError):
        pull(proxy, tmp_path / "local")
    proxy.plant = None
    proxy.asked.clear()

    pull(proxy, tmp_path / "local")

    assert sorted(set(all_ranges(origin)) - set(served)) == sorted(asked_ranges(proxy))
    assert list(ROWS) == rows_of(tmp_path / "local")


@pytest.mark.parametrize("damage", [b"", b"{", b'{"tag": 1}\n', b"x" * 100])
def test_a_record_that_cannot_be_read_is_not_believed(
    origin: Origin, proxy: Proxy, tmp_path: Path, damage: bytes
) -> None:
    workspace = tmp_path / "local" / ".deltacli-pull"
    wanted = pull(proxy, tmp_path / "local", dry_run=True).difference.wanted[0]
    workspace.mkdir(parents=True)
    (workspace / f"{wanted.name}.part").write_bytes(b"\0" * (wanted.size_bytes or 0))
    (workspace / f"{wanted.name}.part.ranges").write_bytes(damage)
    (workspace / "pull.json").write_text("{}")

    pull(proxy, tmp_path / "local")

    assert all_ranges(origin) == asked_ranges(proxy)
    assert list(ROWS) == rows_of(tmp_path / "local")


@pytest.mark.parametrize(
    ("text", "fault"), [("bytes 0-{last}/999999999", DataUnreadable), ("bytes 1-{last}/*", AnswerInvalid)]
)
def test_ranges_of_another_file_are_refused(
    proxy: Proxy, tmp_path: Path, text: str, fault: type[DeltacliError]
) -> None:
    proxy.plant = changed(lambda sent, _: _with(sent, **{"content-range": text.format(last=RANGE - 1)}))

    with pytest.raises(fault):
        pull(proxy, tmp_path / "local")

    assert not (tmp_path / "local" / "_delta_log").exists()
