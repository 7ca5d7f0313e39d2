"""A small healthy table that is damaged in one place: commits as values, and the files that follow from them.

Checkpoints, checksums, the hint and the data files are derived from the commits when the table is written, so that a
damage of a commit stays the only one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.log.file_actions import action_schemas

Action = dict[str, Any]

NOW_MS = 1_768_003_200_000
"""2026-01-10 00:00 UTC, the clock of every run over a built table."""
START_MS = NOW_MS - 6 * 3_600_000
MINUTE_MS = 60_000
TABLE_ID = "8e1a6ad6-5a0b-4d8f-9d5f-1d2f6f7e9c11"


def column(name: str, data_type: Any, *, nullable: bool = True, **metadata: Any) -> Action:
    """A field of a schema; metadata keys with dots go through `metadata={"delta.x": 1}` merged by the caller."""
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": metadata}


def struct(*fields: Action) -> Action:
    return {"type": "struct", "fields": list(fields)}


DEFAULT_SCHEMA = struct(column("id", "long"), column("name", "string"), column("p", "string"))


class TableBuilder:
    """A table of four versions, partitioned by `p`: created (0), two files added (1), the first replaced (2), one more
    added (3); a checkpoint at 2, checksums, a hint.

    `derive` turns the files that follow from the commits off where a damage makes them meaningless.
    """

    level = "storage"
    """How far a run over it looks: its data files are no Parquet files."""

    def __init__(
        self,
        *,
        schema: Action | None = None,
        partition_columns: tuple[str, ...] = ("p",),
        protocol: Action | None = None,
        properties: dict[str, str] | None = None,
    ) -> None:
        schema = schema or DEFAULT_SCHEMA
        self.schema = schema
        self.partition_columns = partition_columns
        configuration = {"delta.checkpoint.writeStatsAsStruct": "false"} | (properties or {})
        self.protocol: Action = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
        self.metadata: Action = {
            "id": TABLE_ID,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": list(partition_columns),
            "configuration": configuration,
            "createdTime": START_MS,
        }
        self.commits: dict[int, list[Action]] = {
            0: [self.info(0, "CREATE TABLE"), {"protocol": self.protocol}, {"metaData": self.metadata}],
            1: [self.info(1), self.new_add("a", 1, 1), self.new_add("b", 2, 1)],
            2: [self.info(2, "MERGE"), self.new_remove("a", 1, 2), self.new_add("a", 3, 2)],
            3: [self.info(3), self.new_add("b", 4, 3)],
        }
        self.checkpoint_version: int | None = 2
        self.checkpoint_kind = "classic"
        self.has_checksums = True
        self.has_hint = True
        self.has_files = True
        self._edits: list[Callable[[Path], None]] = []
        self._row_edits: list[Callable[[list[Action]], list[Action] | None]] = []
        self._lines: dict[int, Callable[[bytes], bytes]] = {}
        self._json_edits: dict[str, Callable[[Action], Action | None]] = {}

    # -- the parts of a commit ------------------------------------------------------------------------------------

    @staticmethod
    def time_of(version: int) -> int:
        return START_MS + version * MINUTE_MS

    def info(self, version: int, operation: str = "WRITE") -> Action:
        return {
            "commitInfo": {
                "timestamp": self.time_of(version),
                "operation": operation,
                "operationParameters": {"mode": "Append"},
                "isBlindAppend": operation == "WRITE",
                **({"readVersion": version - 1} if version else {}),
                "engineInfo": "maker/1.0",
                "txnId": f"00000000-0000-4000-8000-{version:012d}",
            }
        }

    def path_of(self, partition: str, number: int) -> str:
        directory = f"p={quote(partition)}/" if "p" in self.partition_columns else ""
        return f"{directory}part-{number:05d}-c000.snappy.parquet"

    def new_add(self, partition: str, number: int, version: int, **changes: Any) -> Action:
        stats = {
            "numRecords": 10,
            "minValues": {"id": number * 10, "name": "a"},
            "maxValues": {"id": number * 10 + 9, "name": "z"},
            "nullCount": {"id": 0, "name": 1},
        }
        add = {
            "path": self.path_of(partition, number),
            "partitionValues": {"p": partition} if "p" in self.partition_columns else {},
            "size": 1000 + number,
            "modificationTime": self.time_of(version) - 1000,
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
        }
        return {"add": add | changes}

    def new_remove(self, partition: str, number: int, version: int, **changes: Any) -> Action:
        remove = {
            "path": self.path_of(partition, number),
            "deletionTimestamp": self.time_of(version) - 500,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {"p": partition} if "p" in self.partition_columns else {},
            "size": 1000 + number,
        }
        return {"remove": remove | changes}

    # -- what damages use -----------------------------------------------------------------------------------------

    def action(self, version: int, kind: str, number: int = 0) -> Action:
        """The fields of the n-th action of a kind in a commit, to be changed in place."""
        found: Action = [action[kind] for action in self.commits[version] if kind in action][number]
        return found

    def add(self, version: int, number: int = 0) -> Action:
        return self.action(version, "add", number)

    def stats(self, version: int, number: int = 0) -> Action:
        """The statistics of an add as a value; put back with `set_stats`."""
        found: Action = json.loads(self.add(version, number)["stats"])
        return found

    def set_stats(self, version: int, stats: Any, number: int = 0) -> None:
        self.add(version, number)["stats"] = stats if isinstance(stats, str) else json.dumps(stats)

    def commit(self, *actions: Action, operation: str = "WRITE", with_info: bool = True) -> int:
        """Append one more version and return it."""
        version = max(self.commits) + 1
        self.commits[version] = [*([self.info(version, operation)] if with_info else []), *actions]
        return version

    def change_metadata(self, **changes: Any) -> Action:
        """A metaData action like the newest, with other values."""
        newest: Action = [a["metaData"] for v in sorted(self.commits) for a in self.commits[v] if "metaData" in a][-1]
        found: Action = json.loads(json.dumps(newest)) | changes
        return {"metaData": found}

    def change_properties(self, **unused: str) -> None:
        raise NotImplementedError("use `configure`")

    def configure(self, properties: dict[str, str | None]) -> None:
        """Set properties of the table's first metadata (None: unset)."""
        for key, value in properties.items():
            if value is None:
                self.metadata["configuration"].pop(key, None)
            else:
                self.metadata["configuration"][key] = value

    def derive(
        self, *, checkpoint: bool = True, checksums: bool = True, hint: bool = True, files: bool = True
    ) -> TableBuilder:
        """Choose which derived files there are."""
        if not checkpoint:
            self.checkpoint_version = None
        self.has_checksums, self.has_hint, self.has_files = checksums, hint and checkpoint, files
        return self

    def edit_lines(self, version: int, edit: Callable[[bytes], bytes]) -> None:
        """Change the bytes of a commit."""
        self._lines[version] = edit

    def edit_rows(self, edit: Callable[[list[Action]], list[Action] | None]) -> None:
        """Change the rows of the checkpoint, in place or by giving others: `[{"add": {…}}, …]`."""
        self._row_edits.append(edit)

    def edit_json(self, name: str, edit: Callable[[Action], Action | None]) -> None:
        """Change a derived JSON file of the log (`_last_checkpoint`, `000…3.crc`), in place or by giving another."""
        self._json_edits[name] = edit

    def edit_files(self, edit: Callable[[Path], None]) -> None:
        """Do anything to the written table; gets its directory."""
        self._edits.append(edit)

    def put(self, path: str, data: bytes | str, *, modified_ms: int | None = None) -> None:
        """Put a file of any name, relative to the table."""

        def write(root: Path) -> None:
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data.encode() if isinstance(data, str) else data)
            set_time(target, NOW_MS - 3_600_000 if modified_ms is None else modified_ms)

        self._edits.append(write)

    def drop(self, path: str) -> None:
        """Delete a file, relative to the table."""
        self._edits.append(lambda root: (root / path).unlink())

    def touch(self, path: str, modified_ms: int) -> None:
        self._edits.append(lambda root: set_time(root / path, modified_ms))

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, root: Path) -> Path:
        """Write the table and return its directory."""
        log = root / "_delta_log"
        log.mkdir(parents=True)
        for version, actions in self.commits.items():
            data = b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)
            if version in self._lines:
                data = self._lines[version](data)
            target = log / f"{version:020d}.json"
            target.write_bytes(data)
            set_time(target, self.time_of(version))
        if self.has_files:
            self._write_files(root)
        if self.has_checksums:
            for version in self.commits:
                self._write_json(log, f"{version:020d}.crc", self._checksum(version), version)
        if self.checkpoint_version is not None:
            self._write_checkpoint(log, self.checkpoint_version)
        for edit in self._edits:
            edit(root)
        return root

    def replay(self, version: int) -> dict[str, Any]:
        """The plainest replay there is: kind -> key -> action."""
        state: dict[str, Any] = {
            "add": {},
            "remove": {},
            "txn": {},
            "domainMetadata": {},
            "protocol": {},
            "metaData": {},
        }
        for number in sorted(self.commits):
            if number > version:
                break
            for action in self.commits[number]:
                for kind, fields in action.items():
                    self._replay_one(state, kind, fields)
        return state

    @staticmethod
    def _replay_one(state: dict[str, Any], kind: str, fields: Any) -> None:
        if kind in ("add", "remove") and isinstance(fields, dict):
            vector = fields.get("deletionVector")
            key = (str(fields.get("path")), json.dumps(vector, sort_keys=True) if vector else "")
            state["add"].pop(key, None)
            state["remove"].pop(key, None)
            state[kind][key] = fields
        elif kind in ("protocol", "metaData"):
            state[kind] = {"": fields}
        elif kind == "txn":
            state[kind][fields.get("appId")] = fields
        elif kind == "domainMetadata":
            state[kind][fields.get("domain")] = fields

    def _write_files(self, root: Path) -> None:
        for version, actions in self.commits.items():
            for action in actions:
                for kind in ("add", "remove", "cdc"):
                    fields = action.get(kind)
                    path = fields.get("path") if isinstance(fields, dict) else None
                    size = fields.get("size") if isinstance(fields, dict) else None
                    if not isinstance(path, str) or not path or path.startswith(("/", "..")) or ":/" in path:
                        continue
                    target = root / unquote(path)
                    if target.exists() or len(unquote(path)) > 200:
                        continue
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(b"x" * (size if isinstance(size, int) and 0 < size < 100_000 else 1001))
                    set_time(target, self.time_of(version) - 1000)

    def rows(self, version: int) -> list[Action]:
        """The rows of a checkpoint of a version."""
        state = self.replay(version)
        rows: list[Action] = []
        for kind in ("protocol", "metaData", "txn", "domainMetadata", "remove", "add"):
            for fields in state[kind].values():
                if kind == "domainMetadata" and fields.get("removed"):
                    continue
                dropped = ("stats", "tags") if kind == "remove" else ()
                rows.append({kind: {name: value for name, value in fields.items() if name not in dropped}})
        return rows

    def _write_checkpoint(self, log: Path, version: int) -> None:
        rows = self.rows(version)
        for edit in self._row_edits:
            rows = edit(rows) or rows
        target = log / f"{version:020d}.checkpoint.parquet"
        write_rows(target, rows)
        set_time(target, self.time_of(version) + 1000)
        if self.has_hint:
            hint = {
                "version": version,
                "size": len(rows),
                "sizeInBytes": target.stat().st_size,
                "numOfAddFiles": sum("add" in row for row in rows),
            }
            self._write_json(log, "_last_checkpoint", hint, version)

    def _write_json(self, log: Path, name: str, value: Action, version: int) -> None:
        if name in self._json_edits:
            value = self._json_edits[name](value) or value
        target = log / name
        target.write_text(json.dumps(value))
        set_time(target, self.time_of(version) + 2000)

    def _checksum(self, version: int) -> Action:
        state = self.replay(version)
        adds = list(state["add"].values())
        return {
            "tableSizeBytes": sum(add.get("size") or 0 for add in adds if isinstance(add.get("size"), int)),
            "numFiles": len(adds),
            "numMetadata": 1,
            "numProtocol": 1,
            "metadata": next(iter(state["metaData"].values()), None),
            "protocol": next(iter(state["protocol"].values()), None),
            "setTransactions": list(state["txn"].values()),
            "domainMetadata": [fields for fields in state["domainMetadata"].values() if not fields.get("removed")],
        }


def set_time(path: Path, modified_ms: int) -> None:
    os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


def checkpoint_schema() -> pa.Schema:
    """The columns of a checkpoint as the protocol lists them."""
    text, whole, strings = pa.string(), pa.int64(), pa.map_(pa.string(), pa.string())
    schemas = action_schemas()
    remove = pa.struct([field for field in schemas.remove if field.name not in ("stats", "tags")])
    return pa.schema(
        [
            ("txn", pa.struct([("appId", text), ("version", whole), ("lastUpdated", whole)])),
            ("add", pa.struct(list(schemas.add))),
            ("remove", remove),
            (
                "metaData",
                pa.struct(
                    [
                        ("id", text),
                        ("name", text),
                        ("description", text),
                        ("format", pa.struct([("provider", text), ("options", strings)])),
                        ("schemaString", text),
                        ("partitionColumns", pa.list_(text)),
                        ("configuration", strings),
                        ("createdTime", whole),
                    ]
                ),
            ),
            (
                "protocol",
                pa.struct(
                    [
                        ("minReaderVersion", pa.int32()),
                        ("minWriterVersion", pa.int32()),
                        ("readerFeatures", pa.list_(text)),
                        ("writerFeatures", pa.list_(text)),
                    ]
                ),
            ),
            ("domainMetadata", pa.struct([("domain", text), ("configuration", text), ("removed", pa.bool_())])),
        ]
    )


V2_FIELDS = (
    pa.field("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", pa.map_(pa.string(), pa.string()))])),
    pa.field(
        "sidecar",
        pa.struct(
            [
                ("path", pa.string()),
                ("sizeInBytes", pa.int64()),
                ("modificationTime", pa.int64()),
                ("tags", pa.map_(pa.string(), pa.string())),
            ]
        ),
    ),
)


def write_rows(target: Path, rows: list[Action], *, schema: pa.Schema | None = None) -> None:
    """Write rows of a checkpoint or a sidecar; columns of V2 are added where a row needs them."""
    if schema is None:
        schema = checkpoint_schema()
        if any("sidecar" in row or "checkpointMetadata" in row for row in rows):
            for extra in V2_FIELDS:
                schema = schema.append(extra)
    columns = []
    for field in schema:
        values = [_for_arrow(row.get(field.name), field.type) for row in rows]
        columns.append(pa.array(values, field.type))
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), target)


def _for_arrow(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: _for_arrow(value.get(field.name), field.type) for field in data_type}
    if pa.types.is_map(data_type):
        return list(value.items())
    return value


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
