"""Which hosts are this machine: what is granted to them must not be granted to another one."""

from __future__ import annotations

import pytest

from deltacli.core.hosts import is_loopback


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LocalHost", "LOCALHOST.", "127.0.0.1", "127.0.0.0", "127.255.255.255", "::1", "[::1]"),
        *("0:0:0:0:0:0:0:1", "::1%lo", "::ffff:127.0.0.1", "::FFFF:7f00:1", "[::ffff:127.9.9.9]"),
    ],
)
def test_these_are_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "localhost..", ".localhost", "a.localhost", "localhost.localdomain", "localhost.example.com"),
        *(" localhost", "localhost\n", "localhost:80", "[localhost]", "locaⅼhost", "ｌocalhost", "ip6-localhost"),
        *("126.255.255.255", "128.0.0.1", "0.0.0.0", "10.0.0.1", "169.254.0.1", "127.0.0.1.", "127.0.0.1.nip.io"),
        *("127.1", "127.0.0.01", "0177.0.0.1", "0x7f000001", "2130706433", "１２７.0.0.1", "127.0.0.1:80"),
        *("127.0.0.1%lo", "[127.0.0.1]", "[::1", "::1]", "[[::1]]", "::1%", "::", "::2", "fe80::1%lo", "fc00::1"),
        *("::127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::"),
    ],
)  # fmt: skip
def test_these_may_be_another_one(host: str) -> None:
    assert not is_loopback(host)
