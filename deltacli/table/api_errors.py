"""Complete the errors of the Python API: insert the table into hints, and suggest a corrected call.

The hint of an error is a command or a call that the user can paste. Operations do not know how the
table was opened, or whether a person uses the command line or the Python API, so they leave a
placeholder for the table:

    hint of an operation                   hint for a caller who used `open_table("lake/orders")`
    command("vacuum", dry_run=True)   ->   open_table('lake/orders').vacuum(dry_run=True)

The outermost call fills the placeholder. It also knows its own arguments: if an error suggests
another word for one of them, the hint becomes the same call with the corrected argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from deltacli.core import errors
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_arguments import accepts_arguments, check_arguments, is_integer, require_kind, signature_of

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Key = TypeVar("Key")
Result = TypeVar("Result")


class NamedTable(Protocol):
    """A table that knows the name with which the caller opened it.

    The name is a path or URI. None means that the caller fills the placeholders itself.
    """

    @property
    def name(self) -> str | None: ...


TableT = TypeVar("TableT", bound=NamedTable)


def api_method(
    method: Callable[Concatenate[TableT, Arguments], Result],
) -> Callable[Concatenate[TableT, Arguments], Result]:
    """Decorate a method of the Python API, or a function whose first parameter is a table.

    Before the call, the arguments are checked against the annotations of the method. If the call
    fails, the hint of the error is completed: it contains the table, and repeats the call with the
    misspelled argument corrected.
    """

    @wraps(method)
    def call(self: TableT, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        # `plan_vacuum` accepts all arguments of `vacuum`, but a plan never changes the table.
        if method.__name__.startswith("plan_"):
            options.pop("dry_run", None)
        if not accepts_arguments(method, arguments, options):
            _raise_type_error(method, self, arguments, options)

        try:
            checked, checked_options = check_arguments(method, arguments, options)
            return cast("Callable[..., Result]", method)(self, *checked, **checked_options)
        except errors.DeltacliError as error:
            _suggest_corrected_call(error, method.__name__, self, arguments, options)
            name_table(error, self.name)
            if getattr(self, "is_paimon", False):
                _open_as_paimon(error)
            # After a dry run, do not suggest a command that changes the table.
            if options.get("dry_run") is True and isinstance(error.hint, errors.CommandHint):
                error.hint = _add_dry_run(error.hint, type(self))
            raise

    return call


def api_function(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function of `deltacli.spark`, as `api_method` decorates a method.

    The first parameter of the function is the Spark session. The second one is the table: a path, a
    URI or an open table.
    """

    @wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            arguments_by_name = signature_of(function).bind(*arguments, **options).arguments
        except TypeError:
            return function(*arguments, **options)  # raises a TypeError that contains the name of the function

        _, table = [*arguments_by_name.values()][:2]
        other_arguments = dict([*arguments_by_name.items()][2:])
        name = mask_secrets(os.fspath(table)) if isinstance(table, str | os.PathLike) else None
        try:
            for parameter, value in other_arguments.items():
                require_kind(value, parameter, signature_of(function).parameters[parameter].annotation)
            return function(*arguments, **options)
        except errors.DeltacliError as error:
            name_table(error, name)
            corrected = None if name is None else _correct_arguments(error, other_arguments)
            if corrected is not None:
                error.hint = _build_spark_call(function.__name__, str(name), corrected)
            raise

    return call


def _raise_type_error(
    method: Callable[..., object], table: object, arguments: tuple[object, ...], options: Mapping[str, object]
) -> None:
    """Raise Python's own TypeError for a call with unknown or missing arguments.

    Python's message contains the class that defines the method, for example `DataFileMethods.vacuum`.
    Callers only know the class of the table, so it is replaced: `Table.vacuum`.
    """
    try:
        method(table, *arguments, **options)
    except TypeError as error:
        public_name = f"{type(table).__name__}.{method.__name__}"
        raise TypeError(str(error).replace(method.__qualname__, public_name)) from None


def iterate_naming_table(items: Iterator[Item], name: str | None) -> Iterator[Item]:
    """Yield the items of an iterator, and insert the table into the hints of errors that it raises.

    A method that returns an iterator has returned before the iterator fails, so `api_method` does
    not see its errors.
    """
    with name_table_in_errors(name):
        yield from items


@contextmanager
def name_table_in_errors(name: str | None) -> Iterator[None]:
    """Insert the table into the hints of errors that the block raises (see `name_table`)."""
    try:
        yield
    except errors.DeltacliError as error:
        name_table(error, name)
        raise


@contextmanager
def attribute_errors_to(name: str | None) -> Iterator[None]:
    """Mark errors raised in the block as errors about another table than the one whose method was called.

    Args:
        name: The other table, as opened by the caller. None leaves errors unmarked.
    """
    try:
        yield
    except errors.DeltacliError as error:
        error.table = error.table or name
        raise


def name_table(error: errors.DeltacliError, name: str | None) -> None:
    """Insert the table into the hint of an error, and into facts that contain commands.

    Args:
        error: The error. If it is already marked as an error about another table, that table is
            inserted.
        name: The table as opened by the caller. None leaves the placeholders.
    """
    if name is None:
        return
    error.table = error.table or name
    if error.hint is not None:
        error.hint = errors.fill_table(error.hint, error.table)
    for key, value in error.facts.items():
        if errors.TABLE_PLACEHOLDER in value:
            error.facts[key] = errors.fill_table(value, error.table)


def _open_as_paimon(error: errors.DeltacliError) -> None:
    """Add the option that opens a Paimon table to all commands in an error."""
    if isinstance(error.hint, errors.CommandHint):
        error.hint = error.hint.with_options(paimon=True)
    for key, value in error.facts.items():
        if isinstance(value, errors.CommandHint):
            error.facts[key] = value.with_options(paimon=True)


def _add_dry_run(hint: errors.CommandHint, table_class: type) -> str:
    """Add `dry_run=True` to a suggested call if its method has this parameter."""
    method = getattr(table_class, errors.get_method_name(hint.call.operation), None)
    if method is None or "dry_run" in hint.call.options or "dry_run" not in signature_of(method).parameters:
        return hint
    return hint.with_options(dry_run=True)


def _suggest_corrected_call(
    error: errors.DeltacliError,
    method: str,
    table: NamedTable,
    arguments: tuple[object, ...],
    options: Mapping[str, object],
) -> None:
    """Replace the hint of an error by the same call with the misspelled argument corrected.

    For example, the error for `table.read(columns=["custmer"])` suggests `customer`, so the hint
    becomes `read(columns=["customer"])`. The hint is unchanged if the error suggests nothing, or if
    the misspelled word occurs in no argument or in several ones.

    Args:
        error: The error that the call raised.
        method: Name of the method that was called.
        table: The table.
        arguments: The positional arguments of the call.
        options: The keyword arguments of the call.
    """
    if table.name is None or not hasattr(type(table), method):
        return

    # The path of the table itself may be misspelled.
    if error.code == "table.path-missing" and not error.hint and not os.path.exists(table.name):
        nearest_directory = errors.nearest_directory(table.name)
        if nearest_directory:
            error.hint = errors.format_command(errors.CommandCall(method, nearest_directory, arguments, options))
        return

    # Positional arguments are identified by their index, keyword arguments by their name.
    arguments_by_key: dict[str | int, object] = dict(enumerate(arguments))
    arguments_by_key.update(options)
    corrected = _correct_arguments(error, arguments_by_key)
    if corrected is None:
        return
    positional = tuple(value for key, value in corrected.items() if isinstance(key, int))
    keywords = {key: value for key, value in corrected.items() if isinstance(key, str) and value is not None}

    # `table.snapshot(version=3).scan(…)` is suggested as `read(…, version=3)`.
    if method == "scan":
        method = "read"
        version = getattr(table, "version", None)
        if version != getattr(table, "newest_version", None):
            keywords["version"] = version
    corrected_call = errors.CommandCall(method, table.name, positional, keywords)
    error.hint = errors.format_command(corrected_call) or error.hint


def _correct_arguments(error: errors.DeltacliError, arguments_by_key: Mapping[Key, object]) -> dict[Key, object] | None:
    """Replace the misspelled word in the arguments of a call by the word that the error suggests.

    Returns:
        The arguments by position or name. None if the error suggests nothing, or if the misspelled
        word does not occur in exactly one argument.
    """
    suggestion = _find_suggestion(error)
    if suggestion.wrong_word is None or suggestion.replacement is None:
        return None
    corrected = {key: _replace_word(value, suggestion) for key, value in arguments_by_key.items()}
    changed_keys = [key for key in arguments_by_key if corrected[key] != arguments_by_key[key]]
    return corrected if len(changed_keys) == 1 else None


class _Suggestion(NamedTuple):
    """A word in a call that is wrong, and the word to use instead. Each is None if the error does not know it."""

    wrong_word: object
    replacement: object


def _find_suggestion(error: errors.DeltacliError) -> _Suggestion:
    """Return the suggestion that an error contains: a version, a condition or a name."""
    if isinstance(error, errors.VersionAbsent):
        return _Suggestion(error.wanted, error.nearest)
    if error.code == "usage.where":
        return _Suggestion(error.facts.get("where"), error.facts.get("meant"))
    return _Suggestion(error.wrong_word, error.suggestion)


def _replace_word(value: object, suggestion: _Suggestion) -> object:
    """Replace the wrong word in an argument, also inside of lists and tuples."""
    if isinstance(value, list):
        return [_replace_word(element, suggestion) for element in value]
    if isinstance(value, tuple):
        return tuple(_replace_word(element, suggestion) for element in value)
    # `True == 1` in Python, but a flag is not a version.
    is_word = isinstance(value, str) or is_integer(value)
    return suggestion.replacement if is_word and value == suggestion.wrong_word else value


def _build_spark_call(function: str, table: str, arguments: Mapping[str, object]) -> errors.CommandLine:
    """Build a call of a function of `deltacli.spark` as a hint, such as `history(spark, 'lake/orders', limit=3)`.

    Values of `storage_options` may be secret and are replaced by `...`.
    """
    words = ["spark", repr(table)]
    for name, value in arguments.items():
        words.append(f"{name}=..." if name == "storage_options" else f"{name}={value!r}")
    return errors.CommandLine(f"{function}({', '.join(words)})")
