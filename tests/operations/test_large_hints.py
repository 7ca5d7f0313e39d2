"""A `_last_checkpoint` of any size costs little: nobody reads more of it than a hint may have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli import Table, open_table
from deltacli.delta.log.segment import MAX_HINT_BYTES, parse_hint
from deltacli.operations.log.expire import ExpiryRequest, plan_expiry
from deltacli.storage import LocalStorage
from tests.support.builder import HINT, TableBuilder

USERS: dict[str, Callable[[Table], object]] = {
    "snapshot": lambda table: table.snapshot(),
    "validate": lambda table: table.validate(),
    "log expire": lambda table: plan_expiry(table, ExpiryRequest(dry_run=True)),
    "checkpoint": lambda table: table.checkpoint(),
}


@pytest.mark.parametrize("user", USERS)
def test_no_more_of_a_hint_is_read_than_it_may_have(user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TableBuilder().commits(4).checkpoint(2).file(HINT, b"{}").write(tmp_path)
    with (tmp_path / HINT).open("r+b") as file:
        file.truncate(8 << 30)  # sparse: it takes no space
    read = LocalStorage.read

    def watched(self: LocalStorage, path: str) -> bytes:
        assert HINT != path
        return read(self, path)

    monkeypatch.setattr(LocalStorage, "read", watched)

    USERS[user](open_table(tmp_path))

    assert "larger than 16 MiB" in str(parse_hint(bytes(MAX_HINT_BYTES + 1)))
