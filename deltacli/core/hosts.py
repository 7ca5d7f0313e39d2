"""Recognise host names that mean this machine.

Some things are allowed there only, such as tokens over plain HTTP. A host that merely may be this machine is treated
as another one.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and loopback addresses: nothing that is sent there leaves the machine.

    Names are not resolved, because a resolver may answer differently the next time. The following are refused,
    although some libraries connect to this machine for them:

    * names below `localhost`, which a resolver may send anywhere;
    * short and octal forms such as `127.1`, and a trailing dot as in `127.0.0.1.`: libraries read them differently;
    * IPv4 addresses embedded in IPv6 other than mapped ones, which a gateway may route.

    Args:
        host: A host name or an address, without a port. IPv6 addresses may be in brackets, as in a URL.
    """
    if host.lower() in ("localhost", "localhost."):
        return True

    try:
        address = _parse_address(host)
    except ValueError:
        return False

    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _parse_address(host: str) -> IPv4Address | IPv6Address:
    """Parse an IP address. Brackets are for IPv6 only: `[127.0.0.1]` is not an address."""
    if host.startswith("[") and host.endswith("]"):
        return IPv6Address(host[1:-1])
    return ip_address(host)
