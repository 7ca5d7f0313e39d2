"""Errors on stderr: a line, facts and a hint as text, or a JSON object."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from urllib.parse import quote

from deltacli import __version__
from deltacli.cli.command_tree import HERE, path_of
from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import Variable
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.stderr import write_json_message, write_message
from deltacli.cli.terminal.suggested_commands import (
    add_context_options,
    remove_consent,
    remove_option,
    repeat_command,
    repeat_command_with,
    repeat_command_with_flags,
    spell_tables_as_typed,
)
from deltacli.core import errors
from deltacli.core.documents import dumps
from deltacli.core.errors import fill_table, quote_table
from deltacli.core.memory import build_memory_error, is_out_of_memory
from deltacli.core.texts import cut_middle
from deltacli.core.times import UNITS_MS
from deltacli.core.typing import JsonObject
from deltacli.storage.secrets import mask_secrets

_BY_ENGINE = {"instead": "an engine copies the rows: CREATE TABLE … AS SELECT"}
_BY_ROLLBACK = {"instead": "an engine returns to a snapshot or tag: sys.rollback_to"}

INSTEAD: Mapping[str, Mapping[str, str]] = {
    "changes": {"instead": "an engine reads row changes from the system table $audit_log"},
    "checkpoint": {"instead": "nothing is needed: a Paimon snapshot names all its files"},
    "clone": _BY_ENGINE,
    "copy": _BY_ENGINE,
    "diff": {"schemas": "deltacli schema diff TABLE --from schema:N", "snapshots": "deltacli history TABLE"},
    "features": {"instead": "options enable features", "set options": "deltacli alter TABLE set KEY=VALUE"},
    "log backup": {"instead": "an engine keeps a state as a tag or a branch: sys.create_tag, sys.create_branch"},
    "log cat": {"snapshots": "deltacli snapshot TABLE --snapshot-id N"},
    "log compact": {"instead": "writers merge manifests when they commit"},
    "log crc": {"check it": "deltacli validate TABLE"},
    "log expire": {
        "instead": "an engine deletes old snapshots: sys.expire_snapshots",
        "old schemas": "deltacli vacuum TABLE --schemas --dry-run",
    },
    "log restore": _BY_ROLLBACK,
    "optimize": {"instead": "an engine compacts a table: sys.compact"},
    "properties": {"show options": "deltacli snapshot TABLE", "set options": "deltacli alter TABLE set KEY=VALUE"},
    "reach": {"snapshots": "deltacli history TABLE"},
    "read": {"instead": "an engine, or the package pypaimon, reads rows"},
    "repair": {**_BY_ROLLBACK, "find errors": "deltacli validate TABLE"},
    "restore": _BY_ROLLBACK,
    "stats": {"instead": "writers keep statistics in manifests"},
    "undelete": _BY_ROLLBACK,
}
"""Commands that work on Delta tables only -> what does their work on a Paimon table: prose, or commands to paste."""


def without_avro(area: str) -> str:
    """Return the option by which `validate` does without a package that is missing here, for codes of an area."""
    from importlib.util import find_spec

    return " --no-refs" if area == "paimon" and find_spec("fastavro") is None else ""


# -- errors on stderr --------------------------------------------------------------------------------------------------


def _instead_of(arguments: Sequence[str], table: str | None) -> Mapping[str, str]:
    """Return what does the work of a command line on a Paimon table; none for commands that work on both formats."""
    found = INSTEAD.get(" ".join(path_of(arguments)), {})
    name = None if table is None else quote_table(table)
    return found if name is None else {key: value.replace("TABLE", name) for key, value in found.items()}


def report_error(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> JsonObject:
    """Write an error on stderr, as text or a JSON object, and return it. `table` is as the user wrote it."""
    error.preamble, error.reason = map(cut_middle, (error.preamble, error.reason))
    error.facts = {name: cut_middle(value) for name, value in error.facts.items()}
    table = _subject(error, arguments, table)
    _note_conversion(error, arguments, table)
    if error.code == "usage.config":
        hint = error.hint or _of_code(error, arguments, table)
    else:
        hint = (_of_condition if error.code == "usage.where" else _hint)(error, arguments, table)
    if isinstance(error, errors.PaimonTable):
        error.facts["works on both"] = (
            "history, snapshot, validate, explain, alter, widen-type, vacuum --schemas, schema"
        )
        error.facts.update(_instead_of(arguments, table))
    if hint and error.code != "consent.missing":
        hint = remove_consent(_as_asked(hint, error, arguments), arguments)
    for name, value in error.facts.items():
        whole = _whole(name, value, arguments, table)
        error.facts[name] = remove_consent(_as_asked(whole, error, arguments) if name == "fix" else whole, arguments)
    if not hint and errors.is_command(fix := error.facts.get("fix", "")):
        hint = fix
    if (
        not hint
        and "." in error.code
        and error.exit_code != errors.UsageError.exit_code
        and error.code != "consent.denied"
    ):
        hint = f"deltacli help {error.code}"  # which says what to do
    if error.code == "usage.where":  # the help of the hint has them
        from deltacli.delta.predicate.columns import POSSIBLE

        for name in POSSIBLE:
            error.facts.pop(name, None)
    table = os.getcwd() if _is_left_out(error, arguments, table) else table
    named, cause = error.table or table, error.cause_exit_code if isinstance(error, errors.PartlyDone) else None
    document = document_of(error.code, error.exit_code, error.message, named, error.facts, hint, cause)
    if wants_json(arguments):
        write_json_message(dumps(document))
    else:
        message = error.message_without_outcome if "--dry-run" in arguments else error.message
        if hint and hint == error.facts.get("fix"):
            del error.facts["fix"]
        width = max((len(name) for name in error.facts), default=0)
        is_of_words = error.exit_code == errors.UsageError.exit_code and error.code not in _OF_TABLES
        is_named = not table or is_of_words or message.startswith((f"{table} ", f"{table}: "))
        subject = "" if is_named or not table else f"{cut_middle(table)}: "
        write_message(escape_control(f"error: {subject}{message}"))
        for name, value in error.facts.items():
            write_message(escape_control(f"  {name:<{width}}  {value}"))
    report_details(error, arguments)
    if hint and not wants_json(arguments):
        write_message(escape_control(f"hint: {hint}"))  # the last line, whatever is above it
    return document


def _as_asked(advice: str, error: errors.DeltacliError, arguments: Sequence[str]) -> str:
    """Return the current command with other words, and those of its flags that the error is not about."""
    line, comment, remark = advice.partition("   #")
    path = path_of(line.split()[1:]) if errors.is_command(line) else ()
    if not path or path != path_of(arguments) or " --help" in line or error.code == "usage.output":
        return advice
    shows = path[0] in ("features", "properties") and len(shlex.split(line)) == len(("deltacli", *path, "TABLE"))
    possible = ["--json"] if shows else ["--dry-run", "--json"]
    if path == ("alter",) and {*line.split()[3:4], "--upgrade-protocol"} <= {*arguments}:  # the same change
        possible.append("--upgrade-protocol")
    wanted = [flag for flag in possible if flag in arguments and flag not in error.message]
    flags = [flag for flag in wanted if not re.search(rf" {flag}(?= |\Z)", line)]
    return errors.CommandLine(" ".join([line, *flags]) + comment + remark) if flags else advice


_OF_TABLES = frozenset({errors.PaimonTable.code, "usage.missing-extra"})
"""Codes of usage errors that are about a table."""


def _whole(name: str, value: str, arguments: Sequence[str], table: str | None) -> str:
    """Return the value of a fact: a command with its table, and the options of a way out as the command to paste."""
    if errors.TABLE_PLACEHOLDER in value:
        return fill_table(value, table)
    if errors.is_command(value):
        return spell_tables_as_typed(value, arguments)
    if name.startswith("to ") and (option := re.match(r"(--[a-z-]+)(?: ([^\s:]+))?(?:: (.+))?\Z", value)):
        return repeat_command_with(arguments, option[1], option[2]) + (f"   # {option[3]}" if option[3] else "")
    return value


def unexpected(error: Exception) -> errors.DeltacliError:
    """Return the error of one of several tables for an exception that is not a DeltacliError."""
    if is_out_of_memory(error):
        return build_memory_error(error)
    if isinstance(error, OSError):
        facts = {"file": str(error.filename)} if error.filename else {}
        return errors.StorageFailed((error.strerror or str(error)).lower(), facts=facts)
    facts = {"to report it": "run it again with -vv, and remove private names"}
    return errors.DeltacliError(
        f"this is a bug in deltacli {__version__}: {type(error).__name__}: {error}", facts=facts
    )


def say_document(
    code: str,
    exit_code: int,
    message: str,
    *,
    table: str | None = None,
    details: Mapping[str, str] = MappingProxyType({}),
    hint: str | None = None,
) -> None:
    """Write an error as one JSON object on stderr. Its command is one that a script can run."""
    write_json_message(dumps(document_of(code, exit_code, message, table, details, hint)))


def document_of(
    code: str,
    exit_code: int,
    message: str,
    table: str | None,
    details: Mapping[str, str],
    hint: str | None,
    cause_exit: int | None = None,
) -> JsonObject:
    """Return an error as a JSON object; `cause_exit`: the exit code of the error that ended work partly done."""
    line = (hint or "").partition("   #")[0]
    return {
        "type": "error",
        "code": code,
        "exit": exit_code,
        "message": message,
        "table": table,
        "details": dict(details) | ({} if cause_exit is None else {"causeExit": cause_exit}),
        "facts": {re.sub(r"[ -]+(\w)", lambda found: found[1].upper(), name): value for name, value in details.items()},
        "hint": hint,
        "command": line if errors.is_command(line) and errors.is_complete_command(line, invocation.arguments) else None,
    }


_EXPLAINED: Mapping[str, str] = {
    "storage.credentials": "credentials",
    "usage.config": "configuration",
    "usage.credentials": "credentials",
    "usage.duration": "durations",
    "usage.secret": "credentials",
    "usage.size": "sizes",
    "usage.timestamp": "times",
}
"""Code of an error without a command -> the topic that explains how such values are written or found."""

_OF_LOG, _OF_DATA = ("action", "checkpoint", "commit", "paimon", "partition", "rowtracking"), ("data", "dv", "notnull")
"""Areas of codes about damage that `validate` finds in the log, or only in the data."""
_OF_PROFILES = frozenset({"share.access", "share.profile"})

_OF_LOCAL_TABLES = {"head": "read {} --limit 20", "schema": "schema show {}", "changes": "changes {} --from 0"}
"""Command of shares -> the command that does the same for a table of one's own."""


def _subject(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return what an error is about as the user wrote it: the first table, another one of the command line, or nothing
    where the result cannot be written.
    """
    if error.code.startswith("output."):
        return None
    if _is_left_out(error, arguments, table):
        error.facts["TABLE"] = "left out, so it is the current directory"
    place = (
        error.facts.get("path", error.table)
        if isinstance(error, errors.NotATable | errors.PaimonTable)
        else error.table
    )
    if not place or table is None or _is_at(table, place):
        return table
    words = [mask_secrets(word.partition("=")[2] if word.startswith("--") else word) for word in arguments]
    return next((word for word in words if word and _is_at(word, place)), table)


def _is_left_out(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> bool:
    """Return whether an error is about a current directory without a table, which the command line does not name."""
    return isinstance(error, errors.NotATable) and table == HERE and HERE not in arguments


def _is_at(word: str, place: str) -> bool:
    return word == place or f"file://{quote(os.fsencode(os.path.abspath(word)))}" == place.rstrip("/")


def _is_below(place: str, table: str) -> bool:
    root = os.path.abspath(table.removeprefix("file://"))
    return place == root or place.startswith(f"{root}/")


_REPEATABLE = frozenset({"--allow-external", "--exclude", "--spark-conf", "--storage-option"})


def _hint(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the next command; for a file outside the table, the same command with `--allow-external`."""
    if isinstance(error, errors.PathExternal) and error.prefix is not None and arguments:
        return _of_external(error, error.prefix, arguments, table)
    if error.code in ("share.address", "share.not-found") and not error.hint:
        return _of_shares(arguments)
    if (respelled := _with_meant(error, arguments) or _with_ends(error, arguments)) is not None:
        return respelled
    if error.code == "table.path-missing" and table and not error.hint:
        return _respelled(arguments, table) or _near_path(arguments, table)
    if isinstance(error, errors.NotATable) and table and (near := _table_near(error, table)):
        return _with_table(arguments, table, near)
    if not error.hint:
        return _of_code(error, arguments, table)
    if (
        isinstance(error.hint, errors.ParameterHint) and arguments and arguments[0] != "fleet"
    ):  # whose tables have other options
        if len(error.hint.parameters) > 1:
            return repeat_command_with_flags(arguments, error.hint.parameters)
        option, _, value = error.hint.parameters[0].partition(" ")
        return repeat_command_with(arguments, option, value or None, is_repeatable=option in _REPEATABLE)
    hint, version = fill_table(error.hint, table), errors.get_command_option(error.hint, "version")
    if isinstance(error, errors.VersionAbsent) and error.wanted_ms is not None and version is not None:
        return _of_version(str(version), error.wanted_ms, arguments) or add_context_options(hint, arguments)
    asked = error.hint if isinstance(error.hint, errors.CommandHint) else None
    is_near = asked is not None and (not asked.call.options or version is not None)
    if isinstance(error, errors.VersionAbsent) and is_near and version in (None, error.nearest):
        return _of_nearest_version(error, arguments, table) or add_context_options(hint, arguments)
    if (
        table
        and asked is not None
        and asked.call.operation == "snapshot"
        and error.code.startswith(("commit.", "log."))
    ):
        hint = _of_damage(hint, version, arguments, table)
        if error.code.startswith("commit."):
            error.facts["to repair it"] = f"deltacli repair {quote_table(table)} --dry-run"
    if (
        isinstance(error, errors.PermissionRefused)
        and error.denied_path
        and table
        and _is_below(error.denied_path, table)
    ):
        hint = f"deltacli doctor access {quote_table(table)}"
    if table is not None and errors.is_shared(table):  # of which a lower level does not ask for files
        hint = hint.replace("--level storage", "--level footers")
    is_misnamed = error.code in (errors.PaimonTable.code, "usage.table-format")
    hint = add_context_options(hint, remove_option(arguments, "--table-format") if is_misnamed else arguments)
    is_repeated = hint.replace(" --config ", " -c ") == repeat_command(arguments).replace(" --config ", " -c ")
    other = f"deltacli help {error.code}" if error.code == "share.config" else None
    return other if is_repeated and error.exit_code == errors.UsageError.exit_code else hint


def _note_conversion(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> None:
    """Name what is left to a local directory without a log."""
    if not table or isinstance(error, errors.PaimonTable) or path_of(arguments) not in (("repair",), ("undelete",)):
        return
    if os.path.isdir(table) and not os.path.exists(os.path.join(table, "_delta_log")):
        error.facts["without a copy of the log"] = f"deltacli convert {quote_table(table)} --dry-run"


def _of_external(error: errors.DeltacliError, prefix: str, arguments: Sequence[str], table: str | None) -> str:
    """Return the command that opens a prefix; for one of the operating system, the one that names the commits."""
    allowed = repeat_command_with(arguments, "--allow-external", prefix, is_repeatable=True)
    if table is None or not re.match(r"/(?:bin|boot|etc|lib|proc|sbin|sys|usr)(?:/|\Z)", prefix):
        return allowed
    error.facts["if you trust the table"] = allowed
    return f"deltacli validate {quote_table(table)}"


def _of_code(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the next command for an error that has none: a topic, `validate` for damage, the help of the command for a
    wrong command line; None where nothing helps.
    """
    if error.code in _EXPLAINED:
        return f"deltacli help {_EXPLAINED[error.code]}"
    if isinstance(error, errors.NotATable) and path_of(arguments) == ("repair",) and table and os.path.isdir(table):
        return f"deltacli undelete {quote_table(table)} --from COPY --dry-run"  # which brings the log back
    if _is_left_out(error, arguments, table):
        return repeat_command_with_flags(arguments, ["TABLE"])
    if isinstance(error, errors.NotATable) and table and os.path.exists(table):
        return f"ls {quote_table(table if os.path.isdir(table) else os.path.dirname(table) or '.')}"
    path, area = path_of(arguments), error.code.partition(".")[0]
    if error.code == "recover.source-is-table":
        copied = repeat_command_with(remove_option(arguments, "--from"), "--from", "COPY")
        return copied if {"--dry-run", "--yes"} & {*arguments} else f"{copied} --dry-run"
    if error.code == "recover.source-missing" and error.wrong_word is not None:
        return _near_path(arguments, error.wrong_word)
    if error.code in _OF_PROFILES and path != ("share", "profile", "check") and (profile := _profile_in(arguments)):
        return f"deltacli share profile check {quote_table(profile)}"
    if error.exit_code == errors.UsageError.exit_code:
        return None if isinstance(error, errors.PaimonTable) or not path else f"deltacli {' '.join(path)} --help"
    if table is None or path[:1] in (("validate",), ("schema",)) or area not in (*_OF_LOG, *_OF_DATA):
        return None
    if area == "checkpoint" and not _changes(arguments):  # no older start was found
        return add_context_options(f"deltacli reach {quote_table(table)}", arguments)

    options = " --level data" if area in _OF_DATA else without_avro(area)
    return add_context_options(f"deltacli validate {quote_table(table)}{options}", arguments)


def _of_damage(hint: str, version: object, arguments: Sequence[str], table: str) -> str:
    """Return the command line with the readable version of a hint; `validate` for a command that has no versions."""
    from deltacli.cli.command_loading import has_option

    path = path_of(arguments)
    if not has_option(path, "--version") or _changes(arguments):
        return f"deltacli validate {quote_table(table)}"
    if path == ("snapshot",):
        return hint
    typed = remove_option(remove_option(arguments, "--timestamp"), "--version")
    return hint if version is None else repeat_command_with(typed, "--version", str(version))


def _changes(arguments: Sequence[str]) -> bool:
    from deltacli.cli.command_loading import has_option

    return has_option(path_of(arguments), "--dry-run")


def _table_near(error: errors.NotATable, table: str) -> str | None:
    """Return the first table below a directory, or the one of which it is a part, as the user would write it."""
    if error.code == "table.path-is-log" and table.rstrip("/").endswith("/_delta_log"):
        return table.rstrip("/").removesuffix("/_delta_log") or "/"
    if error.below is not None:
        return f"{table.rstrip('/')}/{error.below}"
    around = error.facts.get("inside the table")
    return os.path.relpath(around) if around and not table.startswith("/") and os.path.isdir(around) else around


def _with_meant(error: errors.DeltacliError, arguments: Sequence[str]) -> str | None:
    """Return the command line with the name that an error suggests; None where it has the other one not once."""
    if (near := error.suggestion) is None or error.wrong_word is None:
        return None
    part = re.compile(rf"(?<![^,=:]){re.escape(error.wrong_word)}(?![^,=:])")
    places = [(place, word) for place, word in enumerate(arguments) if part.search(word)]
    if len(places) != 1 or len(part.findall(places[0][1])) != 1:
        return None
    place, written = places[0]
    words = list(arguments)
    words[place] = part.sub(lambda _: near, written)
    # In `--retention 7 days` the unit is there, as a word of its own.
    unit = "".join(words[place + 1 : place + 2]).lower().removesuffix("s")
    if error.wrong_word.isdecimal() and unit in UNITS_MS:
        words[place : place + 2] = [part.sub(f"{error.wrong_word}{unit[0]}", written)]
    return repeat_command(words)


def _of_condition(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the command line with the condition that was meant, else what an error about a condition hints at."""
    meant = error.facts.pop("meant", None)
    if meant is not None:
        where = error.facts.get("where", "")
        words = [meant if word == where else word for word in arguments]
        words = [f"--where={meant}" if word == f"--where={where}" else word for word in words]
        return repeat_command(words) if words != list(arguments) else None
    if error.hint:
        return add_context_options(fill_table(error.hint, table), arguments)
    return "deltacli help conditions"


def _of_version(version: str, moment_ms: int, arguments: Sequence[str]) -> str | None:
    """Return the command line with a version in place of a time; None where it does not have that."""
    from deltacli.cli.options.moments import parse_timestamp

    def is_meant(text: str) -> bool:
        try:
            return parse_timestamp(text.removeprefix("version:")) == moment_ms
        except (errors.UsageError, OverflowError):
            return False

    is_argument = path_of(arguments) == ("log", "cat")  # whose version has no option
    words = list[str]()
    for last, word in pairwise(["", *arguments]):
        name, equals, value = word.partition("=")
        if not is_meant(value if equals else word):
            words.append(word)
        elif "--timestamp" not in (last, name):
            words.append(f"{name}={version}" if equals else version)
        elif equals:
            words.append(version if is_argument else f"--version={version}")
        else:
            words[-1:] = [version] if is_argument else ["--version", version]
    return repeat_command(words) if words != list(arguments) else None


def _with_ends(error: errors.DeltacliError, arguments: Sequence[str]) -> str | None:
    """Return the command line of `changes` with the ends that a hint has; None for another hint.

    An end that the hint has and the user did not give is added: without `--to` the command would be the refused one.
    The other options of the user stay.
    """
    first, last = (errors.get_command_option(error.hint, f"{end}_version") for end in ("from", "to"))
    if first is None or path_of(arguments) != ("changes",):
        return None
    ends = {"--from": str(first)}
    if last is not None:
        ends["--to"] = str(last)

    words = list[str]()
    for before, word in pairwise(["", *arguments]):
        name, equals, _ = word.partition("=")
        words.append(ends.get(before) or (f"{name}={ends[name]}" if equals and name in ends else word))
    given = {word.partition("=")[0] for word in arguments}
    absent = [word for name, value in ends.items() if name not in given for word in (name, value)]
    place = words.index("--") if "--" in words else len(words)
    return repeat_command([*words[:place], *absent, *words[place:]])


def _of_shares(arguments: Sequence[str]) -> str | None:
    """Return the command that lists the shares of a profile, or that does the same for one's own table."""
    named = _profile_in(arguments)
    local = next((word for word in arguments[2:] if os.path.isdir(word)), None)
    if named is None and local is not None and arguments[1] in _OF_LOCAL_TABLES:
        return f"deltacli {_OF_LOCAL_TABLES[arguments[1]].format(quote_table(local))}"
    return named and f"deltacli share ls {quote_table(named)}"


def _profile_in(arguments: Sequence[str]) -> str | None:
    profiles = (word.partition("#")[0] for word in arguments)
    return next((word for word in profiles if word.endswith(".share")), None)


def _of_nearest_version(error: errors.VersionAbsent, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the command line with the nearest version where it names the absent one in one place, and that ends its
    range; the versions to choose from for a restore, which to the newest one changes nothing.
    """
    if path_of(arguments) == ("restore",) and table:
        return add_context_options(f"deltacli history {quote_table(table)}", arguments)
    words = [re.sub(rf"(?:(?<==)|(?<=:)|\A){error.wanted}\Z", str(error.nearest), word) for word in arguments]
    if error.nearest is None or sum(map(str.__ne__, words, arguments)) != 1:
        return None
    begin = re.search(r"\0--from[\0=](\d+)(?=\0|\Z)", "\0".join(words))
    least = error.nearest - (path_of(arguments) == ("log", "compact"))  # which needs two commits
    return None if begin and int(begin[1]) > least else repeat_command(words)


def _respelled(arguments: Sequence[str], table: str) -> str | None:
    """Return the command with the URI that a missing local path looks like; None for another path."""
    found = re.match(r"(s3|gs|abfss?|az|dbfs)(?::/+(?!/)|//)", table)
    if found is None or table.startswith(f"{found[1]}://"):
        return None
    rest = table[found.end() :]
    meant = f"/dbfs/{rest}" if found[1] == "dbfs" else f"{found[1]}://{rest}"
    return _with_table(arguments, table, meant)


def _near_path(arguments: Sequence[str], table: str) -> str | None:
    """Return the command with the directory that a missing local path looks like, else one that lists what is there."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", table) or "#" in table or os.path.exists(table):
        return None  # no local path, or another one is missing
    near, above = errors.nearest_directory(table), table.rstrip("/")
    if near is not None:
        return _with_table(arguments, table, near)
    while above == table.rstrip("/") or not os.path.isdir(above):
        above = os.path.dirname(above) or ("/" if table.startswith("/") else ".")
    return f"ls {quote_table(above)}"


def _with_table(arguments: Sequence[str], table: str, meant: str) -> str:
    """Return the command line with another table, also where it has none."""
    words = []
    for word in arguments:
        option, equals, value = word.partition("=")
        is_value = option.startswith("--") and value == table
        words.append(meant if word == table else f"{option}{equals}{meant}" if is_value else word)
    return repeat_command_with_flags(words, [meant.removeprefix("./")] if words == [*arguments] else [])


def report_details(error: BaseException, arguments: Sequence[str]) -> None:
    """`-v`: write the causes of the error; `-vv`: the traceback."""
    verbosity = sum(len(word) - 1 for word in arguments if word in ("-v", "-vv")) + list(arguments).count("--verbose")
    if verbosity >= 2:
        import traceback

        write_message("".join(traceback.format_exception(error)).rstrip())
    elif verbosity == 1:
        cause = error.__cause__ or error.__context__
        while cause is not None:
            write_message(escape_control(f"  because  {type(cause).__name__}: {cause}"))
            cause = cause.__cause__ or cause.__context__


def wants_json(arguments: Sequence[str]) -> bool:
    """Return True if errors are JSON: by the settled options, or by the raw arguments before that."""
    if invocation.log_is_json is not None:
        return invocation.log_is_json
    said = {"--log-format": "", "--format": "json" if "--json" in arguments else ""}
    for word, following in pairwise([*arguments, ""]):
        name, separator, value = word.partition("=")
        if name in said:
            said[name] = value if separator else following
    if said["--log-format"]:
        return said["--log-format"] == "json"
    return (said["--format"] or Variable.FORMAT.read()) in ("json", "ndjson")
