"""The calls of a run to object stores, by endpoint, as `-v` shows them at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltacli.core.units import format_size

if TYPE_CHECKING:
    from deltacli.core.typing import Json
    from deltacli.storage.tally import HostTally

if TYPE_CHECKING:
    pass


def describe_calls(host: HostTally) -> str:
    """Return the calls to one endpoint for people."""
    from deltacli.storage.tally import Call

    calls = ", ".join(f"{host.calls[call]:,} {call}" for call in Call if host.calls[call]) or "none"
    moved = f"{format_size(host.bytes_read)} read, {format_size(host.bytes_written)} written"
    text = f"calls to {host.host}: {calls}; {moved}"
    if host.prices is None or host.price_usd is None:
        return text
    return f"{text}; estimated price {_dollars(host.price_usd)} ({host.prices.source})"


def describe_calls_as_json(host: HostTally) -> dict[str, Json]:
    """Return the calls to one endpoint for programs."""
    from deltacli.storage.tally import Call

    return {
        "type": "calls",
        "endpoint": host.host,
        "calls": {str(call): host.calls[call] for call in Call},
        "bytesRead": host.bytes_read,
        "bytesWritten": host.bytes_written,
        "estimatedPriceUsd": None if host.price_usd is None else round(host.price_usd, 6),
        "priceSource": None if host.prices is None else host.prices.source,
    }


def _dollars(price_usd: float) -> str:
    return f"${price_usd:,.2f}" if price_usd >= 1 else f"${price_usd:.6f}".rstrip("0").removesuffix(".")


def merge_tallies(hosts: Iterable[HostTally]) -> list[HostTally]:
    """Return the calls by endpoint, by name, where several policies of a run sent some to the same one."""
    from deltacli.storage.tally import HostTally

    found: dict[str, HostTally] = {}
    for host in hosts:
        whole = found.setdefault(host.host, HostTally(host.host, host.prices))
        whole.calls += host.calls
        whole.bytes_read += host.bytes_read
        whole.bytes_written += host.bytes_written
    return [found[name] for name in sorted(found)]
