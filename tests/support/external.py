"""Tables that name files outside themselves, and a web server that notes who asks it for anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]},
    separators=(",", ":"),
)
FEATURES = ["deletionVectors"]


def put_rows(place: Path, *rows: int) -> Path:
    """Write a data file and return its place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), place)
    return place


def add(path: str, size: int = 100, **fields: object) -> dict[str, Any]:
    """An add of a file as the log names it."""
    common = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    return {"add": common | fields}


def write_table(root: Path, *actions: dict[str, Any]) -> Path:
    """Write a table of one commit, with a file of its own (id 1) in addition to those of the actions."""
    own = put_rows(root / "own.parquet", 1)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": FEATURES, "writerFeatures": FEATURES}
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {},
    }
    lines: list[dict[str, Any]] = [
        {"protocol": protocol},
        {"metaData": metadata},
        add(own.name, own.stat().st_size),
        *actions,
    ]
    put_commit(root, 0, *lines)
    return root


def put_commit(root: Path, version: int, *actions: dict[str, Any]) -> None:
    """Write one commit of a table."""
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """Serve nothing on the loopback: yields the address, and the list of what is asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  (names of the library)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
