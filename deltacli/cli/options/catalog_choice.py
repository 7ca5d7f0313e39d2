"""The catalog of a run: a section `[catalog.NAME]` of the configuration file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from deltacli.cli.invocation import invocation
from deltacli.cli.options.option_values import read_text_file
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import UsageError, nearest_name
from deltacli.core.typing import Toml


class CatalogChoice(NamedTuple):
    """A section `[catalog.NAME]` of a configuration file.

    Attributes:
        name: The name of the catalog.
        settings: The keys of the section and their values.
        path: The configuration file.
    """

    name: str
    settings: Mapping[str, Toml]
    path: str

    @property
    def description(self) -> str:
        """The section as errors name it, such as `[catalog.prod] of the configuration deltacli.toml`."""
        return f"[catalog.{self.name}] of the configuration {self.path}"


def choose_catalog(option: str | None, settings: Mapping[str, Toml], path: str | None) -> CatalogChoice | None:
    """Return the catalog that `--catalog-profile` or the configuration names.

    Args:
        option: The value of `--catalog-profile`.
        settings: The settings of the configuration file.
        path: The configuration file.

    Returns:
        The section of the catalog. None: environment variables define the catalog.

    Raises:
        UsageError: If there is no section of this name.
    """
    name = option if option is not None else settings.get("catalog_profile")
    if name is None:
        return None
    if not isinstance(name, str):
        raise UsageError(f"catalog_profile in the configuration {path} is not a string", code="usage.config")

    catalogs = settings.get("catalog", {})
    if path and name in catalogs:
        return CatalogChoice(name, catalogs[name], path)

    source = f"catalog_profile = {name!r}" if option is None else f"--catalog-profile {name}"
    reason = f"the configuration {path} has no [catalog.{name}]" if path else "there is no configuration file"
    similar_name = nearest_name(name, sorted(catalogs))
    hint = None
    if similar_name is not None:
        hint = repeat_command_with(invocation.arguments, "--catalog-profile", similar_name)
    raise UsageError(
        f"{source}: {reason}",
        code="usage.config",
        facts={"catalogs": ", ".join(sorted(catalogs)) or "none"},
        hint=hint,
    )


def read_catalog_settings(choice: CatalogChoice | None) -> dict[str, str] | None:
    """Return the settings of a catalog. The value `@FILE` is replaced by the content of the file.

    Args:
        choice: The section of the catalog. None: environment variables define the catalog.

    Raises:
        UsageError: If a value is not a string, a secret is not in a file, or a file cannot be read.
    """
    if choice is None:
        return None
    directory = os.path.dirname(os.path.abspath(choice.path))
    return {key: _read_setting(choice, key, value, directory) for key, value in choice.settings.items()}


def _read_setting(choice: CatalogChoice, key: str, value: Toml, directory: str) -> str:
    """Return the value of a key. A file is relative to the directory of the configuration file."""
    from deltacli.catalogs.unity.addresses import SECRET_KEYS

    if not isinstance(value, str):
        raise UsageError(f"{choice.description}: {key} is not a string", code="usage.config")
    is_file = value.startswith("@")
    if key in SECRET_KEYS and not is_file:
        raise UsageError(
            f"{choice.description}: {key} is a secret, and is read from a file",
            code="usage.secret",
            facts={"instead": f'{key} = "@FILE"'},
        )
    if not is_file:
        return value

    text = read_text_file(os.path.join(directory, value[1:]), f"{choice.description}: {key}")
    if key in SECRET_KEYS and not text:
        raise UsageError(f"{choice.description}: the file of {key}, {value[1:]}, is empty", code="usage.config")
    return text
