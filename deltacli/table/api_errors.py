"""Errors of the Python API: their hints name the table as its caller wrote it.

Operations do not know how a table was named, or whether a person or a program called them. They leave a place for the
table in a hint, and the outermost call fills it. A hint may also be the call that was made, with the version or name
that was probably meant.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from deltacli.core import errors
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_arguments import accepts_arguments, check_arguments, is_integer, require_kind, signature_of

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Key = TypeVar("Key")
Result = TypeVar("Result")


class NamedTable(Protocol):
    """A table with the name that its caller gave it. With None the caller inserts the name."""

    @property
    def name(self) -> str | None: ...


TableT = TypeVar("TableT", bound=NamedTable)


def api_method(
    method: Callable[Concatenate[TableT, Arguments], Result],
) -> Callable[Concatenate[TableT, Arguments], Result]:
    """Make a method, or a function whose first parameter is a table, one of the Python API.

    Before the call, arguments are compared with the annotations of the method. After an error, its hint is completed:
    it names the table, and is the call that was probably meant where one word of the call was wrong.
    """

    @wraps(method)
    def call(self: TableT, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        if method.__name__.startswith("plan_"):
            # A plan changes nothing, whatever `dry_run` says. Callers pass the arguments of the change on.
            options.pop("dry_run", None)
        if not accepts_arguments(method, arguments, options):
            _raise_type_error(method, self, arguments, options)
        try:
            checked, checked_options = check_arguments(method, arguments, options)
            return cast("Callable[..., Result]", method)(self, *checked, **checked_options)
        except errors.DeltacliError as error:
            _correct_call(error, method.__name__, self, arguments, options)
            name_table(error, self.name)
            if getattr(self, "is_paimon", False):
                _open_as_paimon(error)
            if options.get("dry_run") is True and isinstance(error.hint, errors.Command):
                error.hint = _add_dry_run(error.hint, type(self))
            raise

    return call


def api_function(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function of a Spark session and a table one of the Python API, as `api_method` does.

    The first parameter is the session, the second one the table: its path, its URI, or what stands for it.
    """

    @wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            by_name = signature_of(function).bind(*arguments, **options).arguments
        except TypeError:
            return function(*arguments, **options)  # Python's own error names the function

        _, table = [*by_name.values()][:2]
        others = dict([*by_name.items()][2:])
        name = mask_secrets(os.fspath(table)) if isinstance(table, str | os.PathLike) else None
        try:
            for parameter, value in others.items():
                require_kind(value, parameter, signature_of(function).parameters[parameter].annotation)
            return function(*arguments, **options)
        except errors.DeltacliError as error:
            name_table(error, name)
            corrected = None if name is None else _correct_arguments(error, others)
            if corrected is not None:
                error.hint = _call_in_spark(function.__name__, str(name), corrected)
            raise

    return call


def _raise_type_error(
    method: Callable[..., object], table: object, arguments: tuple[object, ...], options: Mapping[str, object]
) -> None:
    """Raise the TypeError of Python for a call that does not fit a method.

    Python names the class that has the method. Callers know `Table`, not the classes that it inherits from.
    """
    try:
        method(table, *arguments, **options)
    except TypeError as error:
        known_name = f"{type(table).__name__}.{method.__name__}"
        raise TypeError(str(error).replace(method.__qualname__, known_name)) from None


def iterate_naming_table(items: Iterator[Item], name: str | None) -> Iterator[Item]:
    """Yield the items. Hints of errors that are raised meanwhile name the table."""
    try:
        yield from items
    except errors.DeltacliError as error:
        name_table(error, name)
        raise


@contextmanager
def errors_about(name: str | None) -> Iterator[None]:
    """Make errors be about another table than the one whose method is called; with None, about that one."""
    try:
        yield
    except errors.DeltacliError as error:
        error.table = error.table or name
        raise


def name_table(error: errors.DeltacliError, name: str | None) -> None:
    """Insert the table that an error is about into its hint, and into facts that are commands.

    Args:
        error: The error. It keeps the table that it is about already.
        name: The table as its caller wrote it. With None nothing is inserted.
    """
    if name is None:
        return
    error.table = error.table or name
    if error.hint is not None:
        error.hint = errors.get_spelling().fill(error.hint, error.table)
    for key, value in error.facts.items():
        if errors.TABLE_PLACEHOLDER in value:
            error.facts[key] = errors.get_spelling().fill(value, error.table)


def _open_as_paimon(error: errors.DeltacliError) -> None:
    """Make the commands of an error open the table as a Paimon table."""
    if isinstance(error.hint, errors.Command):
        error.hint = error.hint.with_options(paimon=True)
    for key, value in error.facts.items():
        if isinstance(value, errors.Command) and value:
            error.facts[key] = value.with_options(paimon=True)


def _add_dry_run(hint: errors.Command, table_class: type) -> errors.Command:
    """Return a hint with `dry_run=True` if its method has that parameter: who only plans is not told to act."""
    method = getattr(table_class, errors.method_name(hint.operation), None)
    if method is None or "dry_run" in hint.options or "dry_run" not in signature_of(method).parameters:
        return hint
    return hint.with_options(dry_run=True)


def _correct_call(
    error: errors.DeltacliError,
    method: str,
    table: NamedTable,
    arguments: tuple[object, ...],
    options: Mapping[str, object],
) -> None:
    """Make the hint of an error the call that was made, with what was probably meant in place of one wrong word.

    Nothing changes where no word, or more than one, can be corrected.
    """
    if table.name is None or not hasattr(type(table), method):
        return

    # The path itself may be misspelled.
    if error.code == "table.path-missing" and not error.hint and not os.path.exists(table.name):
        nearest = errors.nearest_directory(table.name)
        if nearest:
            error.hint = errors.get_spelling().command(method, nearest, arguments, options)
        return

    by_key: dict[str | int, object] = dict(enumerate(arguments))
    by_key.update(options)
    corrected = _correct_arguments(error, by_key)
    if corrected is None:
        return
    words = tuple(value for key, value in corrected.items() if isinstance(key, int))
    named = {key: value for key, value in corrected.items() if isinstance(key, str) and value is not None}
    if method == "scan":
        # A scan is one of a version; the hint is spelled as a call of the table.
        method = "read"
        version = getattr(table, "version", None)
        if version != getattr(table, "newest_version", None):
            named["version"] = version
    error.hint = errors.get_spelling().command(method, table.name, words, named) or error.hint


def _correct_arguments(error: errors.DeltacliError, by_key: Mapping[Key, object]) -> dict[Key, object] | None:
    """Return the arguments of a call with what an error suggests in place of the one that is wrong.

    Returns:
        The arguments by their positions and names; None where the error suggests nothing, or the wrong word does not
        occur in exactly one argument.
    """
    wrong, nearest = _find_suggestion(error)
    if wrong is None or nearest is None:
        return None

    def correct(value: object) -> object:
        if isinstance(value, list):
            return [correct(element) for element in value]
        if isinstance(value, tuple):
            return tuple(correct(element) for element in value)
        is_word = isinstance(value, str) or is_integer(value)
        return nearest if is_word and value == wrong else value

    corrected = {key: correct(value) for key, value in by_key.items()}
    changed = [key for key in by_key if corrected[key] != by_key[key]]
    return corrected if len(changed) == 1 else None


def _find_suggestion(error: errors.DeltacliError) -> tuple[object, object]:
    """Return the word that an error is about, and the one that was probably meant; None where it has none."""
    if isinstance(error, errors.VersionAbsent):
        return error.wanted, error.nearest
    if error.code == "usage.where":
        return error.facts.get("where"), error.facts.get("meant")
    return error.wrong_word, error.suggestion


def _call_in_spark(function: str, table: str, arguments: Mapping[str, object]) -> errors.CommandLine:
    """Return a call of a function of `deltacli.spark` as a hint. Options of the store may be secret: they are `...`."""
    words = ["spark", repr(table)]
    for name, value in arguments.items():
        words.append(f"{name}=..." if name == "storage_options" else f"{name}={value!r}")
    return errors.CommandLine(f"{function}({', '.join(words)})")
