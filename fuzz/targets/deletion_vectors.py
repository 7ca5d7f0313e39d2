"""Deletion vector descriptors as JSON: judged, named, and named as columns."""

from __future__ import annotations

import contextlib
from typing import Any

import orjson
import pyarrow as pa

from deltacli.core.errors import DeltacliError
from deltacli.delta.data_files import find_descriptor_fault, unique_id, unique_id_column
from deltacli.delta.log.file_actions import action_schemas, build_action_batch, build_narrow_batches, compute_file_key
from fuzz.mutate import JSON_TOKENS
from fuzz.targets.collect import collect
from tests.support import strategies as some
from tests.support.actions import deletion_vector

TOKENS = (
    *JSON_TOKENS,
    b'"storageType":"p"',
    b'"storageType":"i"',
    b'"offset":0',
    b'"offset":null',
    b'"cardinality":-1',
    b'"sizeInBytes":4294967296',
    b'"pathOrInlineDv":""',
)


def seeds() -> list[bytes]:
    """Descriptors of every storage type."""
    found = [vector for vector in collect(some.vectors(), 60) if vector] + [deletion_vector(storage="p", offset=None)]
    return [orjson.dumps(vector) for vector in found]


def test_one_input(data: bytes) -> None:
    """A descriptor has a fault, or one id, whichever way that is asked for."""
    try:
        vector: Any = orjson.loads(data)  # Any: JSON values
    except orjson.JSONDecodeError:
        return
    action = {"path": "a", "size": 1, "deletionVector": vector}
    key, fault = _key(action), find_descriptor_fault(vector) if vector is not None else None
    if (key is None) != (fault is not None):
        raise AssertionError(f"fault {fault}, key {key!r}")
    narrow: Any = None  # Any: pyarrow has no types
    for read in (
        lambda: build_narrow_batches([action], [action], "source"),
        lambda: build_action_batch([action], action_schemas().add, "source"),
    ):
        with contextlib.suppress(DeltacliError):
            narrow = read() if narrow is None else narrow
    if fault is None and isinstance(narrow, tuple):
        _check_ids(vector, narrow[0].column("dv_id")[0].as_py())


def _key(action: dict[str, Any]) -> str | None:  # Any: JSON values
    try:
        return compute_file_key(action, "source")
    except DeltacliError:
        return None


def _check_ids(vector: dict[str, Any] | None, found: str) -> None:  # Any: JSON values
    fields = [("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int64())]
    by_column = None
    with contextlib.suppress(pa.ArrowException, OverflowError, UnicodeEncodeError):
        by_column = unique_id_column(pa.array([vector], pa.struct(fields)))[0].as_py()
    offset = vector.get("offset") if vector else None
    if by_column is not None and type(offset) is not bool and not unique_id(vector) == by_column == found:
        raise AssertionError(f"{unique_id(vector)!r}, {by_column!r} as a column, {found!r} in a batch")
