"""Questions about damaged tables to deltalake: one task `{"path", "condition"}` a line in, a line of answers out.

An answer is as `listen` makes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import deltalake
import pyarrow as pa

from tests.differential.peers.listening import listen

RowCheckFactory = Callable[[str, str], Any]  # Any: JSON values


def sql(path: str, query: str) -> list[list[Any]]:
    found = pa.table(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute(query).read_all())
    return [list(row.values()) for row in found.to_pylist()]


QUESTIONS: dict[str, RowCheckFactory] = {
    "open": lambda path, _: deltalake.DeltaTable(path).version(),
    "read": lambda path, _: sql(path, "SELECT id, name, p FROM t"),
    "filtered": lambda path, condition: sql(path, f"SELECT id, name, p FROM t WHERE {condition}"),
    "count": lambda path, _: deltalake.DeltaTable(path).count(),
    "history": lambda path, _: [item.get("version") for item in deltalake.DeltaTable(path).history()],
    "repair": lambda path, _: deltalake.DeltaTable(path).repair(dry_run=True)["files_removed"],
}


for line in sys.stdin:
    task = json.loads(line)
    answers = {name: listen(partial(question, task["path"], task["condition"])) for name, question in QUESTIONS.items()}
    sys.stdout.write(json.dumps({"version": deltalake.__version__, "answers": answers}) + "\n")
    sys.stdout.flush()
