"""Options that name columns, in their key or in their value.

A column keeps its id when it is renamed, and the options that name it get its new name. So an option of two schemas is
the same one if it names the same columns, whatever their names: each text is read with the columns of its own schema.

    schema 0: column 0 is id     bucket-key = id      fields.v.sequence-group = s
    schema 1: column 0 is key    bucket-key = key     fields.v.sequence-group = s    -> the bucket key has not changed
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.paimon.schema import Schema
from deltacli.paimon.types import DataField

BLOB_OPTIONS = (
    "blob-field",
    "blob-descriptor-field",
    "blob-view-field",
    "blob-external-storage-field",
    "vector-field",
)
"""Options that list BLOB and VECTOR columns."""

_ONE_COLUMN = ("record-level.time-field", "rowkind.field")
"""Options whose whole value is the name of a column, which can have commas."""

_LISTS = (
    "bucket-key",
    "sequence.field",
    "clustering.columns",
    "upsert-key",
    "partial-update.remove-record-on-sequence-group",
    "changelog-producer.row-deduplicate-ignore-fields",
    *BLOB_OPTIONS,
)
"""Options whose value is a list of columns."""
_INDEX = re.compile(r"file-index\.[^.]+\.columns")

FIELDS = "fields."
SEQUENCE_GROUP = ".sequence-group"
NESTED_KEY = ".nested-key"


class ColumnOption(NamedTuple):
    """An option that names columns.

    Attributes:
        key: The key as it is written.
        key_columns: The columns in the key: `fields.a,b.sequence-group` has two.
        ending: What follows the columns in the key.
        value_columns: The columns in the value, empty if it names none.
    """

    key: str
    key_columns: tuple[str, ...] = ()
    ending: str = ""
    value_columns: tuple[str, ...] = ()

    def replace_columns(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> ColumnOption:
        """Return the option with other columns in its key and in its value."""
        names = change(self.key_columns)
        key = f"{FIELDS}{','.join(names)}{self.ending}" if self.key_columns else self.key
        return ColumnOption(key, names, self.ending, change(self.value_columns))


def parse_column_options(options: Mapping[str, str]) -> Iterator[ColumnOption]:
    """Yield the options that name columns of the table."""
    for key, value in options.items():
        if key in _ONE_COLUMN:
            yield ColumnOption(key, value_columns=(value,))
        elif key in _LISTS or _INDEX.fullmatch(key):
            yield ColumnOption(key, value_columns=tuple(value.split(",")))
        elif key.startswith(FIELDS):
            yield from _parse_field_option(key, value)


def _parse_field_option(key: str, value: str) -> Iterator[ColumnOption]:
    middle = key.removeprefix(FIELDS)
    # The keys of these two can name several columns.
    ending = next((ending for ending in (SEQUENCE_GROUP, NESTED_KEY) if middle.endswith(ending)), None)
    if ending is not None:
        names = tuple(middle.removesuffix(ending).split(","))
        # The value of nested-key names fields inside the column, not columns.
        value_columns = tuple(value.split(",")) if ending == SEQUENCE_GROUP else ()
        yield ColumnOption(key, names, ending, value_columns)
        return

    # `fields.default-aggregate-function` names no column; options of maps have an ending of two words.
    name, dot, last = middle.rpartition(".")
    if name.endswith(".map"):
        name = name.removesuffix(".map")
        last = f"map.{last}"
    if dot:
        yield ColumnOption(key, (name,), f".{last}")


def find_options_naming(options: Mapping[str, str], column: str) -> Iterator[str]:
    """Yield the keys of the options that name a column of the table."""
    for option in parse_column_options(options):
        if column in (*option.key_columns, *(name.strip() for name in option.value_columns)):
            yield option.key


def is_indexed(options: Mapping[str, str], column: str) -> bool:
    """Return True for a column with an index in data files, which names it."""
    return any(_INDEX.fullmatch(key) for key in find_options_naming(options, column))


# Comparison of two schemas

_Token = int | str | None
"""Stands for a column in comparisons: a number if both schemas have it, None if only one does; else an unknown name."""


class OptionIdentity(NamedTuple):
    """What an option sets, independent of the names of columns.

    Attributes:
        key: The key without the names of columns.
        key_columns: The columns in the key.
        value: The value, None if it names columns.
        value_columns: The columns in the value.
    """

    key: str
    key_columns: tuple[_Token, ...] = ()
    value: str | None = None
    value_columns: tuple[_Token, ...] = ()

    @property
    def is_in_both_schemas(self) -> bool:
        """True if both schemas have all the columns that the option names."""
        return None not in (*self.key_columns, *self.value_columns)

    @property
    def names_known_columns(self) -> bool:
        """True if each name is that of a column of the schema that has the option."""
        return not any(isinstance(token, str) for token in (*self.key_columns, *self.value_columns))


class ColumnTokens:
    """The columns of one of two schemas by their names, comparable with those of the other schema."""

    def __init__(self, fields: Sequence[DataField], shared: Sequence[DataField]) -> None:
        """Number the columns of a schema.

        Args:
            fields: The columns of the schema.
            shared: Those that the other schema has, too, in an order that both share.
        """
        self._tokens: dict[str, _Token] = dict.fromkeys((field.name for field in fields), None)
        self._tokens |= {field.name: number for number, field in enumerate(shared)}

    def find(self, names: Sequence[str]) -> tuple[_Token, ...]:
        """Return what stands for columns. Most options allow blanks around a name."""
        found = (name if name in self._tokens else name.strip() for name in names)
        return tuple(self._tokens.get(name, name) for name in found)

    def identify(self, options: Mapping[str, str]) -> dict[str, OptionIdentity]:
        """Return the identity of each option of the schema, by its key."""
        identities = {key: OptionIdentity(key, value=value) for key, value in options.items()}
        for option in parse_column_options(options):
            columns = self.find(option.key_columns)
            if option.value_columns:
                value_columns = self.find(option.value_columns)
                identities[option.key] = OptionIdentity(
                    option.ending or option.key, columns, value_columns=value_columns
                )
            else:
                identities[option.key] = OptionIdentity(option.ending, columns, options[option.key])
        return identities


class OptionComparison:
    """Which options of two schemas are the same, although a column that they name was renamed.

    Attributes:
        before: The columns of the earlier schema.
        after: The columns of the later one.
    """

    def __init__(self, before: Schema, after: Schema, pairs: Sequence[tuple[DataField, DataField]]) -> None:
        """Compare the options of two schemas.

        Args:
            before: The earlier schema.
            after: The later one.
            pairs: The columns that both have, as they are in each.
        """
        self.before = ColumnTokens(before.fields, [old for old, _ in pairs])
        self.after = ColumnTokens(after.fields, [new for _, new in pairs])
        self._identities_before = self.before.identify(before.options)
        self._identities_after = self.after.identify(after.options)
        kept = set(self._identities_before.values()) & set(self._identities_after.values())
        self._kept = {identity for identity in kept if identity.is_in_both_schemas}

    def is_kept(self, key: str, *, is_removed: bool) -> bool:
        """Return True for an option that the other schema has, too, with other names of the same columns.

        Args:
            key: The key of the option: in the earlier schema if it is removed, otherwise in the later one.
            is_removed: True if the later schema does not have the key.
        """
        identities = self._identities_before if is_removed else self._identities_after
        return identities[key] in self._kept

    def are_same_columns(self, before: Sequence[str], after: Sequence[str]) -> bool:
        """Return whether names of the earlier and of the later schema are those of the same columns.

        Equal names are those of the same columns unless they are known to be those of others.
        """
        old = OptionIdentity("", self.before.find(before))
        new = OptionIdentity("", self.after.find(after))
        if old == new and old.is_in_both_schemas:
            return True
        is_known = old.names_known_columns and new.names_known_columns
        return tuple(before) == tuple(after) and not is_known

    def names_other_columns(self, key: str) -> bool:
        """Return True for an option of both schemas whose names are now those of other columns.

        A name that was of no column, or no longer is, proves nothing: the rules about one schema report it.
        """
        old = self._identities_before.get(key)
        new = self._identities_after.get(key)
        if old is None or new is None:
            return False
        is_same = old == new and old.is_in_both_schemas
        return not is_same and old.names_known_columns and new.names_known_columns
