"""Builds small Paimon tables: schemas, snapshots, tags and Avro manifests, on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Self

from deltacli.core.errors import PermissionRefused
from deltacli.storage import LocalStorage

Json = dict[str, Any]  # Any: JSON values

_STATISTICS = {
    "type": "record",
    "name": "record_STATS",
    "fields": [{"name": "_MIN_VALUES", "type": "bytes"}, {"name": "_MAX_VALUES", "type": "bytes"}],
}
_LIST = {
    "type": "record",
    "name": "ManifestFileMeta",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_PARTITION_STATS", "type": _STATISTICS},
        {"name": "_SCHEMA_ID", "type": "long"},
    ],
}
_ENTRY = {
    "type": "record",
    "name": "ManifestEntry",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {
            "name": "_FILE",
            "type": {
                "type": "record",
                "name": "DataFileMeta",
                "fields": [
                    {"name": "_FILE_NAME", "type": "string"},
                    {"name": "_SCHEMA_ID", "type": "long"},
                    {"name": "_LEVEL", "type": "int"},
                ],
            },
        },
    ],
}


def field(number: int, name: str, data_type: Any, **more: Any) -> Json:  # Any: JSON values
    """Return a field of a schema file."""
    return {"id": number, "name": name, "type": data_type, **more}


ID = field(0, "id", "BIGINT NOT NULL")
NAME = field(1, "name", "STRING")
PRICE = field(2, "price", "DECIMAL(10, 2)")


class AsUser(LocalStorage):
    """A table read without the rights of root: files of mode 000 are refused."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        place = Path(self.root, path)
        if place.exists() and not place.stat().st_mode & 0o777:
            raise PermissionRefused(f"{path}: permission denied")
        return super().read_range(path, offset, length)


class PaimonBuilder:
    """A table in a directory. Times are a second apart, in the order of the calls."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._clock = 1_700_000_000_000
        self._next_schema = 0
        self._next_snapshot = 1

    def _tick(self) -> int:
        self._clock += 1_000
        return self._clock

    def write(self, path: str, content: object) -> Self:
        """Write a file, as JSON unless it is bytes."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else json.dumps(content, indent=2).encode())
        return self

    def schema(self, *fields: Json, prefix: str = "", **changes: Any) -> Self:  # Any: JSON values
        """Write the next schema; `changes` replace keys, None removes one."""
        number = changes.get("id", self._next_schema)
        content = self.content(list(fields) or [ID, NAME], **{"id": number, "timeMillis": self._tick()} | changes)
        self._next_schema = number + 1
        return self.write(f"{prefix}schema/schema-{number}", content)

    @staticmethod
    def content(fields: list[Json], **changes: Any) -> bytes:  # Any: JSON values
        """Return a schema file; `changes` replace keys, None removes one."""
        content: Json = {
            "version": 3,
            "id": 0,
            "fields": fields,
            "highestFieldId": 9,
            "partitionKeys": [],
            "primaryKeys": ["id"],
            "options": {"bucket": "2"},
            "timeMillis": 0,
        }
        merged = {key: value for key, value in (content | changes).items() if value is not None}
        return json.dumps(merged, indent=2).encode()

    def snapshot(
        self,
        schema_id: int,
        *,
        adds: Mapping[str, int] | None = None,
        deletes: Mapping[str, int] | None = None,
        prefix: str = "",
        **changes: Any,  # Any: JSON values
    ) -> Self:
        """Write the next snapshot. `adds` and `deletes`: names of data files in its delta, and their schemas. Its base
        are the manifests of the snapshot before.
        """
        number = self._next_snapshot
        manifests = []
        entries = [*_entries(adds, 0), *_entries(deletes, 1)]
        if entries:
            self.write(f"manifest/manifest-{number}", avro(_ENTRY, entries))
            manifests.append(f"manifest-{number}")
        base = [f"manifest-{n}" for n in range(1, number) if (self.root / f"manifest/manifest-{n}").exists()]
        content = {
            "version": 3,
            "id": number,
            "schemaId": schema_id,
            "baseManifestList": self._list(f"manifest-list-{number}-0", base, schema_id),
            "deltaManifestList": self._list(f"manifest-list-{number}-1", manifests, schema_id),
            "commitUser": "u",
            "commitIdentifier": number,
            "commitKind": "APPEND",
            "timeMillis": self._tick(),
            "totalRecordCount": 10 * number,
            "deltaRecordCount": 10,
        }
        self._next_snapshot += 1
        return self.write(f"{prefix}snapshot/snapshot-{number}", content | changes)

    def _list(self, name: str, manifests: Sequence[str], schema_id: int) -> str:
        rows = [_manifest(manifest, schema_id) for manifest in manifests]
        self.write(f"manifest/{name}", avro(_LIST, rows))
        return name

    def tag(self, name: str, snapshot: int) -> Self:
        """Tag a snapshot."""
        return self.write(f"tag/tag-{name}", (self.root / f"snapshot/snapshot-{snapshot}").read_bytes())

    def without(self, *paths: str) -> Self:
        """Delete files."""
        for path in paths:
            (self.root / path).unlink()
        return self


def _manifest(name: str, schema_id: int) -> Json:
    statistics = {"_MIN_VALUES": b"", "_MAX_VALUES": b""}
    return {
        "_VERSION": 2,
        "_FILE_NAME": name,
        "_FILE_SIZE": 1,
        "_PARTITION_STATS": statistics,
        "_SCHEMA_ID": schema_id,
    }


def _entries(files: Mapping[str, int] | None, kind: int) -> Iterable[Json]:
    for name, schema_id in (files or {}).items():
        file = {"_FILE_NAME": name, "_SCHEMA_ID": schema_id, "_LEVEL": 0}
        yield {"_VERSION": 2, "_KIND": kind, "_PARTITION": b"", "_BUCKET": 0, "_FILE": file}


def avro(schema: Json, rows: Sequence[Json]) -> bytes:
    """Return an Avro file."""
    import fastavro

    sink = BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), rows, codec="zstandard")
    return sink.getvalue()
