"""Questions about damaged tables to deltalake: one task `{"path", "condition"}` a line in, a line of answers out.

An answer is `{"value"}` or `{"refused"}`, with `{"said"}` where anything was written on stderr.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import deltalake
import pyarrow as pa

Question = Callable[[str, str], Any]  # Any: JSON values


def sql(path: str, query: str) -> list[list[Any]]:
    found = pa.table(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute(query).read_all())
    return [list(row.values()) for row in found.to_pylist()]


QUESTIONS: dict[str, Question] = {
    "open": lambda path, _: deltalake.DeltaTable(path).version(),
    "read": lambda path, _: sql(path, "SELECT id, name, p FROM t"),
    "filtered": lambda path, condition: sql(path, f"SELECT id, name, p FROM t WHERE {condition}"),
    "count": lambda path, _: deltalake.DeltaTable(path).count(),
    "history": lambda path, _: [item.get("version") for item in deltalake.DeltaTable(path).history()],
    "repair": lambda path, _: deltalake.DeltaTable(path).repair(dry_run=True)["files_removed"],
}


def listen(question: Question, path: str, condition: str) -> dict[str, Any]:
    """Ask one question, with stderr in a file."""
    with tempfile.TemporaryFile() as heard:
        kept = os.dup(2)
        os.dup2(heard.fileno(), 2)
        try:
            answer: dict[str, Any] = {"value": question(path, condition)}
        except BaseException as fault:  # noqa: BLE001  (whatever it is, a panic too, it is the peer's answer)
            answer = {"refused": f"{type(fault).__name__}: {fault}"}
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
        heard.seek(0)
        said = heard.read().decode(errors="replace").strip()
    return answer | ({"said": said} if said and "value" in answer else {})


for line in sys.stdin:
    task = json.loads(line)
    answers = {name: listen(question, task["path"], task["condition"]) for name, question in QUESTIONS.items()}
    sys.stdout.write(json.dumps({"version": deltalake.__version__, "answers": answers}) + "\n")
    sys.stdout.flush()
