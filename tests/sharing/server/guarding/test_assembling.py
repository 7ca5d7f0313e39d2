"""The guard of a configuration file: what it does not start with, and what it does while it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.sharing.server.services import make_guarding
from tests.sharing.configuration.files import write_shares

SHARES = "version: 1\nauthorization: {bearerToken: t}\nshares: [{name: old}]\n"


@pytest.mark.parametrize(
    "text, code",
    [
        ("version: 1\nhost: 0.0.0.0\n", "share.unauthenticated"),
        (f"{SHARES}host: 10.0.0.1\n", "share.plain-http"),
        ("version: 1\nrecipients: none.json\n", "share.recipients"),
        ("version: 1\nshares: 3\n", "share.config"),
    ],
)
def test_what_is_not_started(text: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as fault:
        make_guarding(write_shares(tmp_path, text))

    assert code == fault.value.code


def test_an_audit_log_that_cannot_be_written_is_found_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match=r"audit\.log"):
        make_guarding(write_shares(tmp_path, f"{SHARES}audit: {{file: none/audit.log}}\n"))


def test_a_running_guard_reloads_on_request_and_is_not_ready_while_it_stops(tmp_path: Path) -> None:
    guarding = make_guarding(write_shares(tmp_path, SHARES))

    async def run() -> None:
        running = asyncio.create_task(guarding.run())
        guarding.reloader.request()
        while not guarding.reloader.state.generation:
            await asyncio.sleep(0)
        assert {} == guarding.problems()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(run(), 30))

    assert {"server"} == set(guarding.problems())
    assert 'deltacli_share_reloads_total{outcome="done"} 1.0' in guarding.metrics.text().decode()
