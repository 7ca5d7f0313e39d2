"""Options of a command that are made from the fields of a request, and the request that is made of their values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import typer

from deltacli.core.errors import UsageError
from deltacli.core.patterns import pattern
from deltacli.core.request_fields import Kind, Option, spellings_of
from deltacli.core.units import parse_duration, parse_names, parse_share, parse_versions

Request = TypeVar("Request")

_NAME = pattern(r"\s*`(?:[^`]|``)*`\s*(?=,|$)|[^,]+")
_RATE = pattern(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/s")


class Asked(Generic[Request]):
    """The values of the options of a request, as on the command line."""

    def __init__(self, request: type[Request], values: Mapping[str, Any]) -> None:  # Any: values parsed by typer
        self._request = request
        self.values = values
        """Field -> its value, for the options that were given."""

    def given(self, *, but: Iterable[str] = ()) -> list[str]:
        """Return the spellings of the options that were given, in order, without those of some fields."""
        left_out = {*but}
        return [_spelled(one) for one in fields(self._request) if one.name in self.values.keys() - left_out]  # type: ignore[arg-type]

    def request(self) -> Request:
        """Return the request. Raises UsageError for invalid values and combinations."""
        found = {one.name: self._read(one) for one in fields(self._request) if one.name in self.values}  # type: ignore[arg-type]
        return self._request(**found)

    def _read(self, one: Field[Any]) -> Any:  # Any: a field, and its value
        read = _READERS.get(one.metadata["option"].kind) if one.metadata else None
        value = self.values[one.name]
        return value if read is None else read(value, _spelled(one))


Parameters = Mapping[str, inspect.Parameter]


def options_of(hint: object) -> Parameters | None:
    """Return the options for a parameter that is a request, or what was asked of one; None for another parameter.

    A field without an option, or a hint that declares one, is for the Python API only.
    """
    request = _request_of(hint)
    if request is None:
        return None
    hints = get_type_hints(request, include_extras=True)
    found = {}
    for one in fields(request):
        if one.metadata:
            found[one.name] = parameter_of(one.name, one.metadata["option"], hints[one.name], one.default)
        elif get_origin(hints[one.name]) is Annotated:
            found[one.name] = declared(one.name, hints[one.name], one.default)
    return found


def made_of(hint: object, options: Parameters, values: Mapping[str, Any]) -> Any:  # Any: values parsed by typer
    """Return the argument for a parameter of `options_of`. Raises UsageError where it is a request."""
    request = _request_of(hint)
    assert request is not None
    given = {name: values[name] for name, option in options.items() if _is_given(values[name], option)}
    asked = Asked(request, given)
    return asked if get_origin(hint) is Asked else asked.request()


def given_of_one_format(options: Iterable[inspect.Parameter], values: Mapping[str, object]) -> dict[str, str]:
    """Return the given options that work on one format only, as they are spelled, with the format."""
    found = {}
    for option in options:
        declared: Sequence[Any] = getattr(option.annotation, "__metadata__", ())
        value = values[option.name]
        if len(declared) > 1 and _is_given(value, option):
            spelled, _, negated = declared[0].default.partition("/")  # typer keeps the first name there
            found[negated if value is False else spelled] = declared[1]
    return found


def _is_given(value: object, option: inspect.Parameter) -> bool:
    return value is not option.default and value != []


def _request_of(hint: object) -> type[Any] | None:  # Any: a dataclass
    found = get_args(hint)[0] if get_origin(hint) is Asked else hint
    return found if isinstance(found, type) and is_dataclass(found) else None


def _spelled(one: Field[Any]) -> str:
    return spellings_of(one.name, one.metadata["option"])[-1]


def declared(name: str, hint: Any, default: object) -> inspect.Parameter:
    """Return the parameter for a hint, which may have an `Option`, or the words of typer."""
    if get_origin(hint) is Annotated:
        kind, option, *table_format = get_args(hint)
        if isinstance(option, Option):
            found = option._replace(table_format=table_format[0]) if table_format else option
            return parameter_of(name, found, kind, default)
    return _keyword(name, hint, default)


def _keyword(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def parameter_of(name: str, option: Option, hint: Any, default: object = None) -> inspect.Parameter:
    """Return the parameter that typer makes an option of. Unless its default is shown, it has none."""
    kind = _type_of(option, hint)
    shows_default = option.shows_default or kind is bool
    settings = typer.Option(
        *spellings_of(name, option),
        metavar=option.metavar,
        help=option.meaning,
        min=1 if option.kind is Kind.COUNT else option.least,
        count=option.is_counted,
        hidden=option.is_hidden,
        show_default=shows_default,
    )
    if option.kind is Kind.OPPOSITE:
        default = False
    elif not (shows_default or option.is_counted or default is inspect.Parameter.empty):
        default = None
    marked = Annotated[kind, settings, option.table_format] if option.table_format else Annotated[kind, settings]
    return _keyword(name, marked, default)


def _type_of(option: Option, hint: Any) -> Any:  # Any: annotations
    if option.kind is None:
        return hint
    return option.choices | None if option.choices else _TYPES.get(option.kind, str | None)


_TYPES: Mapping[Kind, Any] = {  # Any: annotations
    Kind.COUNT: int | None,
    Kind.OPPOSITE: bool,
    **dict.fromkeys((Kind.TEXTS, Kind.VERSIONS, Kind.PATTERNS, Kind.COLUMNS, Kind.COMMIT_METADATA), list[str] | None),
}


def _read_text(text: str, option: str) -> str:
    if not text.strip():
        raise UsageError(f"{option} is empty")
    return text


def _read_texts(texts: Sequence[str], option: str) -> tuple[str, ...]:
    return tuple(_read_text(text, option) for text in texts)


def _read_names(texts: Sequence[str], option: str) -> tuple[str, ...]:
    return tuple(name for text in texts for name in parse_names(text, option))


def split_columns(columns: str, option: str) -> list[str]:
    """Return names of columns; backticks quote a name with a comma. Raises UsageError for an empty list."""
    how = {"code": "usage.column", "hint": "deltacli snapshot {table} --schema"}
    return [_unquoted(name) for name in parse_names(columns, option, _NAME, **how)]


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if len(name) > 2 and name[0] == "`" == name[-1] else name


def _read_share(text: str, option: str) -> float:
    try:
        return parse_share(text)
    except ValueError as fault:
        wrong = UsageError(f"{option} {fault}", code="usage.sample", facts={"expected": "more than 0%, up to 100%"})
        if re.fullmatch(r"[1-9][0-9]?|100", text):
            wrong.meaning(text, f"{text}%")
        raise wrong from fault


def _read_rate(text: str, option: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"{option} {text} is not a rate", facts={"expected": Kind.RATE.value})
    return float(found[1])


def _read_commit_metadata(texts: Sequence[str], _option: str) -> Mapping[str, str]:
    from deltacli.delta.log.commit_metadata import parse_commit_metadata

    return parse_commit_metadata(texts)


_READERS: Mapping[Kind, Callable[[Any, str], object]] = {  # Any: values parsed by typer
    Kind.TEXT: _read_text,
    Kind.TEXTS: _read_texts,
    Kind.DURATION: lambda text, option: parse_duration(text, option, "m" if option == "--time-budget" else None),
    Kind.VERSIONS: lambda texts, option: parse_versions(",".join(texts), option),
    Kind.PATTERNS: _read_names,
    Kind.COLUMNS: _read_names,
    Kind.NAMES: split_columns,
    Kind.SHARE: _read_share,
    Kind.RATE: _read_rate,
    Kind.OPPOSITE: lambda value, _option: not value,
    Kind.COMMIT_METADATA: _read_commit_metadata,
}
