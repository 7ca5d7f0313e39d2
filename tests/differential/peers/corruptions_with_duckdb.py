"""Questions about a damaged table to duckdb's delta extension; lines as in `corruptions_with_deltalake`."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import duckdb

from tests.differential.peers.duckdb_delta import connect
from tests.differential.peers.listening import listen

QUESTIONS = {
    "read": "SELECT id, name, p FROM delta_scan('{path}')",
    "filtered": "SELECT id, name, p FROM delta_scan('{path}') WHERE {condition}",
    "count": "SELECT count(*) FROM delta_scan('{path}')",
}


def ask(connection: Any, query: str, name: str) -> Any:  # Any: duckdb has no types here, JSON values
    rows = connection.execute(query).fetchall()
    return rows[0][0] if name == "count" else [list(row) for row in rows]


with connect() as shared:
    for line in sys.stdin:
        task = json.loads(line)
        words = {"path": task["path"].replace("'", "''"), "condition": task["condition"]}
        answers = {name: listen(partial(ask, shared, query.format(**words), name)) for name, query in QUESTIONS.items()}
        sys.stdout.write(json.dumps({"version": duckdb.__version__, "answers": answers}) + "\n")
        sys.stdout.flush()
