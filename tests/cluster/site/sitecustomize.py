"""Let any process of a test stop at a known step of real code: one call of the local store, before or after it is done.

Python imports this module when it starts and finds its directory in `PYTHONPATH`: in the driver, and in the workers of
executors. `DELTACLI_GATES` names a directory with at most one gate, described by `tests.cluster.gates`. The first
process that comes to the step claims the gate, leaves its process id, and waits until the gate is open or somebody
kills it. A second attempt does not stop.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from typing import Any

GATES = os.environ.get("DELTACLI_GATES")
MODULE = "deltacli.storage.local"
IS_EXECUTOR = "pyspark.daemon" in sys.orig_argv or "pyspark.worker" in sys.orig_argv
PATIENCE = 120.0
_seen: dict[str, int] = {}


def stop_at(call: str, path: str, moment: str) -> None:
    """Wait at the gate if this is its step."""
    gate = _gate()
    if gate is None or (gate["call"], gate["moment"], gate["executor"]) != (call, moment, IS_EXECUTOR):
        return
    if gate["path"] not in path:
        return
    _seen[gate["id"]] = _seen.get(gate["id"], 0) + 1
    if _seen[gate["id"]] >= gate["number"] and _is_claimed(gate["id"]):
        last = time.monotonic() + PATIENCE
        while not os.path.exists(f"{GATES}/{gate['id']}.open"):
            if time.monotonic() > last:
                os._exit(99)
            time.sleep(0.01)


def _gate() -> dict[str, Any] | None:
    try:
        with open(f"{GATES}/gate.json", encoding="utf-8") as file:
            gate: dict[str, Any] = json.load(file)
            return gate
    except FileNotFoundError:
        return None


def _is_claimed(gate: str) -> bool:
    """Return True in the first process only."""
    place = f"{GATES}/{gate}.arrived"
    try:
        with open(f"{place}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
        os.link(file.name, place)
    except FileExistsError:
        return False
    return True


def gated(owner: Any, name: str, call: str, path_of: Any) -> None:  # Any: a class or module, and a function
    """Put a gate before and after a function."""
    original = getattr(owner, name)

    def stopping(*arguments: Any, **options: Any) -> Any:  # Any: of each function
        path = path_of(arguments)
        stop_at(call, path, "before")
        answer = original(*arguments, **options)
        stop_at(call, path, "after")
        return answer

    setattr(owner, name, stopping)


def install(local: Any) -> None:  # Any: the module
    """Put gates around what changes a table, and around listings."""
    gated(local.LocalStorage, "put_if_absent", "create", lambda given: given[1])
    gated(local.LocalStorage, "put", "put", lambda given: given[1])
    gated(local.LocalStorage, "walk", "walk", lambda given: given[1])
    gated(local._LocalDraft, "__enter__", "begin", lambda given: given[0]._target)
    gated(local._LocalDraft, "publish", "publish", lambda given: given[0]._target)
    gated(local, "delete_local_file", "delete", lambda given: given[0])


class Loader:
    """Loads the module as its own loader does, and adds the gates."""

    def __init__(self, inner: Any) -> None:  # Any: the loader of a file or of an archive
        self._inner = inner

    def create_module(self, spec: Any) -> Any:  # Any: a ModuleSpec
        """Let Python create it."""
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:  # Any: the module
        """Run it, and change it."""
        self._inner.exec_module(module)
        install(module)

    def get_source(self, name: str) -> Any:  # Any: a text
        """Return what the data source carries to processes of Spark."""
        return self._inner.get_source(name)


class Finder:
    """Finds the module of the local store as usual, once."""

    def find_spec(self, name: str, *_: object) -> Any:  # Any: a ModuleSpec
        """Return the specification of the module."""
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        spec.loader = Loader(spec.loader)  # type: ignore[assignment]
        return spec


class Finders(list[Any]):
    """Keeps the first finder where it is: what the data source carries is found after it."""

    def insert(self, index: Any, finder: Any) -> None:  # Any: as of a list
        """Insert another finder."""
        super().insert(max(index, 1), finder)


if GATES:
    sys.meta_path = Finders([Finder(), *sys.meta_path])
