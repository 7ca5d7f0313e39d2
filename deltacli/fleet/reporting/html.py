"""What the pages have in common: the look, escaping, and the frame of a page that loads nothing.

A page allows itself nothing but its own script and style, by their digests. So no element has a `style` attribute, and
nothing of a table becomes markup.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from hashlib import sha256
from html import escape, unescape
from importlib.resources import files
from urllib.parse import quote

from deltacli.patterns import pattern
from deltacli.units import with_units

_UNSEEN = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text around them."""

_OPTION = pattern(r"(?<=\s)--?[A-Za-z][\w-]*")


def text(given: str) -> str:
    """Return a text as HTML, for content and for quoted attributes. Lone surrogates become question marks, and
    characters that are not seen their escapes.
    """
    shown = _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), given)
    return escape(shown.encode("utf-8", "replace").decode())


def words(given: str) -> str:
    """Return a sentence as HTML in which no line ends between a number and its unit."""
    return text(with_units(given, "\xa0"))


def command_line(given: str) -> str:
    """Return a command as HTML whose lines do not end within an option."""
    return _OPTION.sub(r'<span class="option">\g<0></span>', text(given))


_ABOUT = "deltacli-table"
_HEAD_BYTES = 65_536


def find_pages(directory: str) -> dict[str, str]:
    """Return the pages of tables in a directory: URI of the table -> path of the file. Of two pages of a table the one
    that was written last is taken. Raises OSError.
    """
    found: dict[str, str] = {}
    pages = [entry for entry in os.scandir(directory) if entry.name.endswith(".html") and entry.is_file()]
    for entry in sorted(pages, key=lambda entry: (entry.stat().st_mtime_ns, entry.name)):
        with open(entry.path, "rb") as page:
            head = page.read(_HEAD_BYTES).partition(b"<title>")[0].decode(errors="replace")
        if match := re.search(f'<meta name="{_ABOUT}" content="([^"]*)">', head):
            found[unescape(match[1])] = entry.path
    return found


def address(path: str, start: str) -> str:
    """Return the address of a file in a page that is in the directory `start`."""
    return f"./{quote(os.fsencode(os.path.relpath(os.path.abspath(path), os.path.abspath(start))))}"


def part(name: str) -> str:
    """Return a style or a script of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def framed(title: str, body: str, *, style: str, script: str | None = None, table: str | None = None) -> str:
    """Return a page around its body, which is HTML. The script is the last element. `table` is the URI of the table of
    the page, by which `find_pages` finds it.
    """
    about = "" if table is None else f'<meta name="{_ABOUT}" content="{text(table)}">\n'
    runs = "" if script is None else f"script-src '{_digest(script)}'; "
    policy = f"default-src 'none'; {runs}style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    last = "" if script is None else f"<script>{script}</script>\n"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{about}<title>{text(title)}</title>
<style>{style}</style>
</head>
<body>
{body}{last}</body>
</html>
"""


def card(title: str, value: str, *, kind: str = "", below: str = "") -> str:
    """Return a number with its title; `kind` is `bad`, `good` or nothing, `below` a line under it."""
    more = f'<span class="dim">{words(below)}</span>' if below else ""
    return f'<div class="card"><span class="dim">{text(title)}</span><b class="{kind}">{words(value)}</b>{more}</div>'


def _digest(content: str) -> str:
    """Return the digest of a text as a Content Security Policy has it."""
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"
