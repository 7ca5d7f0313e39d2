"""Commits of tests: tables to commit to, requests that count, and what a log must be afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.api.table import Table
from deltacli.changing.commit import Committed, NothingToDo, commit
from deltacli.changing.commit_options import CommitOptions
from deltacli.core.machine import Machine, fixed_clock
from deltacli.delta.log.actions import read_actions
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.storage import Creation, Draft, Storage
from deltacli.table.version import Snapshot
from tests.support.actions import Line, add, commit_info, metadata, protocol, to_bytes
from tests.support.builder import EPOCH_MS, LOG, TableBuilder
from tests.support.reading import NOW_MS

FEATURES = ["domainMetadata", "inCommitTimestamp"]
STAMPED = {"delta.enableInCommitTimestamps": "true"}

Make = Callable[[Snapshot], CommitRequest | None]


def table_of_commits(versions: int = 3, configuration: Mapping[str, str] | None = None) -> TableBuilder:
    """A table whose commits carry in-commit timestamps, whether or not its `configuration` asks for them."""
    builder = TableBuilder()
    for version in range(versions):
        lines = [commit_info("WRITE", inCommitTimestamp=EPOCH_MS + 1_000 * version, engineInfo="builder")]
        if not version:
            lines += [protocol(1, 7, writer_features=FEATURES), metadata(configuration=configuration)]
        builder.commit(*lines, add(f"part-{version}.parquet", records=1))
    return builder


def count_up(key: str = "count") -> Make:
    """Set a property to one more than it was: a lost or a doubled commit shows in the number."""

    def make(snapshot: Snapshot) -> CommitRequest:
        action = snapshot.metadata.as_json()
        number = int(snapshot.properties.get(key, "0")) + 1
        configuration = {**snapshot.properties, key: str(number)}
        return CommitRequest(
            "SET TBLPROPERTIES",
            operation_parameters={"properties": {key: str(number)}},
            metadata=action | {"configuration": configuration},
        )

    return make


def count_up_domain(name: str = "count") -> Make:
    """The same with the configuration of a domain."""

    def make(snapshot: Snapshot) -> CommitRequest:
        found = {domain.domain: domain.configuration for domain in snapshot.domains}
        number = int(found.get(name, "0")) + 1
        action = {"domain": name, "configuration": str(number), "removed": False}
        return CommitRequest("SET DOMAIN", domains=(action,))

    return make


def add_feature(name: str) -> Make:
    """Add a writer feature where it is missing."""

    def make(snapshot: Snapshot) -> CommitRequest | None:
        names = snapshot.protocol.writer_features or ()
        if name in names:
            return None
        action = snapshot.protocol.as_json() | {"writerFeatures": sorted([*names, name])}
        return CommitRequest("ADD FEATURE", protocol=action)

    return make


def say(operation: str = "VACUUM START") -> Make:
    """A commit of provenance alone."""
    return lambda _snapshot: CommitRequest(operation)


@dataclass(frozen=True)
class _Naming(Machine):
    """A machine whose ids are all the same."""

    txn_id: str = ""

    def new_uuid(self) -> str:
        return self.txn_id


def run(
    storage: Storage, make: Make, *, pauses: list[int] | None = None, txn_id: str = "ours", max_attempts: int = 10
) -> Committed | NothingToDo:
    """Commit without ever waiting."""
    waited: list[int] = [] if pauses is None else pauses
    table = Table(storage, clock=fixed_clock(NOW_MS), machine=_Naming(txn_id=txn_id))
    return commit(table, make, options=CommitOptions(max_attempts=max_attempts, pause=waited.append))


def commits(storage: Storage) -> list[list[tuple[str, dict[str, Any]]]]:
    """The actions of every commit; that versions follow each other, and each file is whole, is checked."""
    names = [stat.name for stat in storage.list_from(LOG) if stat.name.endswith(".json")]
    assert [f"{version:020d}.json" for version in range(len(names))] == names
    found = []
    for name in names:
        data = storage.read(f"{LOG}/{name}")
        assert data.endswith(b"}" if b'"engineInfo":"delta-rs' in data else b"}\n"), name
        found.append(read_actions(data, name))
    return found


def infos(storage: Storage) -> list[dict[str, Any]]:
    """The commitInfo of every commit, empty where it has none."""
    return [dict(actions).get("commitInfo", {}) for actions in commits(storage)]


def versions_of(storage: Storage, txn_id: str = "ours") -> list[int]:
    """The versions that carry a txnId."""
    return [version for version, info in enumerate(infos(storage)) if info.get("txnId") == txn_id]


class Rivals:
    """Another writer that comes first: before each of the first creations it creates the same version itself."""

    def __init__(self, inner: Storage, *rounds: list[Line] | bytes) -> None:
        self._inner = inner
        self._rounds = iter(rounds)

    def __getattr__(self, name: str) -> Any:  # Any: whatever the store has
        return getattr(self._inner, name)

    def put_if_absent(self, path: str, data: bytes, **options: Any) -> Any:  # Any: as in the port
        lines = next(self._rounds, None)
        if lines is not None:
            content = lines if isinstance(lines, bytes) else to_bytes(lines)
            self._inner.put_if_absent(path, content, **options)
        return self._inner.put_if_absent(path, data, **options)

    def draft(self, path: str) -> Draft:
        if not path.startswith(LOG):
            return self._inner.draft(path)
        inner, rivals = self._inner.draft(path), self

        class Late:
            local_path = property(lambda _: inner.local_path)

            def __enter__(self) -> Any:  # Any: a draft
                inner.__enter__()
                return self

            def __exit__(self, *exception: object) -> None:
                inner.__exit__(*exception)

            def publish(self, *, replace: bool = False) -> Creation:
                if isinstance(lines := next(rivals._rounds, None), list):
                    rivals._inner.put_if_absent(path, to_bytes(lines))
                return inner.publish(replace=replace)

        return Late()
