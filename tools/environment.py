"""The environment variables that the code reads, found in the code, and what they mean."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.command_tree import Command, Option

_SOURCE = Path(__file__).resolve().parent.parent / "deltacli"
_READERS = ("get", "getenv", "setdefault", "pop")
_OURS = re.compile(r"DELTACLI_[A-Z_]+")

MEANINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "the allocator of Arrow; unless this says otherwise, on Linux `jemalloc`, or "
    "`system` where `ulimit -v` is below 4 GiB",
    "CLASSPATH": "where Java finds the classes of Hadoop; `hdfs://` needs it",
    "COLUMNS": "the width of the terminal, instead of asking it; 100 where colour is forced into a pipe",
    "DELTACLI_PAGER": "the program that shows long results on a terminal; it beats `PAGER`, and empty or `cat` is none",
    "FORCE_COLOR": "where it is set and neither empty nor `0`: `--color always` instead of `auto`",
    "LANG": "the locale; on a terminal, boxes and bars are in ASCII where it is not UTF-8",
    "LC_ALL": "the locale; it wins over `LC_CTYPE` and `LANG`",
    "LC_CTYPE": "the locale of characters; it wins over `LANG`",
    "LESS": "options of the pager `less`; where it is unset, deltacli chooses them",
    "NO_COLOR": "where it is set and not empty: no colour, whatever `--color` and `FORCE_COLOR` say",
    "PAGER": "the program that shows long results on a terminal",
    "STORAGE_EMULATOR_HOST": "the endpoint of `gs://`, as the clients of Google Cloud read it",
    "TERM": "`dumb`: no colour unless it is forced, no pager, and no progress unless it is asked for",
}
"""What a variable means that is not simply the default of an option; only those that are read are written anywhere."""


CLOUDS = {
    "AWS_": "credentials, profile, region and endpoint of S3, as every client of it reads them",
    "AZURE_": "credentials and account of Azure, as every client of it reads them",
    "GOOGLE_": "credentials and project of Google Cloud, as every client of it reads them",
}
"""Variables that belong to a store: the stores' libraries read them, whether or not our code does, too."""


def read_environment(root: Command) -> dict[str, str]:
    """Return each variable with its meaning, those of the stores last.

    Ends the program at one that is read and nowhere explained.
    """
    defaults = {
        variable: option for command in root.walk() for option in command.options for variable in variables_of(option)
    }
    found = {}
    for name in sorted({*_read_names(), *(option.variable for option in defaults.values() if option.variable)}):
        if name.startswith(tuple(CLOUDS)):
            continue
        if name in MEANINGS:
            found[name] = MEANINGS[name]
        elif name in defaults:
            found[name] = f"default of `{max(defaults[name].spellings, key=len)}`"
        else:
            raise SystemExit(f"error: the code reads {name}: say in tools/environment.py what it means")
    return found | {f"{prefix}…": meaning for prefix, meaning in CLOUDS.items()}


def variables_of(option: Option) -> set[str]:
    """The variables that may hold an option's default: the one it declares, and the one that is named after it."""
    named = {f"DELTACLI_{name[2:].upper().replace('-', '_')}" for name in option.spellings if name.startswith("--")}
    return named | ({option.variable} if option.variable else set())


def _read_names() -> Iterator[str]:
    """Names that are read from os.environ, every word that looks like one of ours, and what the libraries read."""
    for path in sorted(_SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=holder, attr=reader), args=[ast.Constant(value=str(name)), *_]):
                    if reader == "getenv" or (reader in _READERS and _is_environment(holder)):
                        yield name
                case ast.Subscript(value=holder, slice=ast.Constant(value=str(name))) if _is_environment(holder):
                    yield name
                case ast.Compare(left=ast.Constant(value=str(name)), comparators=[holder]) if _is_environment(holder):
                    yield name
                case ast.Attribute(attr="get_terminal_size", value=ast.Name(id="shutil")):
                    yield "COLUMNS"
                case ast.Constant(value=str(name)) if _OURS.fullmatch(name):
                    yield name


def _is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in ("os.environ", "environ", "environment")
