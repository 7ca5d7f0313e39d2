"""Patterns of directories: globs in segments for the search, and as expressions for what is excluded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from deltacli.fleet.policy_file.model import Entry

_MAGIC = re.compile(r"[*?\[]")
_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", re.DOTALL)


class Pattern(NamedTuple):
    """A directory to search in, and the names of directories on the way down; `**` stands for any number of them."""

    base: str
    segments: tuple[str, ...]


def split_pattern(text: str) -> Pattern:
    """Return a glob as the directory before its first special character, and the names after it."""
    scheme, separator, path = text.partition("://") if "://" in text else ("", "", text)
    parts = path.split("/")
    first = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    base = f"{scheme}{separator}{'/'.join(parts[:first])}" or "/"
    segments = [part for part in parts[first:] if part]
    while segments and segments[-1] == "**":
        segments.pop()  # directories below are searched anyway
    return Pattern(base, tuple(segments))


def exclusion(entries: Iterable[Entry]) -> re.Pattern[str] | None:
    """Return an expression for the names of directories that are, or are below, one that matches; None for none."""
    texts = [_expression(text) for entry in entries for text in {entry.text: None, _resolved(entry.text): None}]
    return re.compile(f"(?:{'|'.join(texts)})(?:/.*)?", re.DOTALL) if texts else None


def _resolved(glob: str) -> str:
    """Return a glob with the links resolved in the directory before its first special character."""
    if "://" in glob:
        return glob.replace("s3a://", "s3://").replace("s3n://", "s3://")
    base = split_pattern(glob).base
    return os.path.realpath(base) + glob[len(base) :]


def _expression(glob: str) -> str:
    scheme, separator, path = glob.partition("://") if "://" in glob else ("", "", glob)
    return re.escape(scheme + separator) + "".join(map(_part, _PARTS.findall(path)))


def _part(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _ if part.startswith("[") and len(part) > 1:
            inner = part[1:-1].replace("\\", r"\\")
            return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
        case _:
            return re.escape(part)
