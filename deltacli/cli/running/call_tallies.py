"""The number of requests to object stores, which `-v` reports at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltacli.core.units import format_size

if TYPE_CHECKING:
    from deltacli.core.typing import Json
    from deltacli.storage.tally import HostTally


def describe_calls(host: HostTally) -> str:
    """Return the requests to one endpoint as text.

    For example, `calls to s3.amazonaws.com: 3 get, 1 list; 1.2 KiB read, 0 B written; estimated price $0.000017 (…)`.
    """
    from deltacli.storage.tally import Call

    calls = ", ".join(f"{host.calls[call]:,} {call}" for call in Call if host.calls[call]) or "none"
    volume = f"{format_size(host.bytes_read)} read, {format_size(host.bytes_written)} written"
    text = f"calls to {host.host}: {calls}; {volume}"
    if host.prices is None or host.price_usd is None:
        return text
    return f"{text}; estimated price {_format_dollars(host.price_usd)} ({host.prices.source})"


def describe_calls_as_json(host: HostTally) -> dict[str, Json]:
    """Return the requests to one endpoint as a JSON object."""
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


def _format_dollars(price_usd: float) -> str:
    if price_usd >= 1:
        return f"${price_usd:,.2f}"
    return f"${price_usd:.6f}".rstrip("0").removesuffix(".")


def merge_tallies(hosts: Iterable[HostTally]) -> list[HostTally]:
    """Return one tally per endpoint, sorted by endpoint. A run with several retry policies has several of each."""
    from deltacli.storage.tally import HostTally

    totals: dict[str, HostTally] = {}
    for host in hosts:
        total = totals.setdefault(host.host, HostTally(host.host, host.prices))
        total.calls += host.calls
        total.bytes_read += host.bytes_read
        total.bytes_written += host.bytes_written
    return [totals[name] for name in sorted(totals)]
