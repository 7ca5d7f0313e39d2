"""Other sources of the shared options: the configuration file, the variables DELTACLI_…, and files with secrets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.suggested_commands import remove_option_value, repeat_command, repeat_command_with
from deltacli.core.errors import UsageError, nearest_name, quote_word
from deltacli.core.times import parse_duration
from deltacli.core.typing import Toml
from deltacli.storage.secrets import contains_secret, is_secret_name

_KEYS = frozenset(
    {"format", "color", "progress", "quiet", "retry_budget", "storage_options", "allow_external"}
    | {"catalog_profile", "engine", "master", "remote", "spark_conf"}
)


class Variable(StrEnum):
    """The environment variables of deltacli's own. Each is read through this class."""

    COLOR = "DELTACLI_COLOR"
    CONFIG = "DELTACLI_CONFIG"
    ENGINE = "DELTACLI_ENGINE"
    FORMAT = "DELTACLI_FORMAT"
    MASTER = "DELTACLI_MASTER"
    PAGER = "DELTACLI_PAGER"
    PROFILE = "DELTACLI_PROFILE"
    PROGRESS = "DELTACLI_PROGRESS"
    REMOTE = "DELTACLI_REMOTE"
    RETRY_BUDGET = "DELTACLI_RETRY_BUDGET"

    def read(self, environment: Mapping[str, str] = os.environ) -> str | None:
        return environment.get(self)


def read_configuration(path: str | None, profile: str | None = None) -> dict[str, Toml]:
    """Return the content of the configuration file, with that of one of its profiles over it: its keys, and those of
    its tables. Empty where there is no file. Raises UsageError.
    """
    if not path:
        if profile:
            raise UsageError(
                f"profile {profile}: no configuration file to read it from",
                code="usage.config",
                hint=repeat_command_with(invocation.arguments, "--config", "FILE"),
            )
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
    except OSError as fault:
        words = remove_option_value(invocation.arguments, "--config", path)
        raise UsageError(
            f"the configuration {path} cannot be read: {(fault.strerror or '').lower()}",
            code="usage.config",
            hint=repeat_command(words)
            if words != [*invocation.arguments]
            else f"env -u {Variable.CONFIG} {repeat_command(words)}",
        ) from fault
    except ValueError as fault:  # of tomllib, also for a number of thousands of digits
        raise UsageError(f"the configuration {path} is not TOML: {fault}", code="usage.config") from fault
    profiles = settings.pop("profile", {})
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise UsageError(f"profile in the configuration {path} is not a table of tables", code="usage.config")
    catalogs = settings.pop("catalog", {})
    if not isinstance(catalogs, dict) or not all(isinstance(one, dict) for one in catalogs.values()):
        raise UsageError(f"catalog in the configuration {path} is not a table of tables", code="usage.config")
    known = {name: _checked(one, path, f"[profile.{name}] of ") for name, one in profiles.items()}
    found = _checked(settings, path) | ({"catalog": catalogs} if catalogs else {})
    if not profile:
        return found
    if profile not in known:
        raise _unknown_profile(path, profile, known)
    own = known[profile]
    for one, other in (("master", "remote"), ("remote", "master")):
        if one in own and other not in own:
            found.pop(other, None)
    return {**found, **own, **{name: {**found[name], **own[name]} for name in _TABLES}}


_TABLES = ("storage_options", "spark_conf")


def _checked(settings: Mapping[str, Toml], path: str, place: str = "") -> dict[str, Toml]:
    """Return the content of the file, or of one of its tables, with each of `_TABLES`. Raises UsageError."""
    if unknown := sorted(set(settings) - _KEYS):
        known = _KEYS if place else _KEYS | {"catalog", "profile"}
        raise UsageError(
            f"{place}the configuration {path} has an unknown key: {unknown[0]}{_asked(unknown[0], known)}",
            code="usage.config",
            facts={"known": ", ".join(sorted(known))},
        )
    if not isinstance(settings.get("quiet", False), bool):
        raise UsageError(f"quiet in {place}the configuration {path} is neither true nor false", code="usage.config")
    _check_prefixes(path, settings.get("allow_external", []))
    return {**settings, **{name: _texts(settings, name, place + path) for name in _TABLES}}


CatalogChoice = tuple[str, Mapping[str, Toml], str]
"""The name of a `[catalog.NAME]`, its keys, and the configuration file that has it."""


def catalog_profile_of(chosen: CatalogChoice | None) -> dict[str, str] | None:
    """Return the keys of the chosen catalog, secrets read from files; None for the environment. Raises UsageError."""
    if chosen is None:
        return None
    from deltacli.catalogs.unity.addresses import SECRET_KEYS

    place, (_, settings, path) = place_of_catalog(chosen), chosen
    found: dict[str, str] = {}
    for key, value in settings.items():
        if not isinstance(value, str):
            raise UsageError(f"{place}: {key} is not a string", code="usage.config")
        if key in SECRET_KEYS and not value.startswith("@"):
            raise UsageError(
                f"{place}: {key} is a secret, and is read from a file",
                code="usage.secret",
                facts={"instead": f'{key} = "@FILE"'},
            )
        directory = os.path.dirname(os.path.abspath(path))
        is_file = value.startswith("@")
        found[key] = _read_text(os.path.join(directory, value[1:]), f"{place}: {key}") if is_file else value
        if key in SECRET_KEYS and not found[key]:
            raise UsageError(f"{place}: the file of {key}, {value[1:]}, is empty", code="usage.config")
    return found


def place_of_catalog(chosen: CatalogChoice) -> str:
    return f"[catalog.{chosen[0]}] of the configuration {chosen[2]}"


def choose_catalog(given: str | None, settings: Mapping[str, Toml], path: str | None) -> CatalogChoice | None:
    """Return the catalog that an option or the configuration names, None for the environment. Raises UsageError."""
    name = given if given is not None else settings.get("catalog_profile")
    if name is None:
        return None
    if not isinstance(name, str):
        raise UsageError(f"catalog_profile in the configuration {path} is not a string", code="usage.config")
    catalogs = settings.get("catalog", {})
    if not path or name not in catalogs:
        near = nearest_name(name, sorted(catalogs))
        where = f"catalog_profile = {name!r}" if given is None else f"--catalog-profile {name}"
        raise UsageError(
            f"{where}: "
            + (f"the configuration {path} has no [catalog.{name}]" if path else "there is no configuration file"),
            code="usage.config",
            facts={"catalogs": ", ".join(sorted(catalogs)) or "none"},
            hint=None if near is None else repeat_command_with(invocation.arguments, "--catalog-profile", near),
        )
    return name, catalogs[name], path


def _unknown_profile(path: str, profile: str, known: Iterable[str]) -> UsageError:
    names = sorted(known)
    near = nearest_name(profile, names)
    hint: str | None = None
    if near is not None:
        is_given = any(word.partition("=")[0] == "--profile-name" for word in invocation.arguments)
        hint = repeat_command_with(invocation.arguments, "--profile-name", near)
        hint = hint if is_given else f"env {Variable.PROFILE}={quote_word(near)} {repeat_command(invocation.arguments)}"
    return UsageError(
        f"the configuration {path} has no profile {profile!r}" + ("" if near is None else f"; did you mean {near!r}?"),
        code="usage.config",
        facts={"profiles": ", ".join(names) or "none"},
        hint=hint,
    )


def _texts(settings: Mapping[str, Toml], name: str, path: str) -> dict[str, str]:
    """Return a table of the configuration with its values as text. Raises UsageError where it is not a table."""
    values = settings.get(name, {})
    if not isinstance(values, dict):
        raise UsageError(f"{name} in {path} is not a table", code="usage.config")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


def _check_prefixes(path: str, prefixes: object) -> None:
    """Raise UsageError unless `allow_external` is a list of absolute prefixes in a file outside of any table.

    A table must not contain the setting that decides which files it may open.
    """
    if not isinstance(prefixes, list) or not all(isinstance(prefix, str) for prefix in prefixes):
        raise UsageError(f"allow_external in {path} is not a list of strings", code="usage.config")
    for prefix in prefixes:
        if "://" not in prefix and not prefix.startswith(("/", "~", "file:")):
            raise UsageError(
                f"allow_external in {path} has a relative path: {prefix}",
                code="usage.config",
                hint=f"allow_external = [{os.path.abspath(prefix)!r}]",
            )
    if prefixes and (table := table_around(path)) is not None:
        raise UsageError(
            f"allow_external in {path} is refused: the file lies inside a table",
            code="usage.config",
            facts={"table": table},
            hint="move the configuration file out of the table, or use --allow-external",
        )


def table_around(path: str) -> str | None:
    """Return the innermost table directory that contains a file; None where there is none."""
    directory = os.path.dirname(os.path.realpath(path))
    while not os.path.isdir(os.path.join(directory, "_delta_log")):
        if directory == (above := os.path.dirname(directory)):
            return None
        directory = above
    return directory


def one_of(choices: type[Any], value: object, where: str) -> Any:  # Any: a member of `choices`
    """Return the choice that a value names, None for no value. Raises UsageError, which names `where` it is set."""
    if value is None or value == "":
        return None
    try:
        return choices(value)
    except ValueError:
        expected = [str(choice) for choice in choices]
        meant = _asked(str(value), expected)
        raise UsageError(f"{where} is {value!r}{meant}", facts={"expected": ", ".join(expected)}) from None


def configured(choices: type[Any], variable: Variable, settings: Mapping[str, Toml], configuration: str) -> Any:
    """Return the choice of the environment, else of the configuration; None for neither. Raises UsageError."""
    key = variable.name.lower()
    return one_of(choices, variable.read(), variable) or one_of(choices, settings.get(key), f"{key} {configuration}")


def _asked(word: str, known: Iterable[str]) -> str:
    near = nearest_name(word, sorted(known))
    return "" if near is None else f"; did you mean {near}?"


def parse_storage_option(text: str) -> tuple[str, str]:
    """Return key and value of a `--storage-option`; `K=@FILE` reads it. Raises UsageError, also for a plain secret."""
    return parse_pair("--storage-option", text, "the store's own environment variables and profiles")


def parse_pair(option: str, text: str, place_of_secrets: str) -> tuple[str, str]:
    """Return key and value of an option `K=V`; `K=@FILE` reads the value. Raises UsageError, also for a plain secret,
    which belongs into the file or into `place_of_secrets`.
    """
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"the value of {option} is not K=V")
    return key, plain_or_file(f"{option} {key}", "=", value, place_of_secrets, named=key)


def plain_or_file(option: str, separator: str, value: str, place_of_secrets: str, *, named: str = "") -> str:
    """Return the value of an option, and for `@FILE` what the file has. Raises UsageError for a plain secret."""
    if value.startswith("@"):
        return _read_text(value[1:], option)
    if is_secret_name(named) or contains_secret(value):
        raise UsageError(
            f"{option}: a secret on the command line is visible in the process list",
            code="usage.secret",
            facts={"instead": f"{option}{separator}@FILE, or {place_of_secrets}"},
        )
    return value


def _read_text(path: str, option: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as fault:
        raise UsageError(f"{option}: {path} cannot be read: {(fault.strerror or '').lower()}") from fault
    except UnicodeDecodeError as fault:
        raise UsageError(f"{option}: {path} is not text in UTF-8") from fault


def retry_budget_of(option: str | None, key: object, configuration: str) -> int | None:
    """Return the retry budget in ms from option, environment or configuration. Raises UsageError, naming which."""
    places = (
        (option, "--retry-budget"),
        (Variable.RETRY_BUDGET.read(), Variable.RETRY_BUDGET),
        (key, f"retry_budget {configuration}"),
    )
    return next((parse_duration(str(value), where, "s") for value, where in places if value not in (None, "")), None)
