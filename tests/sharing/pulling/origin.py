"""A small table to share, and pulling it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli import open_table
from deltacli.changing.change import execute_change, plan_change
from deltacli.sharing.client.share_storage import ShareStorage
from deltacli.sharing.protocol.parameters import Point
from deltacli.sharing.pulling.pull import Pull, PullRequest, PullResult
from tests.sharing.client.serving import Proxy
from tests.support.actions import commit_info

TABLE_ID = "0f5f6a0e-2b9b-4d53-9f0a-6a7d3b1c9e01"
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]})


@dataclass
class Origin:
    """A table whose rows are whole numbers, one file per commit."""

    path: Path
    configuration: dict[str, str] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=lambda: {"minReaderVersion": 1, "minWriterVersion": 2})
    table_id: str = TABLE_ID
    versions: int = 0
    files: list[dict[str, Any]] = field(default_factory=list)

    def append(self, rows: range, *, removing: int = 0) -> Origin:
        """Commit a file, and remove as many of the oldest ones."""
        lines: list[dict[str, Any]] = [commit_info("WRITE")]
        if not self.versions:
            lines += [{"protocol": self.protocol}, {"metaData": self._metadata()}]
        for add in self.files[:removing]:
            lines.append({"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}})
        del self.files[:removing]
        name = f"part-{self.versions:05}.parquet"
        self.path.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": pa.array(rows, pa.int64())}), self.path / name, compression="none")
        add = {
            "path": name,
            "partitionValues": {},
            "size": (self.path / name).stat().st_size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(rows)}),
        }
        self.files.append(add)
        return self.commit(*lines, {"add": add})

    def commit(self, *lines: dict[str, Any]) -> Origin:
        """Commit actions as they are."""
        log = self.path / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (log / f"{self.versions:020}.json").write_text(text)
        self.versions += 1
        return self

    def _metadata(self) -> dict[str, Any]:
        return {
            "id": self.table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": [],
            "configuration": self.configuration,
        }


def pull(proxy: Proxy, target: Path, *, version: int | None = None, **fields: Any) -> PullResult:
    """Pull the table `t` by a client whose waits take no time."""
    return pull_from(proxy.store(), target, point=Point(version), **fields)


def pull_from(store: ShareStorage, target: Path, *, dry_run: bool = False, **fields: Any) -> PullResult:
    """Pull a table, or only plan it."""
    request = PullRequest(str(target), **fields)
    plan = plan_change(Pull(store, request), request.target())
    return (
        plan.result(dry_run=True)
        if dry_run
        else execute_change(Pull(store, request), plan.base_version.table, plan=plan)
    )


def rows_of(target: Path) -> list[int]:
    """Return the rows of a local table, after `validate --level data` has found nothing in it."""
    table = open_table(target)
    findings = [finding.message for finding in table.validate(level="data").findings]
    assert [] == findings
    return sorted(table.snapshot().scan().to_arrow()["a"].to_pylist())


def files_asked(proxy: Proxy) -> list[str]:
    """Return the paths of the file URLs that were asked for, without their signatures."""
    return [asked.target.partition("?")[0] for asked in proxy.asked if asked.is_for_file]
