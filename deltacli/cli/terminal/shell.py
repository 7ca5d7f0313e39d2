"""Commands to paste: the current command line with a change. `deltacli.hints` quotes words."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.hints import CommandLine, fill_hint, quoted, quoted_table

__all__ = [
    "CommandLine",
    "again",
    "again_with",
    "again_without",
    "again_without_limit",
    "fill_hint",
    "quoted",
    "quoted_table",
]


def again_without_limit(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line with every row."""
    return again_with(arguments, "--limit", "0")


def again(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line."""
    return CommandLine(" ".join(["deltacli", *map(quoted, arguments)]))


def again_without(arguments: Sequence[str], flag: str) -> CommandLine:
    """Return the current command line without a flag."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    return again([*(word for word in arguments[:end] if word != flag), *arguments[end:]])


def again_with(
    arguments: Sequence[str], option: str, value: str | None = None, *, is_repeatable: bool = False
) -> CommandLine:
    """Return the current command line with another value of an option, an additional value, or a flag."""
    kept: list[str] = []
    skip = False
    for word in arguments:
        if is_repeatable:
            kept.append(word)
        elif skip:
            skip = False
        elif word == option:
            skip = value is not None
        elif not word.startswith(f"{option}="):
            kept.append(word)
    end = kept.index("--") if "--" in kept else len(kept)
    added = [option] if value is None else [option, quoted(value)]
    return CommandLine(" ".join(["deltacli", *map(quoted, kept[:end]), *added, *map(quoted, kept[end:])]))
