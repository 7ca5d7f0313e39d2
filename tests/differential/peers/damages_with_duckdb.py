"""Questions about a damaged table to duckdb's delta extension; lines as in `damages_with_deltalake`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}

QUESTIONS = {
    "read": "SELECT id, name, p FROM delta_scan('{path}')",
    "filtered": "SELECT id, name, p FROM delta_scan('{path}') WHERE {condition}",
    "count": "SELECT count(*) FROM delta_scan('{path}')",
}


def connect() -> Any:  # Any: duckdb has no types here
    package = find_spec("duckdb_extension_delta")
    assert package is not None
    assert package.origin is not None
    extension = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    connection = duckdb.connect(config=OFFLINE)
    connection.execute("LOAD '" + str(extension).replace("'", "''") + "'")
    return connection


def listen(connection: Any, query: str, name: str) -> dict[str, Any]:  # Any: JSON values
    """Ask one question, with stderr in a file."""
    with tempfile.TemporaryFile() as heard:
        kept = os.dup(2)
        os.dup2(heard.fileno(), 2)
        try:
            rows = connection.execute(query).fetchall()
            answer: dict[str, Any] = {"value": rows[0][0] if name == "count" else [list(row) for row in rows]}
        except Exception as fault:  # noqa: BLE001  (whatever it is, it is the peer's answer)
            answer = {"refused": f"{type(fault).__name__}: {fault}"}
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
        heard.seek(0)
        said = heard.read().decode(errors="replace").strip()
    return answer | ({"said": said} if said and "value" in answer else {})


with connect() as shared:
    for line in sys.stdin:
        task = json.loads(line)
        words = {"path": task["path"].replace("'", "''"), "condition": task["condition"]}
        answers = {name: listen(shared, query.format(**words), name) for name, query in QUESTIONS.items()}
        sys.stdout.write(json.dumps({"version": duckdb.__version__, "answers": answers}) + "\n")
        sys.stdout.flush()
