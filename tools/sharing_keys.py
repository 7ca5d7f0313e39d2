"""Write the tables of the keys of `shares.yaml` for docs/sharing-recipients.md."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.times import format_duration
from deltacli.core.units import format_size_limit
from deltacli.sharing.configuration.keys import LIMIT_KEYS, SERVER_KEYS, Keys, ShareKey


def sharing_key_tables() -> dict[str, list[str]]:
    """Return the lines of each generated table by its name."""
    head = ["| key | default | range | meaning |", "|---|---|---|---|"]
    return {
        "sharing keys": [*head, *_rows(SERVER_KEYS, "")],
        "sharing limits": [*head, *_rows(LIMIT_KEYS, "")],
    }


def _rows(keys: Keys, prefix: str) -> Iterator[str]:
    """Yield a row per key, followed by the keys of its mapping. `limits` has a table of its own."""
    for name, key in keys.items():
        cells = (f"`{prefix}{name}`", _format_default(key), _format_range(key), key.meaning)
        yield f"| {' | '.join(cells)} |"
        if key.of is not LIMIT_KEYS:
            yield from _rows(key.of, f"{prefix}{name}.")


def _format_default(key: ShareKey) -> str:
    """Return the default as it is written in the file, and in a larger unit if it has one."""
    if key.default_text is None:
        return ""
    if key.unit is None or not isinstance(key.default, int):
        return key.default_text
    larger = format_size_limit(key.default) if key.unit == "bytes" else format_duration(key.default)
    return f"{key.default_text} ({larger})"


def _format_range(key: ShareKey) -> str:
    if key.kind != "number":
        return ""
    least, most = key.limits
    return f"{least} to {most}"
