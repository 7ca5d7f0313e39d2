"""Find out how deltacli was installed and which extras are installed, and build the command that installs an extra."""

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
"""File that a tool manager writes into its environments -> command that installs a package into such an environment."""

_SPARK_EXTRAS = {"spark", "spark-local"}
"""Extras that exclude each other: their packages, pyspark-client and pyspark, contain the same modules."""

_EXTRA_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[(.*)\])?[^;]*; extra == ['\"](.+)['\"]")
"""A requirement of an extra, such as `fastavro[zstandard]>=1.9; extra == 'paimon'`.

The groups are the package, the extras of the package, and the extra. Requirements for certain platforms, such as
`uvloop; sys_platform != 'win32' and extra == 'share'`, do not match and are ignored.
"""


class _InstallationSource(NamedTuple):
    """The source that deltacli was installed from.

    Attributes:
        requirement: A local directory or archive; `deltacli` if it was installed from an index or a URL.
        directory_info: The `dir_info` of the installer's record, such as `{"editable": true}`; None if the source is
            not a directory.
    """

    requirement: str
    directory_info: dict[str, bool] | None


def build_install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    Environments of `uv tool` and `pipx` are managed by uv and pipx, all others by pip. An installation from a local
    directory is repeated from that directory, because the package index may have another version.
    """
    for receipt, install_command in _INSTALL_COMMANDS_BY_RECEIPT.items():
        if os.path.exists(os.path.join(sys.prefix, receipt)):
            source, _ = _find_source()
            extras = ",".join(sorted(_find_extras_to_install(extra)))
            return f"{install_command} {shlex.quote(f'{source}[{extras}]')}"

    source, directory_info = _find_source()
    if directory_info is None:
        return f"pip install 'deltacli[{extra}]'"
    editable = "-e " if directory_info.get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{source}[{extra}]')}"


def find_extras() -> dict[str, bool]:
    """Return all extras of deltacli, each with True if all its packages are installed.

    The result is empty if deltacli was not installed, but is run from a source directory.
    """
    try:
        requirements = metadata.requires("deltacli") or []
    except metadata.PackageNotFoundError:
        return {}
    extras = re.findall(r"extra == ['\"]([\w-]+)", "\n".join(requirements))
    return {extra: _is_installed("deltacli", extra) for extra in sorted(set(extras))}


def _find_extras_to_install(new_extra: str) -> set[str]:
    """Return the new extra and the extras that are already installed. uv removes all packages of other extras."""
    # Extras of which only some packages are installed are left out: uv would install the missing packages, too.
    extras = {extra for extra, is_installed in find_extras().items() if is_installed}
    if new_extra in _SPARK_EXTRAS:
        extras -= _SPARK_EXTRAS
    return extras | {new_extra}


def _is_installed(package: str, extra: str) -> bool:
    """Return True if a package and the requirements of one of its extras are installed.

    Args:
        package: The name of the package.
        extra: The name of the extra; empty to check the package alone.
    """
    try:
        requirements = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return False
    required_packages = _parse_extra_requirements(requirements, extra)
    return all(_is_installed(required, nested_extra) for required, nested_extra in required_packages)


def _parse_extra_requirements(requirements: list[str], extra: str) -> Iterator[tuple[str, str]]:
    """Yield the packages that an extra requires, and one extra of each package.

    A package with several extras is yielded several times, a package without extras with an empty text:
    `fastavro[zstandard]` becomes `("fastavro", "zstandard")`.
    """
    for requirement in requirements:
        match = _EXTRA_REQUIREMENT.fullmatch(requirement)
        if match is not None and match[3] == extra:
            for nested_extra in (match[2] or "").split(","):
                yield match[1], nested_extra


def _find_source() -> _InstallationSource:
    """Return the source that deltacli was installed from.

    Installers write it to the file `direct_url.json` (PEP 610), unless they installed from an index.
    """
    try:
        record = json.loads(metadata.distribution("deltacli").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        record = {}

    url = record.get("url", "")
    # file:///PATH is a local path. file://HOST/PATH, with two slashes, is a path on another machine.
    requirement = unquote(url.removeprefix("file://")) if url.startswith("file:///") else "deltacli"
    return _InstallationSource(requirement, record.get("dir_info"))
