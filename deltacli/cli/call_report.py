"""The calls of a run to object stores, as a line on stderr per endpoint (`-v`)."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.storage.tally import Call, HostTally
from deltacli.typing import Json
from deltacli.units import format_size


def text_of(host: HostTally) -> str:
    """Return the calls to one endpoint for people."""
    calls = ", ".join(f"{host.calls[call]:,} {call}" for call in Call if host.calls[call]) or "none"
    moved = f"{format_size(host.bytes_read)} read, {format_size(host.bytes_written)} written"
    text = f"calls to {host.host}: {calls}; {moved}"
    if host.prices is None or host.price_usd is None:
        return text
    return f"{text}; estimated price {_dollars(host.price_usd)} ({host.prices.source})"


def document_of(host: HostTally) -> dict[str, Json]:
    """Return the calls to one endpoint for programs."""
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


def merged(hosts: Iterable[HostTally]) -> list[HostTally]:
    """Return the calls by endpoint, by name, where several policies of a run sent some to the same one."""
    found: dict[str, HostTally] = {}
    for host in hosts:
        whole = found.setdefault(host.host, HostTally(host.host, host.prices))
        whole.calls += host.calls
        whole.bytes_read += host.bytes_read
        whole.bytes_written += host.bytes_written
    return [found[name] for name in sorted(found)]
