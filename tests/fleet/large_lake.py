"""A lake of many tables with real rows: the same few kinds over and over, a large one, and damaged ones."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.actions import add, birth, commit_info, to_bytes
from tests.support.builder import EPOCH_MS, HINT, LOG, TableBuilder
from tests.support.damaged_tables import TABLE_DAMAGES, tables

ROWS = 10
REPORTED = [damage.name for damage in TABLE_DAMAGES if damage.name != "lose_the_log"]
"""Damages of tables that are still found by a search."""
QUIET = {"unknown_action", "remove_what_never_was", "wrong_bounds", "wrong_number_of_records"}
"""Damages that are notes, or that only footers show."""
DAMAGES = [name for name in REPORTED if name not in QUIET]
KINDS: Mapping[str, list[str]] = {
    "one": ["validate", "vacuum"],
    "few": ["validate", "vacuum"],
    "behind": ["validate", "checkpoint", "vacuum"],
    "old": ["validate", "log-expire", "vacuum"],
    "hint": ["validate", "checkpoint", "log-expire", "vacuum"],
}
"""Kinds of healthy tables, with the steps that are due for them at first."""
POLICY = """\
[policies.base]
checkpoint = { commits = 20 }
log-expire = { retention = "30d", consent = true }
vacuum = { every = "7d", retention = "14d", max-delete = "100%", consent = true }
validate = { every = "1d", level = "storage", fail-on = "warning" }
[policies.log]
inherits = "base"
vacuum = false
validate.level = "log"
[groups.large]
policy = "log"
globs = ["lake/large*"]
[groups.lake]
policy = "base"
globs = ["lake/*"]
"""
"""Most files of the large table do not exist, which its log level does not see, and a vacuum refuses."""


@dataclass(frozen=True)
class LargeLake:
    """What was written: names of tables by kind, with `damaged` and `large` among the kinds."""

    root: Path
    names: Mapping[str, list[str]]

    @property
    def healthy(self) -> Iterator[tuple[str, str]]:
        """Yield names of healthy tables with their kinds."""
        return ((name, kind) for kind in KINDS for name in self.names[kind])

    def at(self, name: str) -> Path:
        return self.root / "lake" / name


def write_large_lake(root: Path, count: int, damaged: int, *, adds: int = 0) -> LargeLake:
    """Write a lake of `count` tables, of which some are damaged, and one has so many adds; and its policy file."""
    names: dict[str, list[str]] = {kind: [] for kind in (*KINDS, "damaged", "large")}
    templates = root / "templates"
    for kind in KINDS:
        _template(kind).write(templates / kind)
    broken = {name: table for name, table in tables() if name in DAMAGES[:damaged]}
    for name, table in broken.items():
        (root / "lake").mkdir(exist_ok=True)
        names["damaged"].append(f"damaged-{name}")
        table.write(root / "lake" / f"damaged-{name}")
    if adds:
        names["large"].append("large")
        write_large(root / "lake" / "large", adds)
    for number in range(count - damaged - bool(adds)):
        kind = list(KINDS)[number % len(KINDS)]
        names[kind].append(f"t{number:05d}-{kind}")
        shutil.copytree(templates / kind, root / "lake" / names[kind][-1])
    shutil.rmtree(templates)
    (root / "fleet.toml").write_text(POLICY)
    return LargeLake(root, names)


def _template(kind: str) -> TableBuilder:
    commits = {"one": 1, "few": 5, "behind": 25, "old": 12, "hint": 12}[kind]
    table, data = TableBuilder(), _rows()
    for version in range(commits):
        lines = birth() if version == 0 else []
        name = f"part-{version:05d}.parquet"
        table.commit(commit_info("WRITE"), *lines, add(name, size=len(data), records=ROWS, modified_ms=EPOCH_MS))
        table.file(name, data)
    if kind == "old":
        table.checkpoint(9).hint(9, size=12)
    if kind == "hint":
        table.checkpoint(4).checkpoint(9).hint(4, size=7)
    return table if kind == "one" else table.file("left-1.parquet", b"y" * 10).file("left-2.parquet", b"y" * 20)


def _rows() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), sink)
    return sink.getvalue()


def write_large(place: Path, adds: int, *, commits: int = 30) -> None:
    """Write a table whose log has so many adds, of which only the first two have their files."""
    (place / LOG).mkdir(parents=True)
    data = _rows()
    tail = f'","partitionValues":{{}},"size":{len(data)},"modificationTime":{EPOCH_MS},"dataChange":true}}}}\n'
    for version in range(commits):
        first, last = adds * version // commits, adds * (version + 1) // commits
        lines = to_bytes([commit_info("WRITE"), *(birth() if version == 0 else [])]).decode()
        body = "".join(f'{{"add":{{"path":"part-{number:07d}.parquet{tail}' for number in range(first, last))
        path = place / LOG / f"{version:020d}.json"
        path.write_text(lines + body)
        os.utime(path, ns=((EPOCH_MS + version) * 1_000_000,) * 2)
    left = place / "left-1.parquet"
    left.write_bytes(b"y")
    os.utime(left, ns=(EPOCH_MS * 1_000_000,) * 2)


def digests_of(place: Path) -> dict[str, str]:
    """Return a digest of every file of a table but of its hint, which may be replaced."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name != Path(HINT).name
    }


def steps_of(document: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """Return the states of steps by table and step from the document of a run, or `due` from that of a plan."""
    tables_ = json.loads(json.dumps(document))["tables"]
    return {
        Path(table["table"]).name: {step["kind"]: step.get("state", "due") for step in table["steps"]}
        | ({"problem": table["problem"]["code"]} if "problem" in table else {})
        for table in tables_
    }
