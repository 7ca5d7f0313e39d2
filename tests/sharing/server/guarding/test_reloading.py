"""Reloading: what changed takes effect as a whole and within a second; what is bad does not, and says so."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from deltacli.core.errors import UsageError
from deltacli.sharing.configuration.recipients import (
    Recipients,
    add_recipient,
    add_token,
    change_recipients,
    read_recipients,
    revoke_tokens,
)
from deltacli.sharing.configuration.settings import Configuration
from deltacli.sharing.configuration.shares_yaml import read_configuration
from deltacli.sharing.server.guard import POLL_SECONDS, Reloaded, Reloader
from tests.sharing.configuration.files import write_shares

SHARES = "version: 1\nrecipients: recipients.json\nshares:\n- name: {name}\n  schemas: []\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_shares(tmp_path, SHARES.format(name="old"))
    change_recipients(
        tmp_path / "recipients.json", lambda _: add_recipient(Recipients(), "acme", [], 5), may_create=True
    )
    return tmp_path


def shares(reloader: Reloader) -> list[str]:
    return [share.name for share in reloader.state.configuration.catalog.shares]


def failures(outcomes: list[Reloaded]) -> list[str]:
    return [one.what for one in outcomes if one.error is not None]


def test_nothing_is_read_again_while_nothing_changes(home: Path) -> None:
    reloader = Reloader(home / "shares.yaml")

    assert [] == [reloader.look(), reloader.look()][1]
    assert ["recipients", "configuration"] == [one.what for one in reloader.look(is_forced=True)]


def test_a_changed_configuration_takes_effect_and_a_bad_one_does_not(home: Path) -> None:
    reloader = Reloader(home / "shares.yaml")
    taken = reloader.state

    write_shares(home, SHARES.format(name="recent"))  # of another length: some file systems have coarse times
    assert [Reloaded("configuration")] == reloader.look()
    write_shares(home, SHARES.format(name="'a/b'"))
    bad = reloader.look()

    assert ["configuration"] == failures(bad)
    assert "name of the share is 'a/b'" in reloader.problems["configuration"]
    assert ["recent"] == shares(reloader)
    assert ["old"] == [share.name for share in taken.configuration.catalog.shares]
    write_shares(home, SHARES.format(name="newest"))
    reloader.look()
    assert ({}, ["newest"], 2) == (reloader.problems, shares(reloader), reloader.state.generation)


@pytest.mark.parametrize("damage", ["{", "", None])
def test_bad_recipients_keep_the_old_ones(damage: str | None, home: Path) -> None:
    reloader = Reloader(home / "shares.yaml")
    file = home / "recipients.json"

    if damage is None:
        file.unlink()
    else:
        file.write_text(damage)

    assert ["recipients"] == failures(reloader.look())
    assert ["acme"] == [one.name for one in reloader.state.recipients.items]


def test_included_files_and_secrets_are_watched(home: Path) -> None:
    text = SHARES.format(name="old") + "include: more.yaml\nauthorization: {bearerToken: 'file:token'}\n"
    (home / "token").write_text("first")
    write_shares(home, "version: 1\nshares: [{name: a}]\n", "more.yaml")
    reloader = Reloader(write_shares(home, text))

    (home / "token").write_text("second")
    reloader.look()
    write_shares(home, "version: 1\nshares: [{name: b}]\n", "more.yaml")
    reloader.look()

    assert "second" == reloader.state.configuration.bearer_token
    assert ["old", "b"] == shares(reloader)


def test_a_reload_never_ends_authentication(home: Path) -> None:
    reloader = Reloader(home / "shares.yaml")

    write_shares(home, SHARES.format(name="new").replace("recipients: recipients.json", ""))

    assert ["configuration"] == failures(reloader.look())
    assert not reloader.state.is_open


def test_other_recipients_come_with_their_configuration(home: Path) -> None:
    reloader = Reloader(home / "shares.yaml")
    other = home / "other.json"
    change_recipients(other, lambda _: add_recipient(Recipients(), "zeta", [], 5), may_create=True)

    write_shares(home, SHARES.format(name="new").replace("recipients.json", "other.json"))
    reloader.look()

    assert ["zeta"] == [one.name for one in reloader.state.recipients.items]


def test_a_bad_configuration_is_tried_again_and_wildcards_are_listed_again(home: Path) -> None:
    reads: list[Path] = []

    def read(path: Path) -> Configuration:
        reads.append(path)
        if len(reads) == 2:
            raise UsageError("bad")
        return read_configuration(path)

    reloader = Reloader(home / "shares.yaml", read=read)
    reloader.look(is_forced=True, now_seconds=100)

    assert [] == reloader.look(now_seconds=104)
    assert [Reloaded("configuration")] == reloader.look(now_seconds=105)
    (home / "t1" / "_delta_log").mkdir(parents=True)
    line = "  - {name: c, tables: [{location: 't*'}]}\nwildcardRefreshSeconds: 60\n"
    write_shares(home, SHARES.format(name="new").replace("schemas: []", "schemas:") + line)
    reloader.look(now_seconds=110)
    (home / "t2" / "_delta_log").mkdir(parents=True)
    assert [] == reloader.look(now_seconds=169)
    reloader.look(now_seconds=170)
    tables = reloader.state.configuration.catalog.shares[0].schemas[0].tables
    assert ["t1", "t2"] == [table.name for table in tables]


def test_a_revoked_token_is_refused_within_a_second_while_wildcards_are_being_listed(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = home / "recipients.json"
    recipients, token = add_token(read_recipients(file), "acme", 5, expires_ms=None)
    change_recipients(file, lambda _: recipients)
    release = asyncio.Event()

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def slow(path: Path) -> Configuration:
            if slow_from_now:
                asyncio.run_coroutine_threadsafe(release.wait(), loop).result(30)
            return read_configuration(path)

        slow_from_now = False
        seen = asyncio.Event()
        reloader = Reloader(home / "shares.yaml", read=slow, on_outcome=lambda _: seen.set())
        slow_from_now = True
        watching = asyncio.create_task(reloader.run(poll_seconds=0.01))
        assert reloader.state.find_token(token.text)
        os.utime(home / "shares.yaml", ns=(1, 1))
        change_recipients(file, lambda one: revoke_tokens(one, "acme", []))
        async with asyncio.timeout(30):
            await seen.wait()
        assert reloader.state.find_token(token.text) is None
        seen.clear()
        release.set()
        reloader.request()
        async with asyncio.timeout(30):
            await seen.wait()
        watching.cancel()

    with caplog.at_level(logging.INFO, "deltacli.share"):
        asyncio.run(run())

    assert caplog.messages[0] == "reloaded the recipients: 1 share, 0 tables, 1 recipient"
    assert POLL_SECONDS < 0.5
