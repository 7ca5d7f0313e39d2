"""A schema in a file: a schema file of Paimon, a schemaString of Delta, CREATE TABLE, Parquet or Arrow."""

from __future__ import annotations

from deltacli.delta.schema.types import parse_schema
from deltacli.errors import Unreadable
from deltacli.operations.paimon.table_files import read_limited
from deltacli.operations.schemas.delta_types import fields_of_delta
from deltacli.operations.schemas.described import DescribedSchema
from deltacli.paimon.arrow_types import fields_of_arrow
from deltacli.paimon.ddl_reader import read_ddl
from deltacli.paimon.json_text import BadJson, read_object
from deltacli.paimon.losses import Loss
from deltacli.paimon.schema import CURRENT_VERSION, MAX_SCHEMA_BYTES, Schema, read_schema
from deltacli.paimon.type_strings import BadType
from deltacli.paimon.types import walk_fields
from deltacli.storage import Storage

_CODE = "schema.not-a-schema"
_ARROW_FILE, _PARQUET = b"ARROW1", b"PAR1"


def describe_file(storage: Storage, name: str) -> DescribedSchema:
    """Return the schema in a file. Raises Unreadable where it has none that is recognized, and StorageFailed."""
    uri = f"{storage.uri}/{name}"
    start = storage.read_range(name, 0, 16)
    try:
        if start.startswith((_PARQUET, _ARROW_FILE)):
            return _of_arrow(storage, name, uri, is_parquet=start.startswith(_PARQUET))
        data = read_limited(storage, name, MAX_SCHEMA_BYTES)
        if data.lstrip()[:1] == b"{":
            return _of_json(data, uri)
        schema = read_ddl(data.decode())
    except (BadType, BadJson, UnicodeDecodeError) as fault:
        raise Unreadable(f"the file has no schema: {fault}", code=_CODE, facts={"expected": _EXPECTED}) from None
    return DescribedSchema(uri, "paimon", {}, schema, _stem(name), properties=dict(schema.options))


_EXPECTED = "a schema file of Paimon, a schemaString of Delta, CREATE TABLE of Flink SQL, Parquet, or Arrow IPC"


def _of_json(data: bytes, uri: str) -> DescribedSchema:
    content = read_object(data).value
    if content.get("type") == "struct":
        losses: list[Loss] = []
        struct = parse_schema(data.decode())
        columns = fields_of_delta(struct.fields, losses.append)
        schema = Schema(CURRENT_VERSION, 0, columns, max((c.id for _, c in walk_fields(columns)), default=-1))
        return DescribedSchema(uri, "delta", {}, schema, _stem(uri), tuple(losses), struct)
    schema = read_schema(data)
    return DescribedSchema(uri, "paimon", {}, schema, _stem(uri), properties=dict(schema.options))


def _of_arrow(storage: Storage, name: str, uri: str, *, is_parquet: bool) -> DescribedSchema:
    import pyarrow as pa

    from deltacli.arrow.parquet import ParquetReader

    losses: list[Loss] = []
    try:
        with storage.open(name) as source:
            found = ParquetReader(source).schema_arrow if is_parquet else pa.ipc.open_file(source).schema
    except (pa.ArrowException, OSError, ValueError) as fault:
        reason = (str(fault).splitlines() or [type(fault).__name__])[0]
        raise Unreadable(f"the file cannot be read: {reason[:200]}", code=_CODE) from fault
    columns = fields_of_arrow(found, losses.append)
    schema = Schema(CURRENT_VERSION, 0, columns, max((c.id for _, c in walk_fields(columns)), default=-1))
    return DescribedSchema(uri, "paimon", {}, schema, _stem(name), tuple(losses))


def _stem(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].partition(".")[0] or "t"
