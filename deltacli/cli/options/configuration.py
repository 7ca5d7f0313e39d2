"""Other sources of the shared options: the configuration file and the environment variables `DELTACLI_…`."""

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

_KEYS = frozenset(
    {"format", "color", "progress", "quiet", "retry_budget", "storage_options", "allow_external"}
    | {"catalog_profile", "engine", "master", "remote", "spark_conf"}
)
"""The keys of a configuration file and of a profile."""
_TABLES = ("storage_options", "spark_conf")
"""The keys whose values are tables. The tables of the file and of a profile are merged."""


class Variable(StrEnum):
    """The environment variables of deltacli. They are read by this class only."""

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
        """Return the value of the variable; None if it is not set."""
        return environment.get(self)


def read_configuration(path: str | None, profile: str | None = None) -> dict[str, Toml]:
    """Return the settings of the configuration file.

    Args:
        path: The configuration file. None: there is none.
        profile: The name of a section `[profile.NAME]`, whose settings override those of the file.

    Returns:
        The settings. Empty if there is no file. The sections `[catalog.NAME]` are under the key `catalog`.

    Raises:
        UsageError: If the file cannot be read or is invalid, or has no such profile.
    """
    if not path:
        if profile:
            raise UsageError(
                f"profile {profile}: no configuration file to read it from",
                code="usage.config",
                hint=repeat_command_with(invocation.arguments, "--config", "FILE"),
            )
        return {}

    content = _read_toml(path)
    profiles = _pop_sections(content, "profile", path)
    catalogs = _pop_sections(content, "catalog", path)
    # All profiles are checked, so that an error does not appear only when a profile is used.
    settings_of_profiles = {
        name: _check_settings(section, path, f"[profile.{name}] of ") for name, section in profiles.items()
    }
    settings = _check_settings(content, path)
    if catalogs:
        settings["catalog"] = catalogs
    if not profile:
        return settings
    if profile not in settings_of_profiles:
        raise _make_unknown_profile_error(path, profile, settings_of_profiles)
    return _merge_profile(settings, settings_of_profiles[profile])


def _read_toml(path: str) -> dict[str, Toml]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        words = remove_option_value(invocation.arguments, "--config", path)
        hint: str = repeat_command(words)
        if words == [*invocation.arguments]:
            # The file was not named by the option, but by the environment variable.
            hint = f"env -u {Variable.CONFIG} {repeat_command(words)}"
        raise UsageError(
            f"the configuration {path} cannot be read: {(error.strerror or '').lower()}",
            code="usage.config",
            hint=hint,
        ) from error
    except ValueError as error:
        raise UsageError(f"the configuration {path} is not TOML: {error}", code="usage.config") from error


def _pop_sections(content: dict[str, Toml], key: str, path: str) -> dict[str, dict[str, Toml]]:
    """Remove and return the sections `[KEY.NAME]`, by name. Raises UsageError if they are not tables."""
    sections = content.pop(key, {})
    if not isinstance(sections, dict) or not all(isinstance(section, dict) for section in sections.values()):
        raise UsageError(f"{key} in the configuration {path} is not a table of tables", code="usage.config")
    return sections


def _merge_profile(settings: Mapping[str, Toml], profile_settings: Mapping[str, Toml]) -> dict[str, Toml]:
    """Return the settings of a file, overridden by those of a profile."""
    merged_settings = {**settings, **profile_settings}
    for table in _TABLES:
        merged_settings[table] = {**settings[table], **profile_settings[table]}

    # A Spark master and a Spark Connect server exclude each other. The one in the profile wins.
    for key, other_key in (("master", "remote"), ("remote", "master")):
        if key in profile_settings and other_key not in profile_settings:
            merged_settings.pop(other_key, None)
    return merged_settings


def _check_settings(settings: Mapping[str, Toml], path: str, section: str = "") -> dict[str, Toml]:
    """Return the settings of a file or of a profile. Missing tables are added, and their values become texts.

    Args:
        settings: The settings.
        path: The configuration file.
        section: The profile in errors, such as `[profile.prod] of `. Empty: the file itself.

    Raises:
        UsageError: If a key is unknown, or a value has the wrong type.
    """
    unknown_keys = sorted(set(settings) - _KEYS)
    if unknown_keys:
        known_keys = _KEYS if section else _KEYS | {"catalog", "profile"}
        question = _ask_for_similar_name(unknown_keys[0], known_keys)
        raise UsageError(
            f"{section}the configuration {path} has an unknown key: {unknown_keys[0]}{question}",
            code="usage.config",
            facts={"known": ", ".join(sorted(known_keys))},
        )
    if not isinstance(settings.get("quiet", False), bool):
        raise UsageError(f"quiet in {section}the configuration {path} is neither true nor false", code="usage.config")
    _check_prefixes(path, settings.get("allow_external", []))
    tables = {name: _convert_to_texts(settings, name, section + path) for name in _TABLES}
    return {**settings, **tables}


def _make_unknown_profile_error(path: str, profile: str, known_profiles: Iterable[str]) -> UsageError:
    names = sorted(known_profiles)
    message = f"the configuration {path} has no profile {profile!r}"
    hint: str | None = None
    similar_name = nearest_name(profile, names)
    if similar_name is not None:
        message += f"; did you mean {similar_name!r}?"
        is_option = any(word.partition("=")[0] == "--profile-name" for word in invocation.arguments)
        if is_option:
            hint = repeat_command_with(invocation.arguments, "--profile-name", similar_name)
        else:
            command = repeat_command(invocation.arguments)
            hint = f"env {Variable.PROFILE}={quote_word(similar_name)} {command}"
    return UsageError(message, code="usage.config", facts={"profiles": ", ".join(names) or "none"}, hint=hint)


def _convert_to_texts(settings: Mapping[str, Toml], name: str, path: str) -> dict[str, str]:
    """Return a table of the configuration with its values as texts. Raises UsageError if it is not a table."""
    values = settings.get(name, {})
    if not isinstance(values, dict):
        raise UsageError(f"{name} in {path} is not a table", code="usage.config")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


def _check_prefixes(path: str, prefixes: object) -> None:
    """Require that `allow_external` is a list of absolute prefixes, and that the file is outside of any table.

    A table must not contain the setting that decides which files it may open.

    Raises:
        UsageError: If it is not.
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

    table = find_enclosing_table(path) if prefixes else None
    if table is not None:
        raise UsageError(
            f"allow_external in {path} is refused: the file lies inside a table",
            code="usage.config",
            facts={"table": table},
            hint="move the configuration file out of the table, or use --allow-external",
        )


def find_enclosing_table(path: str) -> str | None:
    """Return the innermost table directory that contains a file; None if the file is outside of any table."""
    directory = os.path.dirname(os.path.realpath(path))
    while not os.path.isdir(os.path.join(directory, "_delta_log")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent
    return directory


def parse_choice(choices: type[Any], value: object, source: str) -> Any:  # Any: a member of `choices`
    """Return the member of an enum for a value of the environment or of the configuration file.

    Args:
        choices: The enum.
        value: The value. None and an empty text mean that there is no value.
        source: The variable or the key with the value, for errors.

    Returns:
        The member. None if there is no value.

    Raises:
        UsageError: If the enum has no such member.
    """
    if value is None or value == "":
        return None
    try:
        return choices(value)
    except ValueError:
        expected = [str(choice) for choice in choices]
        question = _ask_for_similar_name(str(value), expected)
        raise UsageError(f"{source} is {value!r}{question}", facts={"expected": ", ".join(expected)}) from None


def get_configured_choice(
    choices: type[Any], variable: Variable, settings: Mapping[str, Toml], configuration: str
) -> Any:  # Any: a member of `choices`
    """Return the choice of an environment variable, else that of the configuration file.

    Args:
        choices: The enum.
        variable: The environment variable. Its name in lower case is the key in the configuration file.
        settings: The settings of the configuration file.
        configuration: The phrase that names the configuration file in errors.

    Returns:
        The member of the enum. None if neither contains a value.

    Raises:
        UsageError: If a value is invalid.
    """
    choice = parse_choice(choices, variable.read(), variable)
    if choice:
        return choice
    key = variable.name.lower()
    return parse_choice(choices, settings.get(key), f"{key} {configuration}")


def settle_retry_budget(option: str | None, key: object, configuration: str) -> int | None:
    """Return the time limit for retries in milliseconds, from the option, the environment or the configuration.

    Args:
        option: The value of `--retry-budget`.
        key: The value of the key `retry_budget`.
        configuration: The phrase that names the configuration file in errors.

    Returns:
        The time limit. None: the default.

    Raises:
        UsageError: If the value is not a duration.
    """
    sources = (
        (option, "--retry-budget"),
        (Variable.RETRY_BUDGET.read(), Variable.RETRY_BUDGET),
        (key, f"retry_budget {configuration}"),
    )
    for value, source in sources:
        if value not in (None, ""):
            return parse_duration(str(value), source, "s")
    return None


def _ask_for_similar_name(word: str, known_names: Iterable[str]) -> str:
    similar_name = nearest_name(word, sorted(known_names))
    return "" if similar_name is None else f"; did you mean {similar_name}?"
