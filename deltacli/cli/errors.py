"""Write errors to stderr, as text or as a JSON object.

An error as text consists of a message, facts and a hint:

    error: trips: the log contains no commit 7
      oldest version  9
    hint: deltacli history trips

`error_hints.py` chooses the hint. The schema of the JSON object is docs/schemas/error.json.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from urllib.parse import quote

from deltacli import __version__
from deltacli.cli.command_tree import get_command_path
from deltacli.cli.error_hints import find_hint, is_table_omitted
from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import Variable
from deltacli.cli.paimon_alternatives import get_paimon_alternatives
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.stderr import write_json_message, write_message
from deltacli.cli.terminal.suggested_commands import remove_consent, repeat_command_with, spell_tables_as_typed
from deltacli.core import errors
from deltacli.core.documents import dumps
from deltacli.core.errors import fill_table, quote_table
from deltacli.core.memory import build_memory_error, is_out_of_memory
from deltacli.core.texts import cut_middle
from deltacli.core.typing import JsonObject
from deltacli.storage.secrets import mask_secrets

_JSON_FORMATS = ("json", "ndjson")

_OPTION_FACT = re.compile(r"(--[a-z-]+)(?: ([^\s:]+))?(?:: (.+))?\Z")
"""The value of a fact that suggests an option: the option, its value, and a remark. For example,
`--retention 7d: the retention of the table`.
"""

_TABLE_CODES = (errors.PaimonTable.code, "usage.missing-extra")
"""Codes of usage errors about a table, as opposed to errors about the words of the command line."""


def report_error(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> JsonObject:
    """Write an error to stderr, as text or as a JSON object.

    The facts of the error are changed: values are shortened, and commands are completed.

    Args:
        error: The error.
        arguments: The words of the command line.
        table: The table as the user typed it; None for commands without a table.

    Returns:
        The error as a JSON object.
    """
    # A commit or a schema in a message may have megabytes.
    error.preamble = cut_middle(error.preamble)
    error.reason = cut_middle(error.reason)
    error.facts = {name: cut_middle(value) for name, value in error.facts.items()}

    table = _find_reported_table(error, arguments, table)
    hint = _complete_facts_and_hint(error, arguments, table)
    if is_table_omitted(error, arguments, table):
        table = os.getcwd()

    document = make_error_document(
        error.code,
        error.exit_code,
        error.message,
        error.table or table,
        error.facts,
        hint,
        error.cause_exit_code if isinstance(error, errors.PartlyDone) else None,
    )
    if wants_json(arguments):
        write_json_message(dumps(document))
        write_error_causes(error, arguments)
        return document

    # The hint is the last line, even after a traceback.
    _write_message_and_facts(error, arguments, table, hint)
    write_error_causes(error, arguments)
    if hint:
        write_message(escape_control(f"hint: {hint}"))
    return document


def _find_reported_table(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Return the table that an error is about, as the user typed it.

    Usually that is the table of the command. A command on two tables, such as `diff`, may fail on the second one.

    Returns:
        The table. None if the result cannot be written: that is not an error of a table.
    """
    if error.code.startswith("output."):
        return None
    if is_table_omitted(error, arguments, table):
        error.facts["TABLE"] = "left out, so it is the current directory"

    path = error.table
    if isinstance(error, errors.NotATable | errors.PaimonTable):
        path = error.facts.get("path", error.table)
    if not path or table is None or _is_same_table(table, path):
        return table

    # Search the command line for the table that the error names.
    for word in arguments:
        value = word.partition("=")[2] if word.startswith("--") else word
        typed_table = mask_secrets(value)
        if typed_table and _is_same_table(typed_table, path):
            return typed_table
    return table


def _is_same_table(typed_table: str, path: str) -> bool:
    """Return True if a word of the command line refers to the path or `file://` URI in an error."""
    uri = f"file://{quote(os.fsencode(os.path.abspath(typed_table)))}"
    return typed_table == path or uri == path.rstrip("/")


def _complete_facts_and_hint(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> str | None:
    """Complete the facts of an error for this command line, and return its hint.

    The hint is chosen before the facts are completed, because choosing it may add facts.
    """
    _add_conversion_fact(error, arguments, table)
    hint = find_hint(error, arguments, table)
    if hint and error.code != "consent.missing":
        hint = remove_consent(_keep_flags(hint, error, arguments), arguments)

    if isinstance(error, errors.PaimonTable):
        error.facts["works on both"] = (
            "history, snapshot, validate, explain, alter, widen-type, vacuum --schemas, schema"
        )
        error.facts.update(get_paimon_alternatives(" ".join(get_command_path(arguments)), table))
    for name, value in error.facts.items():
        completed = _complete_fact(name, value, arguments, table)
        if name == "fix":
            completed = _keep_flags(completed, error, arguments)
        error.facts[name] = remove_consent(completed, arguments)

    fix = error.facts.get("fix")
    if not hint and fix is not None and errors.is_command(fix):
        hint = fix

    # The pages of `deltacli help CODE` describe what to do. There is none for wrong command lines.
    has_help_page = "." in error.code and error.exit_code != errors.UsageError.exit_code
    if not hint and has_help_page and error.code != "consent.denied":
        hint = f"deltacli help {error.code}"

    # The help page in the hint contains these facts.
    if error.code == "usage.where":
        from deltacli.delta.predicate.columns import POSSIBLE

        for name in POSSIBLE:
            error.facts.pop(name, None)
    return hint


def _add_conversion_fact(error: errors.DeltacliError, arguments: Sequence[str], table: str | None) -> None:
    """Suggest `convert` for a local directory without a log that `repair` or `undelete` cannot recover."""
    is_recovery = get_command_path(arguments) in (("repair",), ("undelete",))
    if not table or isinstance(error, errors.PaimonTable) or not is_recovery:
        return
    if os.path.isdir(table) and not os.path.exists(os.path.join(table, "_delta_log")):
        error.facts["without a copy of the log"] = f"deltacli convert {quote_table(table)} --dry-run"


def _keep_flags(advice: str, error: errors.DeltacliError, arguments: Sequence[str]) -> str:
    """Return a suggested command with the `--dry-run` and `--json` of the command line, if it is the same command.

    Args:
        advice: The suggested command, or a sentence, which is returned unchanged.
        error: The error. Flags that its message mentions are not added, because they may be the reason of the error.
        arguments: The words of the command line.
    """
    line, comment_mark, comment = advice.partition("   #")
    path = get_command_path(line.split()[1:]) if errors.is_command(line) else ()
    is_same_command = path and path == get_command_path(arguments)
    if not is_same_command or " --help" in line or error.code == "usage.output":
        return advice

    # `features TABLE` and `properties TABLE` without an action only show something.
    shows_only = path[0] in ("features", "properties") and len(shlex.split(line)) == len(("deltacli", *path, "TABLE"))
    flags = ["--json"] if shows_only else ["--dry-run", "--json"]
    # If the suggestion is the same change of the schema, such as `alter TABLE drop`, it needs the same permission.
    is_same_change = path == ("alter",) and {*line.split()[3:4], "--upgrade-protocol"} <= {*arguments}
    if is_same_change:
        flags.append("--upgrade-protocol")

    typed_flags = [flag for flag in flags if flag in arguments and flag not in error.message]
    missing_flags = [flag for flag in typed_flags if not re.search(rf" {flag}(?= |\Z)", line)]
    if not missing_flags:
        return advice
    return errors.CommandLine(" ".join([line, *missing_flags]) + comment_mark + comment)


def _complete_fact(name: str, value: str, arguments: Sequence[str], table: str | None) -> str:
    """Return the value of a fact with complete commands.

    Commands contain the table as the user typed it. In a fact such as `to keep more`, an option is replaced by the
    command line with this option.
    """
    if errors.TABLE_PLACEHOLDER in value:
        return fill_table(value, table)
    if errors.is_command(value):
        return spell_tables_as_typed(value, arguments)

    option = _OPTION_FACT.match(value) if name.startswith("to ") else None
    if option is None:
        return value
    command = repeat_command_with(arguments, option[1], option[2])
    return f"{command}   # {option[3]}" if option[3] else command


def _write_message_and_facts(
    error: errors.DeltacliError, arguments: Sequence[str], table: str | None, hint: str | None
) -> None:
    """Write the message, preceded by the table, and the facts, except the one that the hint repeats."""
    message = error.message_without_outcome if "--dry-run" in arguments else error.message
    is_about_words = error.exit_code == errors.UsageError.exit_code and error.code not in _TABLE_CODES
    if table and not is_about_words and not message.startswith((f"{table} ", f"{table}: ")):
        message = f"{cut_middle(table)}: {message}"
    write_message(escape_control(f"error: {message}"))

    if hint and hint == error.facts.get("fix"):
        del error.facts["fix"]
    width = max((len(name) for name in error.facts), default=0)
    for name, value in error.facts.items():
        write_message(escape_control(f"  {name:<{width}}  {value}"))


def make_error_from_exception(exception: Exception) -> errors.DeltacliError:
    """Return the error to report for an exception that deltacli did not raise itself, such as an OSError or a bug."""
    if is_out_of_memory(exception):
        return build_memory_error(exception)
    if isinstance(exception, OSError):
        facts = {"file": str(exception.filename)} if exception.filename else {}
        return errors.StorageFailed((exception.strerror or str(exception)).lower(), facts=facts)
    facts = {"to report it": "run it again with -vv, and remove private names"}
    return errors.DeltacliError(
        f"this is a bug in deltacli {__version__}: {type(exception).__name__}: {exception}", facts=facts
    )


def write_error_document(
    code: str,
    exit_code: int,
    message: str,
    *,
    table: str | None = None,
    details: Mapping[str, str] = MappingProxyType({}),
    hint: str | None = None,
) -> None:
    """Write an error to stderr as one JSON object."""
    write_json_message(dumps(make_error_document(code, exit_code, message, table, details, hint)))


def make_error_document(
    code: str,
    exit_code: int,
    message: str,
    table: str | None,
    details: Mapping[str, str],
    hint: str | None,
    cause_exit_code: int | None = None,
) -> JsonObject:
    """Return an error as a JSON object.

    Args:
        code: The code of the error, such as `log.gap`.
        exit_code: The exit code of the process.
        message: The message.
        table: The table, if the error is about one.
        details: The facts by name. Programs find them under `facts` with camelCase keys: `oldest version` is
            `facts.oldestVersion`.
        hint: A command line or a sentence. A command line that can be run unchanged is repeated as `command`.
        cause_exit_code: The exit code of the error that ended a partly completed operation.
    """
    all_details: dict[str, str | int] = dict(details)
    if cause_exit_code is not None:
        all_details["causeExit"] = cause_exit_code

    line = (hint or "").partition("   #")[0]
    can_be_run = errors.is_command(line) and errors.is_complete_command(line, invocation.arguments)
    return {
        "type": "error",
        "code": code,
        "exit": exit_code,
        "message": message,
        "table": table,
        "details": all_details,
        "facts": {_make_camel_case(name): value for name, value in details.items()},
        "hint": hint,
        "command": line if can_be_run else None,
    }


def _make_camel_case(name: str) -> str:
    return re.sub(r"[ -]+(\w)", lambda match: match[1].upper(), name)


def write_error_causes(error: BaseException, arguments: Sequence[str]) -> None:
    """Write the causes of an error with `-v`, or the traceback with `-vv`."""
    short_flags = sum(len(word) - 1 for word in arguments if word in ("-v", "-vv"))
    verbosity = short_flags + list(arguments).count("--verbose")
    if verbosity >= 2:
        import traceback

        write_message("".join(traceback.format_exception(error)).rstrip())
    elif verbosity == 1:
        cause = error.__cause__ or error.__context__
        while cause is not None:
            write_message(escape_control(f"  because  {type(cause).__name__}: {cause}"))
            cause = cause.__cause__ or cause.__context__


def wants_json(arguments: Sequence[str]) -> bool:
    """Return True if errors are written as JSON.

    Before the options of a command are parsed, `--log-format` and `--format` are searched in the command line: an error
    of the parser has the format that the user chose, too.
    """
    if invocation.log_is_json is not None:
        return invocation.log_is_json

    log_format = ""
    result_format = "json" if "--json" in arguments else ""
    for word, following in pairwise([*arguments, ""]):
        name, equals, value = word.partition("=")
        if name == "--log-format":
            log_format = value if equals else following
        elif name == "--format":
            result_format = value if equals else following
    if log_format:
        return log_format == "json"
    return (result_format or Variable.FORMAT.read()) in _JSON_FORMATS
