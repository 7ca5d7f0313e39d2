"""Whether a host is this machine, for what is allowed there only: plain http, and a service without tokens."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and for addresses of loopback: nothing that is sent there leaves the machine. Names
    are not resolved.

    What may be another host for any resolver or gateway is none: names below `localhost`, forms of addresses that only
    some libraries read (`127.1`, `127.0.0.1.`), and IPv4 addresses within others of IPv6 than mapped ones.
    """
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        address = IPv6Address(host[1:-1]) if host.startswith("[") and host.endswith("]") else ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
