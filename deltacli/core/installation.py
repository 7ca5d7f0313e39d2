"""Find out how this program was installed and which extras are there, and build the command that adds one."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple
from urllib.parse import unquote

_INSTALL_COMMANDS_BY_RECEIPT = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
"""A file that a tool leaves in the environments it makes -> the command that installs into such an environment."""

_SPARK_EXTRAS = {"spark", "spark-local"}
"""Extras of which an environment can have one only: their packages contain the same modules."""

_EXTRA_OF_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[(.*)\])?[^;]*; extra == ['\"](.+)['\"]")
"""A requirement of an extra on every system: package, extras of the package, extra.

A requirement that also has a condition on the system does not match, and is not looked for.
"""


class _Origin(NamedTuple):
    """The place that deltacli was installed from.

    Attributes:
        name: A directory, an archive, or the name of the package on an index.
        directory: What the installer recorded about a directory; None for other origins.
    """

    name: str
    directory: dict[str, bool] | None


def build_install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    Tools of uv and pipx are installed again by uv and pipx, everything else by pip. A checkout is installed from its
    directory, because the index may not have its version.
    """
    for receipt, install in _INSTALL_COMMANDS_BY_RECEIPT.items():
        if os.path.exists(os.path.join(sys.prefix, receipt)):
            extras = ",".join(sorted(_extras_to_name(extra)))
            requirement = f"{_installed_from()[0]}[{extras}]"
            return f"{install} {shlex.quote(requirement)}"

    name, directory = _installed_from()
    if directory is None:
        return f"pip install 'deltacli[{extra}]'"
    editable = "-e " if directory.get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{name}[{extra}]')}"


def find_extras() -> dict[str, bool]:
    """Return the extras of deltacli, and whether the packages of each are installed."""
    try:
        requirements = metadata.requires("deltacli") or []
    except metadata.PackageNotFoundError:  # run from a directory that was not installed
        return {}
    extras = re.findall(r"extra == ['\"]([\w-]+)", "\n".join(requirements))
    return {extra: _has_extra("deltacli", extra) for extra in sorted(set(extras))}


def _extras_to_name(wanted: str) -> set[str]:
    """Return the extras that a tool has to be installed with: uv removes the packages of those that are not named."""
    # Extras that are only partly there are not named: uv would install the rest of them.
    extras = {extra for extra, is_installed in find_extras().items() if is_installed}
    if wanted in _SPARK_EXTRAS:
        extras -= _SPARK_EXTRAS
    return extras | {wanted}


def _has_extra(package: str, extra: str) -> bool:
    """Return True if a package is installed, with everything that one of its extras needs on every system.

    Args:
        package: The name of the package.
        extra: The name of the extra; empty for the package alone.
    """
    try:
        requirements = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return False
    return all(_has_extra(needed, nested) for needed, nested in _requirements_of_extra(requirements, extra))


def _requirements_of_extra(requirements: list[str], extra: str) -> Iterator[tuple[str, str]]:
    """Yield the packages that an extra needs, each with one extra of its own; `fastavro[zstandard]` needs both."""
    for requirement in requirements:
        match = _EXTRA_OF_REQUIREMENT.fullmatch(requirement)
        if match is not None and match[3] == extra:
            for nested_extra in (match[2] or "").split(","):
                yield match[1], nested_extra


def _installed_from() -> _Origin:
    """Return where deltacli came from. Installers record it in `direct_url.json`, unless it is an index."""
    try:
        record = json.loads(metadata.distribution("deltacli").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        record = {}

    url = record.get("url", "")
    # Three slashes: a path of this machine. Two are followed by the name of a host.
    name = unquote(url.removeprefix("file://")) if url.startswith("file:///") else "deltacli"
    return _Origin(name, record.get("dir_info"))
