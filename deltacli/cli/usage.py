"""Errors of the command-line parser, in the form of all other errors."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from deltacli.cli.command_tree import find_command_path
from deltacli.cli.errors import wants_json, write_error_document
from deltacli.cli.hints.suggest import find_suggestion
from deltacli.cli.options.values import InvalidValue
from deltacli.cli.parameter_types import get_choices
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.stderr import write_message
from deltacli.cli.terminal.suggested_commands import remove_consent
from deltacli.cli.usage_errors import has_one_format, is_action, name_in_errors
from deltacli.cli.vendored_click import MissingParameter, NoArgsIsHelpError, NoSuchOption, Parameter
from deltacli.core.errors import UsageError
from deltacli.core.texts import cut_middle


def report_usage(error: typer.TyperException, arguments: Sequence[str]) -> None:
    """Write an error of the command-line parser, with a hint that corrects the command line if possible."""
    if isinstance(error, NoArgsIsHelpError):
        # The user has typed a group without a command. The message is its help.
        write_message(error.message)
        return

    message = cut_middle(" ".join(describe_error(error).split()))
    suggestion = find_suggestion(error, arguments)
    if suggestion is None:
        hint = " ".join(["deltacli", *find_command_path(arguments), "--help"])
    else:
        hint = remove_consent(suggestion.hint, arguments)
        if suggestion.message:
            message = suggestion.message
        elif suggestion.name:
            message += f"; did you mean {suggestion.name}?"
        elif suggestion.fact:
            message += f"; {suggestion.fact}"

    if wants_json(arguments):
        write_error_document(UsageError.code, UsageError.exit_code, message, hint=hint)
    else:
        write_message(escape_control(f"error: {message}"))
        write_message(escape_control(f"hint: {hint}"))


def describe_error(error: typer.TyperException) -> str:
    """Return the message of an error, on one line and in the words of this program."""
    if isinstance(error, MissingParameter) and error.param is not None:
        return _describe_missing(error)
    if isinstance(error, NoSuchOption):
        return error.message[:1].lower() + error.message[1:]
    if isinstance(error, InvalidValue) and has_one_format(error):
        return f"{error.text!r}: this command has one format and takes no --format"
    if isinstance(error, InvalidValue) and error.param is not None and is_action(error.param):
        return f"{error.text!r} is not an action of this command: {', '.join(map(repr, error.choices))}"
    if isinstance(error, typer.BadParameter) and error.param is not None:
        return f"invalid value for {_quote_names(error.param)}: {error.message}"

    message = error.format_message().rstrip(".")
    is_sentence = message[1:2].islower()
    return message[:1].lower() + message[1:] if is_sentence else message


def _describe_missing(error: MissingParameter) -> str:
    assert error.param is not None
    message = f"missing {error.param.param_type_name} {name_in_errors(error.param)}"
    choices = get_choices(error.ctx.command, error.param) if error.ctx is not None else ()
    return f"{message}: {', '.join(choices)}" if choices else message


def _quote_names(parameter: Parameter) -> str:
    if parameter.param_type_name == "option":
        return " / ".join(map(repr, parameter.opts))
    return repr(getattr(parameter, "metavar", None) or parameter.name)
