"""Tokens and URLs of the server itself: only what the server made is accepted, unchanged, where it belongs."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from deltacli.sharing.signing.keys import (
    Bound,
    LocalUrlSigner,
    Seal,
    ServerKeys,
    TokenRefused,
    from_text,
    open_file_url,
    to_text,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
KEYS = ServerKeys.generate(NOW_MS)
BOUND = Bound("acme", 3, "table-1", "limitHint=5")
PATHS = ("part-0.parquet", "d=2024-01-01/é ☃%2F?&#.parquet", "x" * 300, "\udcff")


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(TokenRefused) as caught:
        call()
    return caught.value.reason


def flips(text: str) -> Iterator[str]:
    """Every text that differs in one bit of one character."""
    for place, character in enumerate(text):
        for bit in range(8):
            yield f"{text[:place]}{chr(ord(character) ^ 1 << bit)}{text[place + 1 :]}"


def test_a_token_brings_its_payload_back() -> None:
    payload = {"version": 7, "index": 10_000, "text": "é☃"}

    token = Seal(KEYS).seal("page", payload, bound=BOUND, expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)

    assert re.fullmatch("[A-Za-z0-9_-]+", token)
    assert payload == Seal(KEYS).open("page", token, bound=BOUND, now_ms=NOW_MS + HOUR_MS - 1)


def test_every_bit_of_a_token_counts() -> None:
    seal = Seal(KEYS)
    for version in range(3):  # of different lengths, so that the last character has unused bits
        token = seal.seal("page", {"v": 10**version}, bound=BOUND, expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)
        for changed in (*flips(token), token[:-1], token + "A", token + "=", f" {token}", token[1:], token * 2, ""):
            assert "invalid" == refusal(lambda text=changed: seal.open("page", text, bound=BOUND, now_ms=NOW_MS))  # type: ignore[misc]


@pytest.mark.parametrize("other", [
    replace(BOUND, recipient="acme2"), replace(BOUND, epoch=4), replace(BOUND, table_id="table-2"),
    replace(BOUND, parameters="limitHint=6"),
    Bound("acm", 3, "etable-1", BOUND.parameters), Bound("acme", 3, "", "table-1" + BOUND.parameters),
])  # fmt: skip
def test_a_token_belongs_to_one_recipient_table_and_request(other: Bound) -> None:
    token = Seal(KEYS).seal("refresh", {"version": 7}, bound=BOUND, expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)

    assert "invalid" == refusal(lambda: Seal(KEYS).open("refresh", token, bound=other, now_ms=NOW_MS))
    assert "invalid" == refusal(lambda: Seal(KEYS).open("page", token, bound=BOUND, now_ms=NOW_MS))
    others = Seal(ServerKeys.generate(NOW_MS))
    assert "invalid" == refusal(lambda: others.open("refresh", token, bound=BOUND, now_ms=NOW_MS))


def test_a_forged_refresh_token_does_not_travel_in_time() -> None:
    """The version, and then the expiry, are changed in the readable part of a token."""
    token = Seal(KEYS).seal("refresh", {"version": 7}, bound=BOUND, expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    later = (NOW_MS + 2 * HOUR_MS).to_bytes(8)
    forged = [data.replace(b'"version":7', b'"version":2'), data.replace((NOW_MS + HOUR_MS).to_bytes(8), later)]

    assert data not in forged
    for changed in forged:
        text = to_text(changed)
        assert "invalid" == refusal(lambda text=text: Seal(KEYS).open("refresh", text, bound=BOUND, now_ms=NOW_MS))  # type: ignore[misc]


@pytest.mark.parametrize("token", ["", "A", "AA", "AAAA", "é", "\ud800", "A" * 9_000, "=", "AQ==", None, 5, b"AAAA"])
def test_junk_is_no_token(token: Any) -> None:
    assert "invalid" == refusal(lambda: Seal(KEYS).open("page", token, bound=BOUND, now_ms=NOW_MS))


def test_a_token_expires() -> None:
    token = Seal(KEYS).seal("page", {}, bound=BOUND, expires_ms=NOW_MS, now_ms=NOW_MS - HOUR_MS)

    assert "expired" == refusal(lambda: Seal(KEYS).open("page", token, bound=BOUND, now_ms=NOW_MS))


def test_tokens_of_a_retired_key_are_refused() -> None:
    key = replace(KEYS.keys[0], retires_ms=NOW_MS + 10)
    token = Seal(KEYS).seal("page", {}, bound=BOUND, expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)

    assert {} == Seal(ServerKeys((key,))).open("page", token, bound=BOUND, now_ms=NOW_MS + 9)
    assert "invalid" == refusal(lambda: Seal(ServerKeys((key,))).open("page", token, bound=BOUND, now_ms=NOW_MS + 10))


def test_texts_have_one_spelling() -> None:
    assert b"\xff\xfe" == from_text("__4")
    assert "invalid" == refusal(lambda: from_text("__5"))


# -- URLs of local files ----------------------------------------------------------------------------------------------


def signer(**changes: Any) -> LocalUrlSigner:
    given: dict[str, Any] = {"table_id": "table-1", "recipient": "acme/é", "token_epoch": 3, **changes}
    return LocalUrlSigner(KEYS, "https://share.example/delta-sharing/", **given)


def in_parts(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    prefix, segment, scope, path = parts.path.rsplit("/", 3)
    assert "/delta-sharing" == prefix
    assert "_files" == segment
    return scope, path, parts.query


@pytest.mark.parametrize("path", PATHS)
def test_a_url_names_its_file(path: str) -> None:
    found = signer().sign([path], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)

    file = open_file_url(KEYS, *in_parts(found.urls[0]), now_ms=NOW_MS + HOUR_MS - 1)
    assert ("table-1", "acme/é", 3, path, NOW_MS + HOUR_MS) == file
    assert re.fullmatch(r"https://share\.example/delta-sharing/_files/[\w-]+/[\w-]+\?sp=r&se=\d+&sig=[\w-]{43}",
                        found.urls[0], re.ASCII)  # fmt: skip


def test_every_bit_of_a_url_counts() -> None:
    for path in ("a", "ab", "abc"):
        url = signer().sign([path], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS).urls[0]
        parts = in_parts(url)
        for place, part in enumerate(parts):
            for changed in (*flips(part), f"{part}&sp=r", part[:-1], ""):
                given = (*parts[:place], changed, *parts[place + 1 :])
                assert "invalid" == refusal(lambda given=given: open_file_url(KEYS, *given, now_ms=NOW_MS))  # type: ignore[misc]


def test_parts_of_two_urls_do_not_make_a_third() -> None:
    one = in_parts(signer().sign(["a"], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS).urls[0])
    other = in_parts(signer(recipient="b").sign(["b"], expires_ms=NOW_MS + 2 * HOUR_MS, now_ms=NOW_MS).urls[0])

    for mixed in ((other[0], one[1], one[2]), (one[0], other[1], one[2]), (one[0], one[1], other[2])):
        assert "invalid" == refusal(lambda mixed=mixed: open_file_url(KEYS, *mixed, now_ms=NOW_MS))  # type: ignore[misc]


def test_urls_expire_with_the_token_of_the_recipient() -> None:
    found = signer(not_after_ms=NOW_MS + 5).sign(["a"], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)

    assert NOW_MS + 5 == found.expires_ms
    assert "expired" == refusal(lambda: open_file_url(KEYS, *in_parts(found.urls[0]), now_ms=NOW_MS + 5))
