"""Damaged tables, and what must hold of any repair of one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.changing.consent import Consent, consent_to_plan
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.recorded_fields import digest_content
from deltacli.core.errors import DeltacliError, Refused
from deltacli.operations.repair.backup import BACKUP_DIRECTORY, PutBack, Undo
from deltacli.operations.repair.plan import RepairPlan, RepairRequest, StepState
from deltacli.operations.repair.repair import Repair, RepairOutcome, plan_repair
from tests.rules.table_builder import NOW_MS
from tests.support.small_types import plain

Content = dict[str, bytes]
Rows = Counter[Any]  # Any: plain values


def content_of(root: Path) -> Content:
    """Every file of a table except those of backups."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and BACKUP_DIRECTORY not in path.parts
    }


def open_damaged(root: Path, clock: Callable[[], int] = lambda: NOW_MS) -> Table:
    return open_table(root, clock=clock, allow_external=["/"])


def request(*, level: str = "data", sources: Sequence[Path] = (), **others: Any) -> RepairRequest:  # Any: its fields
    """A request with every consent."""
    consent = {"accept_loss": True, "max_missing": 1.0, "allow_in_use": True}
    return RepairRequest(level=level, sources=[str(one) for one in sources], **(consent | others))


def readable_rows(table: Table) -> Rows:
    """The rows of all live files that can be read; none where the version cannot be rebuilt."""
    try:
        return Counter(plain(tuple(row.values())) for batch in table.snapshot().scan() for row in batch.to_pylist())
    except DeltacliError:
        return Counter()


def execute_repair(plan: RepairPlan, agreed: Callable[[RepairPlan], bool] = lambda _: True) -> RepairOutcome:
    """Execute a plan, and what follows from it as far as it is `agreed`; what was left undone is in the outcome."""

    def ask(found: RepairPlan) -> Consent:
        if found is not plan and not agreed(found):
            raise Refused("no")
        return consent_to_plan(found)

    change = Repair(plan.request)
    execution = ChangeExecution(change.plan, plan, ask, change.outcome(plan))
    change.execute(execution)
    return execution.outcome


def put_back(table: Table, backup: str) -> PutBack:
    """Put the files of a backup back."""
    return execute_change(Undo(backup), table)


def repair_and_check(root: Path, asked: RepairRequest, clock: Callable[[], int] = lambda: NOW_MS) -> RepairOutcome:
    """Repair a table, and check what must hold whatever is wrong with it."""
    table = open_damaged(root, clock)
    before = content_of(root)
    done = execute_repair(plan_repair(table, asked))
    assert [] == [(step.rule, step.reason) for step in done.steps if step.state is not StepState.DONE]
    again = plan_repair(table, asked)
    assert () == again.steps, "a second run has nothing to do"
    after = content_of(root)
    commits = {path for path in before if path.startswith("_delta_log/0") and path.endswith(".json")}
    brought = {step.place.path for step in done.steps if step.rule.startswith("commit.")}
    assert [] == [path for path in sorted(commits - brought) if ".c" not in path and after.get(path) != before[path]]
    if done.backup_uri is not None:
        put_back(table, done.backup_uri)
    changed = {path for path, data in content_of(root).items() if before.get(path, data) != data}
    assert set() == changed | (before.keys() - content_of(root).keys()), "what was replaced is put back, byte for byte"
    for path, data in after.items():  # and as it was repaired
        (root / path).write_bytes(data)
    for path in content_of(root).keys() - after.keys():
        (root / path).unlink()
    return done


def edit_manifest(backup: str, edit: Callable[[dict[str, Any]], object], *, with_digest: bool = True) -> None:
    """Edit the manifest of a backup, and give it the digest of the new content, as somebody who knows of it would."""
    path = Path(backup.removeprefix("file://")) / "manifest.json"
    content = json.loads(path.read_text())
    digest = content.pop("sha256")
    edit(content)
    path.write_text(json.dumps(content | {"sha256": digest_content(content) if with_digest else digest}))
