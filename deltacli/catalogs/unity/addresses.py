"""Addresses of tables in a catalog: `uc://CATALOG.SCHEMA.TABLE`, and those of a catalog and a schema.

Names are taken as they are written, without any escapes.
"""

from __future__ import annotations

from typing import NamedTuple

from deltacli.catalogs.base import TableName
from deltacli.core.errors import UsageError
from deltacli.core.units import plural

SCHEME = "uc://"
CODE = "usage.catalog"
FORM = "uc://CATALOG.SCHEMA.TABLE"
_LONGEST = 255
_SPECIAL = frozenset("*?[")


class Container(NamedTuple):
    """A catalog, or one of its schemas, and a pattern for the names of tables in it."""

    catalog: str
    schema: str | None = None
    pattern: str = "*"

    def __str__(self) -> str:
        return SCHEME + ".".join(filter(None, (self.catalog, self.schema)))


def is_address(text: str) -> bool:
    """Return True for a text that begins as an address of a catalog."""
    return text[: len(SCHEME)].lower() == SCHEME


def parse_table(text: str) -> TableName:
    """Return the three names of an address. Raises UsageError for any other text."""
    names = _names(text, FORM)
    if len(names) != 3:
        raise _not_an_address(text, f"it has {plural(len(names), 'name')} instead of three", FORM)
    if any(_SPECIAL & {*name} for name in names):
        raise UsageError(
            f"{text} is a pattern, and this takes the address of one table", code=CODE, facts={"expected": FORM}
        )
    return TableName(*names)


def parse_container(text: str) -> Container:
    """Return a catalog, or a schema. Raises UsageError for any other text."""
    names = _names(text, form := "uc://CATALOG or uc://CATALOG.SCHEMA")
    if len(names) > 2 or any(_SPECIAL & {*name} for name in names):
        raise _not_an_address(text, "it names neither a catalog nor a schema", form)
    return Container(*names)


def parse_pattern(text: str) -> Container:
    """Return the schema of a pattern such as `uc://C.S.*`, with the pattern of its last name. Raises UsageError."""
    names = _names(text, form := "uc://CATALOG.SCHEMA.PATTERN")
    if len(names) != 3 or any(_SPECIAL & {*name} for name in names[:2]):
        raise _not_an_address(text, "only the last of its three names may be a pattern", form)
    return Container(*names)


def _names(text: str, form: str) -> list[str]:
    names = text[len(SCHEME) :].split(".")
    if not is_address(text):
        raise _not_an_address(text, f"it does not begin with {SCHEME}", form)
    for name in names:
        if not name:
            raise _not_an_address(text, "a name is empty", form)
        if not name.isprintable() or any(letter.isspace() or letter in "/\\" for letter in name):
            raise _not_an_address(text, "a name has a space, a slash or a character that is not printable", form)
        if len(name) > _LONGEST:
            raise _not_an_address(text[:80], f"a name has more than {_LONGEST} characters", form)
    return names


def _not_an_address(text: str, why: str, form: str) -> UsageError:
    return UsageError(f"{text} is not an address of a catalog: {why}", code=CODE, facts={"expected": form})
