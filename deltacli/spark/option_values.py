"""Values of options of the data sources, read and checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from deltacli.errors import UsageError
from deltacli.hints import nearest_name
from deltacli.units import EPOCH, parse_size

LATEST = "latest"
OptionReader = Callable[[str, str], Any]  # Any: the value of the field
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def bad_option(name: str, value: str, expected: str) -> UsageError:
    """Return the error for a value of an option."""
    return UsageError(
        f"option {name} is {value!r}",
        code="usage.stream-option",
        facts={"expected": expected},
        hint=f'.option("{name}", …)',
    )


def flag(name: str, value: str) -> bool:
    """Return True or False. Raises UsageError, as every function here does."""
    if value.strip().lower() not in ("true", "false"):
        raise bad_option(name, value, "true or false")
    return value.strip().lower() == "true"


def text(name: str, value: str) -> str:
    """Return a text that is not empty."""
    if not value.strip():
        raise bad_option(name, value, "a text")
    return value


def names(name: str, value: str) -> tuple[str, ...]:
    """Return names of columns: separated by commas, or a JSON array, which may have names with commas."""
    found: Any = [part.strip() for part in value.split(",")]
    if value.lstrip().startswith("["):
        try:
            found = json.loads(value)
        except ValueError:
            found = [None]
    if not found or not all(isinstance(one, str) and one for one in found):
        raise bad_option(name, value, 'names of columns: a,b or ["a", "b"]')
    return tuple(found)


def version_number(name: str, value: str) -> int:
    """Return a version."""
    if not re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII):
        raise bad_option(name, value, "a version, 0 or more")
    return int(value)


def version_or_latest(name: str, value: str) -> int | str:
    """Return a version, or `latest`."""
    if value.strip().lower() == LATEST:
        return LATEST
    try:
        return version_number(name, value)
    except UsageError:
        raise bad_option(name, value, "a version, 0 or more, or latest") from None


def count_of_files(name: str, value: str) -> int:
    """Return a number above 0."""
    if not re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII) or int(value) == 0:
        raise bad_option(name, value, "a number of files, 1 or more")
    return int(value)


def size_in_bytes(name: str, value: str) -> int:
    """Return a number of bytes above 0."""
    try:
        # Spark reads `10g` and `10gb` as `10GiB`.
        spelled = re.sub(r"(?i)^\s*(\d+(?:\.\d+)?)\s*([kmgtp])b?\s*$", r"\1\2iB", value)
        found = parse_size(spelled)
    except UsageError:
        found = 0
    if found <= 0:
        raise bad_option(name, value, "a size, such as 512m or 10GiB")
    return found


def moment(name: str, value: str) -> int:
    """Return epoch milliseconds of a date, which is midnight UTC, or of a time with its zone.

    Spark's own sources use the zone of the session, which a Python data source does not know.
    """
    text = value.strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise bad_option(name, value, "a date, or a time with its zone: 2026-01-31T08:00:00Z") from None
    if _DAY.fullmatch(text):
        found = found.replace(tzinfo=UTC)
    if found.utcoffset() is None:
        raise bad_option(name, value, f"a time with its zone: {text}Z")
    return int((found - EPOCH).total_seconds() * 1000)


def prefixes(name: str, value: str) -> tuple[str, ...]:
    """Return one prefix, or those in a JSON array, as Spark writes lists of paths."""
    found: Any = [value]
    if value.lstrip().startswith("["):
        try:
            found = json.loads(value)
        except ValueError:
            found = [None]
    if not all(isinstance(prefix, str) and prefix for prefix in found):
        raise bad_option(name, value, 'a path or a URI, or a JSON array of them: ["s3://lake/other"]')
    for prefix in found:
        require_absolute(f"the prefix {prefix}", prefix, f'.option("{name}", os.path.abspath({prefix!r}))')
    return tuple(found)


def require_absolute(what: str, path: str, hint: str) -> None:
    """Raise UsageError for a path that depends on the process that opens it."""
    local = re.sub(r"^file:(//[^/]*)?", "", path, flags=re.IGNORECASE)
    if "://" not in local and not os.path.isabs(local):
        raise UsageError(
            f"{what} is relative, and processes of Spark have other working directories",
            code="usage.stream-option",
            facts={"expected": "an absolute path, or a URI"},
            hint=hint,
        )


def path_of(options: Mapping[str, str], hint: str) -> str:
    """Return what was given to `load`."""
    path = next((value for name, value in options.items() if name.lower() == "path"), "")
    if not path:
        raise UsageError("the table is missing", code="usage.stream-option", hint=hint)
    return path


def given_options(
    options: Mapping[str, str],
    known: Mapping[str, object],
    every: Mapping[str, object],
    where: str,
    also: tuple[str, ...] = (),
) -> dict[str, str]:
    """Return the options by the names in `known`: Spark ignores the case of options. Raises UsageError for others.

    `every` has the names of all readers of the source, and `also` is what an error names as options besides.
    """
    by_name = {name.lower(): name for name in known}
    found = {}
    for name, value in options.items():
        if name.lower() == "path":
            continue
        if name.lower() not in by_name:
            raise _unknown(name, known, every, where, also)
        found[by_name[name.lower()]] = str(value)
    return found


def _unknown(
    name: str, known: Mapping[str, object], every: Mapping[str, object], where: str, also: tuple[str, ...]
) -> UsageError:
    """Return the error for an option that a reader does not have. Which one it is, Spark tells too late to suggest
    options of this one only.
    """
    is_of_the_other = name.lower() in {other.lower() for other in every}
    near = None if is_of_the_other else nearest_name(name, every, ignores_case=True)
    return UsageError(
        f"{where if is_of_the_other else 'the data source'} has no option {name}",
        code="usage.stream-option",
        facts={"did you mean": near} if near else {"options": ", ".join((*known, *also))},
    )


def fields_of(given: Mapping[str, str], known: Mapping[str, tuple[str, OptionReader]]) -> dict[str, Any]:
    """Return the fields of the given options, their values read."""
    return {known[name][0]: known[name][1](name, value) for name, value in given.items()}


def require_one(given: Mapping[str, str], one: str, other: str) -> None:
    """Raise UsageError where both options are given."""
    if one in given and other in given:
        raise UsageError(f"{one} and {other} exclude each other", code="usage.stream-option")
