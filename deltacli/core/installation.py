"""How this program was installed, its extras, and the command that adds one."""

from __future__ import annotations

import os
import re
import shlex
import sys


def build_install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation: by uv or pipx for their tools, else by pip, of a
    checkout from its directory: an index may not have it.
    """
    by_tool = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
    for receipt, install in by_tool.items():
        if os.path.exists(os.path.join(sys.prefix, receipt)):
            apart = _SPARKS - {extra} if extra in _SPARKS else set()
            present = {name for name, is_present in find_extras().items() if is_present}  # uv removes others
            wanted = ",".join(sorted({extra} | present - apart))
            return f"{install} {shlex.quote(f'{_installed_from()[0]}[{wanted}]')}"
    origin, directory = _installed_from()
    if directory is None:
        return f"pip install 'deltacli[{extra}]'"
    return f"pip install {'-e ' if directory.get('editable') else ''}{shlex.quote(f'{origin}[{extra}]')}"


_SPARKS = {"spark", "spark-local"}
"""Extras of which one environment can have one only."""


def find_extras() -> dict[str, bool]:
    """Return the extras of deltacli, and whether the packages of each are installed."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        named = re.findall(r"extra == ['\"]([\w-]+)", "\n".join(requires("deltacli") or []))
    except PackageNotFoundError:
        return {}
    return {extra: _has_extra("deltacli", extra) for extra in sorted(set(named))}


def _has_extra(package: str, extra: str) -> bool:
    """Return whether a package is installed, with all that one of its extras ("": none) needs on every system."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        return False
    needed = [re.fullmatch(r"([\w.-]+)(?:\[(.*)\])?[^;]*; extra == ['\"](.+)['\"]", line) for line in lines]
    return all(
        _has_extra(one[1], nested)
        for one in needed
        if one is not None and one[3] == extra
        for nested in (one[2] or "").split(",")
    )


def _installed_from() -> tuple[str, dict[str, bool] | None]:
    """Return the directory, file or name on an index that deltacli came from, and what is known of a directory."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote

    try:
        found = json.loads(distribution("deltacli").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        found = {}
    origin = found.get("url", "")
    is_here = origin.startswith("file:///")
    return unquote(origin.removeprefix("file://")) if is_here else "deltacli", found.get("dir_info")
