"""Recognise the host names and addresses of the loopback interface.

deltacli sends tokens over plain HTTP to loopback addresses only. A host that some libraries resolve to loopback, and
others do not, counts as another machine.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and for loopback addresses. Data that is sent there does not leave the machine.

    Other names are not resolved, because a resolver may return another address for the next connection. The result is
    False for the following hosts, although some libraries connect to loopback for them:

    * subdomains of `localhost`, for which a resolver may return any address;
    * short and octal forms such as `127.1`, and a trailing dot as in `127.0.0.1.`, which libraries parse differently;
    * IPv4 addresses that are embedded in IPv6, which a gateway may route, except IPv4-mapped addresses.

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
    """Parse an IP address. Brackets are allowed for IPv6 only: `[127.0.0.1]` raises ValueError."""
    if host.startswith("[") and host.endswith("]"):
        return IPv6Address(host[1:-1])
    return ip_address(host)
