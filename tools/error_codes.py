"""Make docs/errors.md of the codes that tools/error_codes.toml declares."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

DECLARED = Path(__file__).resolve().parent / "error_codes.toml"

_HEAD = """\
# Error codes

What each code of an error, a refusal or a warning means, and what to do about it. `deltacli help CODE` shows the same.
A code without an action here has that of its family, such as `alter.*`, or of its
[exit code](scripting.md#exit-codes). A code that is a [rule](rules.md) of `validate` means that the table breaks the
rule, whose `fix` says what to do.

In the commands, TABLE, COLUMN and other upper-case words stand for your own values. Commands that change something show
their plan first: add `--dry-run`, then `--yes`.
"""
_COLUMNS = {"exit": "exit", "what": "what happened", "do": "what to do"}


class ErrorCodes(NamedTuple):
    """Codes that mean the same: the exit codes that they have, what happened and what to do, as Markdown."""

    codes: tuple[str, ...]
    exit: str
    what: str
    do: str


def read_error_codes() -> dict[str, list[ErrorCodes]]:
    """Return the declared codes by section."""
    sections = tomllib.loads(DECLARED.read_text(encoding="utf-8"))
    return {heading: [_declared(*entry) for entry in entries.items()] for heading, entries in sections.items()}


def _declared(codes: str, entry: Mapping[str, object]) -> ErrorCodes:
    exits, what, do = (str(entry.get(part, "")) for part in ("exit", "what", "do"))
    return ErrorCodes(tuple(codes.split(", ")), exits, what, do)


def render_errors_page() -> str:
    """Return the page in Markdown."""
    sections = (f"## {heading}\n\n{_table(rows)}" for heading, rows in read_error_codes().items())
    return "\n".join([_HEAD, *sections])


def _table(rows: Sequence[ErrorCodes]) -> str:
    """Return the table of codes, with the columns that a row has something for."""
    columns = {name: label for name, label in _COLUMNS.items() if any(getattr(row, name) for row in rows)}
    cells = ([", ".join(map(_linked, row.codes)), *(getattr(row, name) for name in columns)] for row in rows)
    lines = [["code", *columns.values()], ["---"] * (len(columns) + 1), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _linked(code: str) -> str:
    """Return a code, with a link to the rule where it is one."""
    anchor = re.sub(r"[^\w-]", "", code)
    pages = {"rules.md": CATALOGUE.rules, "paimon-rules.md": PAIMON_CATALOGUE.rules}
    page = next((page for page, rules in pages.items() if code in rules), None)
    return f"`{code}`" if page is None else f"[`{code}`]({page}#{anchor})"
