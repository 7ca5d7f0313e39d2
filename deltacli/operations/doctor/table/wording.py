"""The numbers of a report in words, the same on terminals and on pages."""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.typing import JsonObject
from deltacli.units import format_count, format_duration, format_size


def numbers(found: Mapping[str, int | None]) -> str:
    """Return the numbers of an advice for people, without those that are not known."""
    return ", ".join(_number(name, value) for name, value in found.items() if value is not None) or "unknown"


def _number(name: str, value: int) -> str:
    if name == "bytes":
        return format_size(value)
    if name.endswith("Ms"):
        return f"{'log' if name == 'logMs' else 'files'} {format_duration(value)}"
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return f"{format_count(value)} {words.removesuffix('s') if value == 1 else words}"


def saves(found: Mapping[str, float | None]) -> str:
    """Return what an advice saves for people; estimates are marked."""
    counts = {name: int(found[name] or 0) for name in ("files", "bytes", "requests") if found[name]}
    said = [_number(name, value) + (" per read" if name == "requests" else "") for name, value in counts.items()]
    if found["seconds"] is not None:
        said.append(f"about {found['seconds']:,.1f} s per read")
    if found["dollars"] is not None:
        said.append(f"about {dollars(found['dollars'])} per month")
    return ", ".join(said)


def dollars(value: float) -> str:
    """Return an amount of US dollars: cents, and more digits below one."""
    return f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}".rstrip("0")


def growth(found: JsonObject) -> str:
    """Return the growth of a document for people."""
    days = f"{found['days']:,.0f} days" if found["days"] >= 2 else f"{found['days']:.1f} days"
    said = f"{found['commitsPerDay']:,.1f} commits per day over {days}"
    if found["bytesPerDay"] is not None:
        size, files = round(found["bytesPerDay"]), found["filesPerDay"]
        sign = "-" if size < 0 else "+"
        said += f"; {sign}{format_size(abs(size))} and {files:+,.1f} files per day"
    return said
