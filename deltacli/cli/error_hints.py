"""Choose the hint of an error: the command that the user probably wants to run next.

Operations raise errors with a hint that fits every caller, such as `deltacli history {table}`. The command line knows
more: the words that the user typed. `find_hint` tries, in this order:

1. the command line with one word corrected (`corrected_commands.py`);
2. the hint of the error, with the table and the options for opening it;
3. a command that is chosen by the code of the error, such as `deltacli help credentials`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from deltacli.cli.command_tree import HERE, get_command_path
from deltacli.cli.corrected_commands import (
    correct_cloud_uri,
    correct_condition,
    correct_local_path,
    correct_misspelled_word,
    correct_range_of_changes,
    replace_absent_version,
    replace_table,
    replace_timestamp_by_version,
)
from deltacli.cli.terminal.suggested_commands import (
    add_context_options,
    remove_option,
    repeat_command,
    repeat_command_with,
    repeat_command_with_flags,
)
from deltacli.core import errors
from deltacli.core.errors import fill_table, quote_table

_HELP_TOPICS: Mapping[str, str] = {
    "storage.credentials": "credentials",
    "usage.config": "configuration",
    "usage.credentials": "credentials",
    "usage.duration": "durations",
    "usage.secret": "credentials",
    "usage.size": "sizes",
    "usage.timestamp": "times",
}
"""Maps the code of an error to the help topic that explains how to write or configure such values."""

_LOG_AREAS = ("action", "checkpoint", "commit", "paimon", "partition", "rowtracking")
_DATA_AREAS = ("data", "dv", "notnull")
"""Areas of error codes, such as `dv` of `dv.checksum`, for damage in the log and for damage in data files.

`validate` reads data files only with `--level data`.
"""

_PROFILE_CODES = ("share.access", "share.profile")
"""Codes of errors that `share profile check` explains."""

_LOCAL_EQUIVALENTS = {"head": "read {} --limit 20", "schema": "schema show {}", "changes": "changes {} --from 0"}
"""Maps a command of `share` to the command for a local table, with `{}` in place of the table."""

_REPEATABLE_OPTIONS = ("--allow-external", "--exclude", "--spark-conf", "--storage-option")

_SYSTEM_DIRECTORY = re.compile(r"/(?:bin|boot|etc|lib|proc|sbin|sys|usr)(?:/|\Z)")
"""Matches directories of the operating system, which contain no data files of tables."""


def find_hint(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the command that the user probably wants to run next.

    Facts may be added to the error, such as an alternative to the hint.

    Args:
        error: The error to report.
        arguments: The words of the command line.
        table: The table as the user typed it; None for commands without a table.

    Returns:
        A command line, or a sentence. None if no command helps.
    """
    if error.code == "usage.config":
        return error.hint or _find_hint_by_code(error, arguments, table)
    if error.code == "usage.where":
        return _find_hint_for_condition(error, arguments, table)
    if isinstance(error, errors.PathExternal) and error.prefix is not None and arguments:
        return _find_hint_for_external_path(error, error.prefix, arguments, table)
    if error.code in ("share.address", "share.not-found") and not error.hint:
        return _find_hint_for_share(arguments)

    corrected = correct_misspelled_word(error, arguments) or correct_range_of_changes(error, arguments)
    if corrected is not None:
        return corrected
    if error.code == "table.path-missing" and table and not error.hint:
        return correct_cloud_uri(arguments, table) or correct_local_path(arguments, table)
    if isinstance(error, errors.NotATable) and table:
        nearby_table = _find_nearby_table(error, table)
        if nearby_table:
            return replace_table(arguments, table, nearby_table)

    if not error.hint:
        return _find_hint_by_code(error, arguments, table)
    # Policies of `fleet` configure options per table, so the command line cannot be repeated with more options.
    if isinstance(error.hint, errors.ParameterHint) and arguments and arguments[0] != "fleet":
        return _add_parameters(error.hint.parameters, arguments)
    return _complete_hint(error, error.hint, arguments, table)


def _add_parameters(parameters: Sequence[str], arguments: Sequence[str]) -> str:
    """Return the command line with the options that a hint suggests, such as `--retention 7d`."""
    if len(parameters) > 1:
        return repeat_command_with_flags(arguments, parameters)
    option, _, value = parameters[0].partition(" ")
    return repeat_command_with(arguments, option, value or None, is_repeatable=option in _REPEATABLE_OPTIONS)


def _complete_hint(error: errors.DeltacliError, hint: str, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the hint of an error, adapted to the command line of the user.

    Returns:
        The command line or sentence. None if the hint repeats a command line that is wrong.
    """
    advice = fill_table(hint, table)
    if isinstance(error, errors.VersionAbsent) and _suggests_version(error, hint):
        corrected = _correct_version(error, hint, arguments, table)
        return corrected or add_context_options(advice, arguments)

    # An error about the log suggests `snapshot --version N` with a version that can still be read.
    is_snapshot_hint = isinstance(hint, errors.CommandHint) and hint.call.operation == "snapshot"
    if table and is_snapshot_hint and error.code.startswith(("commit.", "log.")):
        advice = _read_older_version(advice, errors.get_command_option(hint, "version"), arguments, table)
        if error.code.startswith("commit."):
            error.facts["to repair it"] = f"deltacli repair {quote_table(table)} --dry-run"

    denied_path = error.denied_path if isinstance(error, errors.PermissionRefused) else None
    if denied_path and table and _is_inside(denied_path, table):
        advice = f"deltacli doctor access {quote_table(table)}"

    # A recipient of a share cannot list the files in storage.
    if table is not None and errors.is_shared(table):
        advice = advice.replace("--level storage", "--level footers")

    # Do not repeat a `--table-format` that caused the error.
    is_wrong_format = error.code in (errors.PaimonTable.code, "usage.table-format")
    context_arguments = remove_option(arguments, "--table-format") if is_wrong_format else arguments
    advice = add_context_options(advice, context_arguments)

    # If the command line is wrong, do not suggest running it again.
    is_repeated = advice.replace(" --config ", " -c ") == repeat_command(arguments).replace(" --config ", " -c ")
    if is_repeated and error.exit_code == errors.UsageError.exit_code:
        return f"deltacli help {error.code}" if error.code == "share.config" else None
    return advice


def _suggests_version(error: errors.VersionAbsent, hint: str) -> bool:
    """Return True if the hint suggests an existing version, or another way to choose one: `history` without options."""
    version = errors.get_command_option(hint, "version")
    if error.wanted_ms is not None and version is not None:
        return True
    if not isinstance(hint, errors.CommandHint):
        return False
    return not hint.call.options if version is None else version == error.nearest


def _correct_version(error: errors.VersionAbsent, hint: str, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the command line with an existing version instead of the absent version or timestamp, if possible."""
    version = errors.get_command_option(hint, "version")
    if error.wanted_ms is not None and version is not None:
        return replace_timestamp_by_version(str(version), error.wanted_ms, arguments)

    # Restoring the newest version changes nothing, so let the user choose another one.
    if get_command_path(arguments) == ("restore",) and table:
        return add_context_options(f"deltacli history {quote_table(table)}", arguments)
    return replace_absent_version(error, arguments)


def _read_older_version(hint: str, version: object, arguments: Sequence[str], table: str) -> str:
    """Return the command line with a version that can be read although a newer commit is damaged.

    Args:
        hint: The hint of the error: `snapshot` with this version.
        version: The newest version that can be read; None if there is no such version.
        arguments: The words of the command line.
        table: The table as the user typed it.

    Returns:
        The command line. `validate` if the command changes the table, or has no option for a version.
    """
    from deltacli.cli.command_loading import has_option

    path = get_command_path(arguments)
    if not has_option(path, "--version") or _can_change_table(arguments):
        return f"deltacli validate {quote_table(table)}"
    if path == ("snapshot",) or version is None:
        return hint
    words = remove_option(remove_option(arguments, "--timestamp"), "--version")
    return repeat_command_with(words, "--version", str(version))


def _find_hint_for_condition(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the hint of an error in the value of `--where`.

    The fact `meant` of such an error is the corrected condition. It is removed from the facts, because the hint
    contains it.
    """
    corrected = error.facts.pop("meant", None)
    if corrected is not None:
        return correct_condition(error.facts.get("where", ""), corrected, arguments)
    if error.hint:
        return add_context_options(fill_table(error.hint, table), arguments)
    return "deltacli help conditions"


def _find_hint_for_external_path(
    error: errors.DeltacliError, prefix: str, arguments: Sequence[str], table: str | None
) -> str:
    """Return the command line with `--allow-external`, for a table that references files outside its directory.

    A prefix such as `/etc` is suspicious: a malicious writer may have added a system file to the table, so that
    a reader with more permissions copies it. Then the hint is `validate`, which lists the commits, and the
    option becomes a fact.
    """
    with_prefix = repeat_command_with(arguments, "--allow-external", prefix, is_repeatable=True)
    if table is None or not _SYSTEM_DIRECTORY.match(prefix):
        return with_prefix
    error.facts["if you trust the table"] = with_prefix
    return f"deltacli validate {quote_table(table)}"


def _find_hint_for_share(arguments: Sequence[str]) -> str | None:
    """Return the command that lists the tables of a profile, for an address that does not exist in the share.

    If the user typed a local table instead of an address, the command for local tables is returned.
    """
    profile = _find_profile(arguments)
    if profile is not None:
        return f"deltacli share ls {quote_table(profile)}"

    directory = next((word for word in arguments[2:] if os.path.isdir(word)), None)
    if directory is not None and arguments[1] in _LOCAL_EQUIVALENTS:
        return f"deltacli {_LOCAL_EQUIVALENTS[arguments[1]].format(quote_table(directory))}"
    return None


def _find_profile(arguments: Sequence[str]) -> str | None:
    """Return the first profile file in a command line, without the address of a table after `#`."""
    paths = (word.partition("#")[0] for word in arguments)
    return next((path for path in paths if path.endswith(".share")), None)


def _find_nearby_table(error: errors.NotATable, table: str) -> str | None:
    """Return a table that the user may have meant instead of a directory that is not a table.

    That is the table that contains the directory, or the first table in its subdirectories. Its path is relative if the
    user typed a relative path.
    """
    path = table.rstrip("/")
    if error.code == "table.path-is-log" and path.endswith("/_delta_log"):
        return path.removesuffix("/_delta_log") or "/"
    if error.below is not None:
        return f"{path}/{error.below}"

    enclosing_table = error.facts.get("inside the table")
    if enclosing_table and not table.startswith("/") and os.path.isdir(enclosing_table):
        return os.path.relpath(enclosing_table)
    return enclosing_table


def _find_hint_by_code(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return a command for an error that has no hint of its own.

    Returns:
        For example, a help topic for an invalid duration, or `validate` for damage. None if no command helps.
    """
    path = get_command_path(arguments)
    if error.code in _HELP_TOPICS:
        return f"deltacli help {_HELP_TOPICS[error.code]}"

    if isinstance(error, errors.NotATable):
        hint = _find_hint_for_missing_log(error, arguments, table)
        if hint is not None:
            return hint

    if error.code == "recover.source-is-table":
        with_copy = repeat_command_with(remove_option(arguments, "--from"), "--from", "COPY")
        has_mode = "--dry-run" in arguments or "--yes" in arguments
        return with_copy if has_mode else f"{with_copy} --dry-run"
    if error.code == "recover.source-missing" and error.wrong_word is not None:
        return correct_local_path(arguments, error.wrong_word)

    profile = _find_profile(arguments)
    if error.code in _PROFILE_CODES and path != ("share", "profile", "check") and profile:
        return f"deltacli share profile check {quote_table(profile)}"

    if error.exit_code == errors.UsageError.exit_code:
        if isinstance(error, errors.PaimonTable) or not path:
            return None
        return f"deltacli {' '.join(path)} --help"
    return _find_hint_for_damage(error, arguments, table)


def _find_hint_for_missing_log(error: errors.NotATable, arguments: Sequence[str], table: str | None) -> str | None:
    if get_command_path(arguments) == ("repair",) and table and os.path.isdir(table):
        # `repair` needs a log. `undelete` restores the log from a copy of the table.
        return f"deltacli undelete {quote_table(table)} --from COPY --dry-run"
    if is_table_omitted(error, arguments, table):
        return repeat_command_with_flags(arguments, ["TABLE"])
    if table and os.path.exists(table):
        directory = table if os.path.isdir(table) else os.path.dirname(table) or "."
        return f"ls {quote_table(directory)}"
    return None


def _find_hint_for_damage(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the command that shows the extent of damage in a table; None for other errors."""
    area = error.code.partition(".")[0]
    # `validate` itself reported the damage. `schema` reads the newest schema only, and has no version to check.
    if table is None or get_command_path(arguments)[:1] in (("validate",), ("schema",)):
        return None
    if area not in _LOG_AREAS and area not in _DATA_AREAS:
        return None

    # A damaged checkpoint makes versions unreadable. `reach` lists the versions that can still be read.
    if area == "checkpoint" and not _can_change_table(arguments):
        return add_context_options(f"deltacli reach {quote_table(table)}", arguments)
    options = " --level data" if area in _DATA_AREAS else _get_options_without_avro(area)
    return add_context_options(f"deltacli validate {quote_table(table)}{options}", arguments)


def _get_options_without_avro(area: str) -> str:
    """Return `--no-refs` for a Paimon table if the optional package that reads its manifests is not installed."""
    from importlib.util import find_spec

    return " --no-refs" if area == "paimon" and find_spec("fastavro") is None else ""


def _can_change_table(arguments: Sequence[str]) -> bool:
    """Return True for commands that have `--dry-run`: these change tables."""
    from deltacli.cli.command_loading import has_option

    return has_option(get_command_path(arguments), "--dry-run")


def _is_inside(path: str, table: str) -> bool:
    directory = os.path.abspath(table.removeprefix("file://"))
    return path == directory or path.startswith(f"{directory}/")


def is_table_omitted(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> bool:
    """Return True if the command line contains no table, and the current directory is not a table."""
    return isinstance(error, errors.NotATable) and table == HERE and HERE not in arguments
