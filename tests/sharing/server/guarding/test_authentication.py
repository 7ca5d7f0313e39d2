"""Tokens that are almost right."""

from __future__ import annotations

from tests.sharing.server.guarding.asgi import NOW_MS, Client, make_state
from tests.sharing.server.guarding.test_guard import Server


def test_a_token_with_any_bit_changed_is_refused() -> None:
    state, token = make_state()
    client = Client(Server(state, NOW_MS).client.application)
    data = token.encode()

    changed = [bytearray(data) for _ in range(len(data) * 8)]
    for place, other in enumerate(changed):
        other[place // 8] ^= 1 << (place % 8)
    statuses = {client.send("GET", headers=[(b"authorization", b"Bearer " + bytes(one))]).status for one in changed}

    assert 200 == client.get(token=token).status
    assert {401} == statuses
