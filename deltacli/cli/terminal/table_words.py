"""Words of a local table that shells complete: `deltacli --table-words KIND TABLE`, which the completion scripts call.

They are printed one per line. Whatever fails prints nothing, and names that a shell would have to quote are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

_MOST = 1_000


def table_words(kind: str, table: str) -> list[str]:
    """Return the `versions` of a table, newest first, its top-level `columns`, or the `paths` of all it has."""
    if "://" in table or "#" in table:
        return []
    found = _versions(table) if kind == "versions" else _columns(table, nested=kind == "paths")
    return list(islice((word for word in found if re.fullmatch(r"[\w.]+", word)), _MOST))


def _versions(table: str) -> Iterator[str]:
    with suppress(OSError):
        names = os.listdir(os.path.join(table, "_delta_log"))
        commits = (int(name[:20]) for name in names if re.fullmatch(r"[0-9]{20}\.json", name))
        yield from map(str, sorted(commits, reverse=True))


def _columns(table: str, *, nested: bool) -> Iterator[str]:
    from deltacli import DeltacliError, open_paimon, open_table
    from deltacli.delta.schema.column_path import places

    with suppress(DeltacliError, OSError, ValueError):
        if not os.path.isdir(os.path.join(table, "_delta_log")):
            yield from (field.name for field in open_paimon(table).snapshot().schema.fields)
            return
        schema = open_table(table).snapshot().schema
        yield from (place.text for place in places(schema)) if nested else (field.name for field in schema.fields)
