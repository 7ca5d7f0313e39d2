"""Whether the files of the target keep what the table demands now and did not then: of rows, and of partitions where
only some come back.

Spec: Struct Field; CHECK Constraints; Column Invariants; Generated Columns; Partition Value Serialization; Column
Mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.core.errors import Refusal, command
from deltacli.core.units import plural
from deltacli.delta.log.state import TableConfiguration, is_true
from deltacli.delta.schema import types
from deltacli.operations.restore.difference import Difference
from deltacli.table.constraints import (
    CHECKED_ADD_FIELDS,
    UNREADABLE_ROWS,
    ConstraintCheck,
    ConstraintViolations,
    RowConstraint,
    find_new_constraints,
)
from deltacli.table.file_keys import read_selected_adds
from deltacli.table.partition_condition import Mask

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

_ID = "delta.columnMapping.id"
_ICEBERG = tuple(f"delta.enableIcebergCompatV{number}" for number in (1, 2, 3))


def refusals_of_demands(
    now: Snapshot, target: Snapshot, found: Difference, where: Mask, sources: Sequence[str]
) -> Iterator[Refusal]:
    """Yield the demands of now that files of the target which come back violate, or may violate because their rows
    cannot be judged. `sources` are where files are brought from. Raises StorageFailed.
    """
    demands = find_new_constraints(now.config, target.config)
    if not demands or not found.added_amount.files:
        return
    check = ConstraintCheck(now.table, now.config, demands)
    with now.table.progress.step("checking constraints", unit="files", total=found.added_amount.files) as step:
        for adds in read_selected_adds(target, found.target.keys, found.added, where, CHECKED_ADD_FIELDS):
            check.check_files(adds)
            step.advance(adds.num_rows)
    brings = command("undelete", version=target.version, sources=list(sources), dry_run=True) if sources else ""
    for demand, one in check.violations.items():
        if one.files:
            yield _violated(demand, one, target.version)
        if one.unchecked_files:
            yield _open(demand, one, target.version, brings)


def _violated(demand: RowConstraint, found: ConstraintViolations, version: int) -> Refusal:
    count = len(found.files)
    noun = "null" if isinstance(demand.owner, str) else "row"
    rows = f"{noun}s" if found.rows is None else plural(found.rows, noun)
    verb = "violates" if found.rows == 1 else "violate"
    example = "" if found.first is None else f": {found.first}"
    return Refusal(
        "restore.constraint",
        f"{rows} in {plural(count, 'file')} of version {version} {verb} {demand}, first in {found.files[0]}{example}",
        "drop the constraint first, or write the other rows with an engine, which checks them",
        files=tuple(found.files),
    )


def _open(demand: RowConstraint, found: ConstraintViolations, version: int, brings: str) -> Refusal:
    count = len(found.unchecked_files)
    first = found.unchecked_files[0]
    return Refusal(
        "restore.constraint",
        f"{plural(count, 'file')} of version {version} may violate {demand}, first {first}: {found.reason}",
        brings
        if brings and found.reason == UNREADABLE_ROWS
        else "drop the constraint first, or write these rows with an engine",
        files=tuple(found.unchecked_files),
    )


def differences(now: TableConfiguration, target: TableConfiguration, version: int) -> Iterator[Refusal]:
    """Yield why files of the target cannot be files of the table as it is now."""
    found = _first_difference(now, target)
    if found is not None:
        yield Refusal(
            "restore.schema-differs",
            f"the files of version {version} do not fit the current schema: {found}",
            "restore the whole table, or write these partitions with an engine",
        )


def _first_difference(now: TableConfiguration, target: TableConfiguration) -> str | None:
    if lost := sorted(target.features - now.features):
        return f"the table supported {', '.join(lost)} and no longer does"
    if new := [key for key in _ICEBERG if is_true(now.properties, key) and not is_true(target.properties, key)]:
        return f"{new[0]} is true and was not then"
    if now.mapping_mode != target.mapping_mode:
        return f"column mapping was {target.mapping_mode} and is {now.mapping_mode}"
    if list(now.partition_columns) != list(target.partition_columns):
        listed = (", ".join(one.partition_columns) or "nothing" for one in (target, now))
        return "it was partitioned by {} and is now partitioned by {}".format(*listed)
    then, ours = (one.schema.fields if one.schema else () for one in (target, now))
    return _difference_of_fields(then, ours, "", now.mapping_mode)


def _difference_of_fields(
    then: tuple[types.StructField, ...], now: tuple[types.StructField, ...], path: str, mode: str
) -> str | None:
    """Return the first field whose type or mapping differs. A field that only one of both has is null in files."""
    by_id = {field.metadata[_ID]: field for field in then if _ID in field.metadata}
    by_name = {field.name.lower(): field for field in then}
    for field in now:
        place = f"{path}.{field.name}".lstrip(".")
        named = by_name.get(field.name.lower())
        old = by_id.get(field.metadata.get(_ID)) or named
        if named is not None and named.metadata.get(_ID) != field.metadata.get(_ID):
            return f"{place} is a different column now, with another mapping id"
        if old is None:
            continue
        stored = [types.physical_name(one, mode) for one in (old, field)]
        if stored[0].lower() != stored[1].lower():
            return f"{place} was stored as {stored[0]} and is now stored as {stored[1]}"
        if (found := _difference_of_types(old.data_type, field.data_type, place, mode)) is not None:
            return found
    return None


def _difference_of_types(then: types.DataType, now: types.DataType, path: str, mode: str) -> str | None:
    match then, now:
        case types.StructType(old), types.StructType(new):
            return _difference_of_fields(old, new, path, mode)
        case types.ArrayType(old_element, _), types.ArrayType(new_element, _):
            return _difference_of_types(old_element, new_element, f"{path}.element", mode)
        case types.MapType(old_key, old_value, _), types.MapType(new_key, new_value, _):
            return _difference_of_types(old_key, new_key, f"{path}.key", mode) or _difference_of_types(
                old_value, new_value, f"{path}.value", mode
            )
        case _ if then == now:
            return None
    return f"{path} was {types.simple_name(then)} and is {types.simple_name(now)}"
