"""Recipients: tokens, grants, epochs, and the changes that commands make."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.core.errors import Refused, UsageError
from deltacli.sharing.configuration.recipients import (
    MOST_TOKENS,
    Identity,
    Recipients,
    TokenState,
    add_recipient,
    add_token,
    encode_recipients,
    grant_to,
    parse_grant,
    parse_old_grant,
    parse_recipients,
    remove_recipient,
    revoke_from,
    revoke_tokens,
    rotate_tokens,
    spelled,
)
from deltacli.sharing.configuration.secrets import create_token, digest_token, is_intact
from deltacli.sharing.model import Catalog, Grant, SharedSchema, SharedTable
from deltacli.sharing.model import Share as SharedShare

NOW = 1_800_000_000_000


def with_acme(*grants: Grant) -> Recipients:
    return add_recipient(Recipients(), "acme", grants, NOW)


def authenticated(recipients: Recipients, token: str, now_ms: int) -> Identity | None:
    """Return who a valid token belongs to."""
    found = recipients.find_token(token)
    return found if found is not None and found.token.state(now_ms) is TokenState.ACTIVE else None


@settings(max_examples=20)
@given(random=st.binary(min_size=32, max_size=32))
def test_a_token_is_recognized_and_a_changed_one_is_not(random: bytes) -> None:
    token = create_token(random)

    assert re.fullmatch(r"dct_[0-9A-Za-z]{49}", token)
    assert is_intact(token)
    for place in range(4, len(token)):
        other = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert not is_intact(other)
    assert not is_intact(token[:-1])


def test_tokens_are_valid_at_their_time_and_several_at_once() -> None:
    recipients, first = add_token(with_acme(), "ACME", NOW, expires_ms=NOW + 10)
    recipients, second = add_token(recipients, "acme", NOW, expires_ms=None)

    for token, at, expected in (
        (first.text, NOW + 9, True),
        (first.text, NOW + 10, False),
        (second.text, NOW + 10**12, True),
        (second.text[:-1], NOW, False),
        ("", NOW, False),
    ):
        found = authenticated(recipients, token, at)
        assert expected == (found is not None)
        assert found is None or "acme" == found.recipient.name


def test_a_revoked_token_ends_and_a_recipient_that_is_added_again_has_another_epoch() -> None:
    recipients, token = add_token(with_acme(), "acme", NOW, expires_ms=None)
    before = recipients.items[0].epoch

    revoked = revoke_tokens(recipients, "acme", [token.record.token_id])
    again = add_recipient(remove_recipient(revoked, "acme"), "acme", [], NOW + 5)

    assert authenticated(revoked, token.text, NOW) is None
    assert before == revoked.items[0].epoch < again.items[0].epoch


def test_a_rotation_keeps_old_tokens_for_the_overlap_and_no_longer_than_before() -> None:
    recipients, old = add_token(with_acme(), "acme", NOW, expires_ms=None)
    recipients, short = add_token(recipients, "acme", NOW, expires_ms=NOW + 10)

    rotated, new = rotate_tokens(recipients, "acme", NOW, expires_ms=None, overlap_ms=100)

    states = {
        at: [authenticated(rotated, token.text, NOW + at) is not None for token in (old, short, new)]
        for at in (9, 10, 99, 100)
    }
    assert {9: [1, 1, 1], 10: [1, 0, 1], 99: [1, 0, 1], 100: [0, 0, 1]} == states
    assert recipients.items[0].epoch == rotated.items[0].epoch


def test_a_rotation_without_overlap_revokes_at_once() -> None:
    recipients, old = add_token(with_acme(), "acme", NOW, expires_ms=None)

    rotated, new = rotate_tokens(recipients, "acme", NOW, expires_ms=None, overlap_ms=0)

    assert authenticated(rotated, old.text, NOW) is None
    assert authenticated(rotated, new.text, NOW) is not None


def test_tokens_are_limited() -> None:
    recipients = with_acme()
    for _ in range(MOST_TOKENS):
        recipients, _token = add_token(recipients, "acme", NOW, expires_ms=NOW + 1)

    with pytest.raises(Refused, match="has 20 valid tokens"):
        add_token(recipients, "acme", NOW, expires_ms=None)
    assert add_token(recipients, "acme", NOW + 1, expires_ms=None)


def test_grants_are_added_once_and_revoked_as_they_were_granted() -> None:
    recipients = grant_to(with_acme(Grant("s")), "acme", [Grant("S"), Grant("s", "c"), Grant("s", "c")])

    assert ["s", "s/c"] == [spelled(grant) for grant in recipients.items[0].grants]
    revoked = revoke_from(recipients, "acme", [Grant("s", "C")])
    assert (Grant("s"),) == revoked.items[0].grants
    with pytest.raises(UsageError, match="no grant of s/c/t"):
        revoke_from(recipients, "acme", [Grant("s", "c", "t")])


def table(share: str, schema: str, name: str) -> SharedTable:
    return SharedTable(share, schema, name, "/t", "id")


CATALOG = Catalog(
    (
        SharedShare("a", (SharedSchema("a", "b", (table("a", "b", "c"),)),)),
        SharedShare("a.b", (SharedSchema("a.b", "x", (table("a.b", "x", "t"),)),)),
    )
)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a", Grant("a")),
        ("A/B", Grant("a", "b")),
        ("a.b.c", Grant("a", "b", "c")),
        ("a.b", None),
        ("a.b/x", Grant("a.b", "x")),
        ("a.b.x", Grant("a.b", "x")),
        ("a.b.x.t", Grant("a.b", "x", "t")),
        ("a.b.x.u", None),
        ("", None),
        ("a/b/c/d", None),
    ],
)
def test_a_grant_is_read_by_what_exists(text: str, expected: Grant | None) -> None:
    if expected is None:
        with pytest.raises(UsageError, match=r"more than one meaning|nothing is shared as"):
            parse_grant(text, CATALOG)
        return
    assert expected == parse_grant(text, CATALOG)


def test_a_grant_of_what_is_not_shared_any_more_is_found() -> None:
    recipient = with_acme(Grant("gone", "c")).items[0]

    assert Grant("gone", "c") == parse_old_grant("Gone.C", recipient)
    with pytest.raises(UsageError, match="has no grant of 'gone'"):
        parse_old_grant("gone", recipient)


def test_unknown_recipients_and_invalid_names_are_refused() -> None:
    calls: dict[str, Callable[[], object]] = {
        "no recipient 'acne'; did you mean 'acme'": lambda: grant_to(with_acme(), "acne", []),
        "'acme' exists already": lambda: add_recipient(with_acme(), "ACME", [], NOW),
        "contains a space": lambda: add_recipient(Recipients(), "a b", [], NOW),
        "has no token 't1'": lambda: revoke_tokens(with_acme(), "acme", ["t1"]),
    }
    for message, call in calls.items():
        with pytest.raises(UsageError, match=message):
            call()


def test_the_file_has_hashes_and_gives_the_recipients_back() -> None:
    recipients, token = add_token(with_acme(Grant("s", "c", "t")), "acme", NOW, expires_ms=NOW + 1)

    data = encode_recipients(recipients)

    assert recipients == parse_recipients(data, "f")
    assert token.text.encode() not in data
    assert digest_token(token.text).hex().encode() in data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "tokens", "grants", "epoch", "sha256", "share", "x"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(items=st.lists(JSON, max_size=2), junk=st.binary(max_size=20))
def test_no_file_gives_anything_but_a_usage_error(items: list[object], junk: bytes) -> None:
    for data in (json.dumps({"version": 1, "recipients": items}).encode(), junk, b"[" * 100_000):
        try:
            parse_recipients(data, "f")
        except UsageError as fault:
            assert "recipients f " in fault.message  # noqa: PT017  (an empty list is valid)


@pytest.mark.parametrize(
    "damage",
    [
        (b'"createdMs"', b'"created"'),
        (b'"expiresMs": 1', b'"expires": 1'),
        (b'"sha256": "', b'"sha256": "zz'),
        (b'"epoch": 1', b'"epoch": -1'),
        (b'"version": 1', b'"version": 2'),
        (b'"name": "acme"', b'"name": "a/c"'),
    ],
)
def test_a_misspelt_or_damaged_file_is_refused_as_a_whole(damage: tuple[bytes, bytes]) -> None:
    recipients, _ = add_token(with_acme(), "acme", NOW, expires_ms=NOW)
    data = encode_recipients(recipients)
    assert damage[0] in data

    with pytest.raises(UsageError) as fault:
        parse_recipients(data.replace(*damage), "f")

    assert recipients.items[0].tokens[0].sha256.hex() not in fault.value.message
    assert TokenState.EXPIRED is recipients.items[0].tokens[0].state(NOW)
