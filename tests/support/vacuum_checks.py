"""A history step by step, with everything that must hold after each vacuum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import Refused
from deltacli.core.machine import fixed_clock
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry, plan_expiry
from tests.support.vacuum_model import HOUR_MS, Live, VacuumedTable, content, set_time
from tests.support.vacuum_needs import Listing, Needs, files_of, listing
from tests.support.vacuum_steps import (
    AddAgain,
    Checkpoint,
    ExpireLog,
    Leave,
    Mark,
    Remove,
    Repartition,
    Restore,
    SetOwn,
    StampCommits,
    Start,
    Step,
    Touch,
    Vacuum,
    Wait,
    Write,
)

T = TypeVar("T")


def check_history(base: Path, start: Start, steps: Iterable[Step]) -> VacuumedTable:
    """Take every step; the table as it is at the end."""
    table = VacuumedTable(base, start)
    for step in steps:
        take(table, step)
        table.reconcile()
    return table


def take(table: VacuumedTable, step: Step) -> None:
    """Take one step; a step that names something missing does nothing."""
    live = list(table.newest.live.values())
    match step:
        case Wait(hours):
            table.now_ms += hours * HOUR_MS
        case Write(files, picks, stamp, changes):
            table.write(files, _picked(live, picks), stamp, changes)
        case Remove(picks, stamp):
            table.remove(_picked(live, picks), stamp)
        case Mark(picks, how, stamp, age):
            table.mark(_picked(live, picks), how, stamp, age)
        case AddAgain(pick, anew):
            found = [one for one in table.gone.values() if anew or _is_whole(table, [one])]
            for one in _picked(found, [pick]):
                table.add_again(one, anew=anew)
        case Restore(pick):
            versions = [
                v for v in table.versions if v.partition == table.partition and _is_whole(table, v.live.values())
            ]
            for version in _picked(versions, [pick]):
                table.restore(version)
        case Leave(what, age):
            leave(table, what, age)
        case Touch(pick, age):
            for path in _picked(sorted(path for path in _files(table) if not path.startswith("_delta_log/")), [pick]):
                table.put(path, (table.root / path).read_bytes(), age)
        case SetOwn(hours):
            table.set_own(hours)
        case Repartition(column):
            table.repartition(column)
        case StampCommits():
            table.stamp_commits()
        case Checkpoint():
            made = opened(table).checkpoint()
            table.look(checkpointed=not made.skipped)
        case ExpireLog(hours):
            expire(table, hours)
        case Vacuum():
            check_vacuum(table, step)


def opened(table: VacuumedTable) -> Table:
    """The table as deltacli sees it, at the time of the model."""
    return open_table(str(table.root), clock=fixed_clock(table.now_ms))


def expire(table: VacuumedTable, hours: int) -> None:
    """Clean the log, as far as it may be."""
    found = opened(table)
    plan = plan_expiry(found, ExpiryRequest(retention_ms=hours * HOUR_MS, allow_retention_below_ms=30 * 24 * HOUR_MS))
    if not plan.refusals:
        execute_change(LogExpiry(plan.request), found, plan=plan)
    table.look()


def leave(table: VacuumedTable, what: str, age: int) -> None:
    """Put something into the table's directory that no commit names: a file, a directory, a link, another table."""
    place = table.root / what
    if what.endswith("table/"):
        table.put(f"{what}_delta_log/{0:020d}.json", b'{"commitInfo":{}}\n', age)
        table.put(f"{what}f.parquet", content(), age)
    elif "@" in what:
        link = table.root / what[: what.index("@")]
        link.parent.mkdir(parents=True, exist_ok=True)
        target = {"@": "target.parquet", "@/": "", "@!": "none"}[what[what.index("@") :]]
        if not link.is_symlink():
            link.symlink_to(table.base / "outside" / target)
    elif what.endswith("/"):
        place.mkdir(parents=True, exist_ok=True)
        set_time(place, table.now_ms - age * HOUR_MS)
    else:
        table.put(what, content(), age)


def check_vacuum(table: VacuumedTable, step: Vacuum) -> None:
    """Everything that must hold of one vacuum."""
    rebuildable = table.rebuildable()
    keep = tuple(dict.fromkeys(_picked(rebuildable, step.keep)))
    before = listing(table.base)
    retention_ms = _retention_ms(table, step, before)
    needs = Needs(table, table.now_ms - (table.own_ms if retention_ms is None else retention_ms), keep)
    directory = None if step.lite else _directory(needs, table, before, step.prefix)
    asked: dict[str, Any] = {  # Any: arguments of different types
        "retention_ms": retention_ms,
        "allow_retention_below_ms": table.own_ms,
        "keep_versions": keep,
        "max_delete": "100%",
        "skip_nested_tables": True,
    }
    limited = asked | {"prefix": directory}
    faults = errors_of(table)

    full = dry_run(table, limited)
    lite = dry_run(table, asked | {"mode": "lite"}) if directory is None else set()
    assert before == listing(table.base), "a dry run changes something"
    assert full is not None
    assert lite is not None or 0 not in needs.times, "lite needs more than commit 0"
    assert (lite or set()) & files_of(table, before) <= full, "lite deletes more than full"
    planned = lite if step.lite else full
    if planned is None:
        return

    result = opened(table).vacuum(**limited, mode="lite" if step.lite else "full", log_entries=step.entries)
    after = listing(table.base)

    gone = files_of(table, before) - files_of(table, after)
    assert planned & files_of(table, before) == gone, "what a dry run lists is what goes"
    assert set() == gone & needs.must_stay().keys(), needs.must_stay()
    assert all(needs.may_go(path, before) for path in gone), [one for one in gone if not needs.may_go(one, before)]
    check_rest(table, before, after, gone)
    emptied = {path for path, entry in before.items() if entry.kind == "d" and path not in after}
    assert all(needs.is_removable(path, before) for path in emptied), emptied
    if not step.lite:
        if gone and directory is None:
            assert emptied == {path for path in before if needs.is_removable(path, before)}
        eligible = {path for path in needs.eligible(before) if _is_below(path, directory)}
        assert set() == eligible - gone, "something eligible stays"
        assert all(needs.is_old(path, before) for path in gone)
    assert result.outcome is not None
    assert len(gone) == result.outcome.deleted.files
    table.look()

    assert faults == errors_of(table) | faults, "the log has faults that it had not"
    check_versions(table, needs)
    if directory is None and (step.lite or lite is not None):
        check_other_mode(table, needs, asked, step)


def check_rest(table: VacuumedTable, before: Listing, after: Listing, gone: set[str]) -> None:
    """Nothing but the files meant and the log is different; outside of the table nothing is."""
    prefix = f"{table.start.root}/"
    for path, entry in before.items():
        is_meant = path.removeprefix(prefix) in gone or path == f"{prefix}_delta_log/_last_vacuum_info"
        assert is_meant or entry.kind == "d" or entry == after.get(path), path
    number = len(table.versions)
    names = [f"{number:020d}.json", f"{number + 1:020d}.json", "_last_vacuum_info"]
    assert after.keys() - before.keys() <= {f"{prefix}_delta_log/{name}" for name in names}


def check_versions(table: VacuumedTable, needs: Needs) -> None:
    """The newest version has its files, and the oldest one inside the retention can be read."""
    found = opened(table)
    newest = found.snapshot()
    paths = Counter(path for batch in newest.files() for path in batch.column("path").to_pylist())
    assert len(table.versions) - 1 == newest.version
    assert Counter(live.logged for live in table.newest.live.values()) == paths
    inside = needs.inside() & set(table.rebuildable())
    whole = [number for number in sorted(inside) if _is_whole(table, table.versions[number].live.values())]
    for number in {*whole[:1], *(version for version in needs.keep if version in whole), newest.version}:
        scan = found.snapshot(version=number).scan(columns=["id"])
        assert sum(live.rows for live in table.versions[number].live.values()) == sum(batch.num_rows for batch in scan)


def check_other_mode(table: VacuumedTable, needs: Needs, asked: dict[str, Any], step: Vacuum) -> None:
    """After a full run there is nothing left for a lite one; after a lite run nothing of what commits removed is left
    for a full one.
    """
    there = files_of(table, listing(table.base))
    if not step.lite:
        assert set() == (dry_run(table, asked | {"mode": "lite"}) or set()) & there, "lite goes on after full"
    else:
        assert set() == (dry_run(table, asked) or set()) & needs.removed() & there, "lite leaves something to full"


def dry_run(table: VacuumedTable, asked: dict[str, Any]) -> set[str] | None:
    """What would go; None where the log does not do for a lite run."""
    try:
        plan = opened(table).vacuum(**asked, dry_run=True).plan
    except Refused as refused:
        if refused.code != "vacuum.lite-impossible":
            raise
        return None
    assert () == plan.refusals, plan.refusals
    return {path.decode() for path in plan.candidates.column("path").to_pylist()}


def errors_of(table: VacuumedTable) -> Counter[str]:
    """The rules that the log breaks."""
    findings = opened(table).validate(max_findings=0).findings
    return Counter(finding.rule.id for finding in findings if finding.severity == "error")


def _retention_ms(table: VacuumedTable, step: Vacuum, entries: Listing) -> int | None:
    if step.since is None:
        return None if step.hours is None else step.hours * HOUR_MS
    times = {entry.modified_ns // 1_000_000 for entry in entries.values()}
    moments = sorted(times | set(table.times(table.present()).values()))
    return table.now_ms - min(moments[-1 - step.since % len(moments)], table.now_ms)


def _directory(needs: Needs, table: VacuumedTable, entries: Listing, pick: int | None) -> str | None:
    prefix = f"{table.start.root}/"
    below = sorted(
        path.removeprefix(prefix) for path, entry in entries.items() if entry.kind == "d" and path.startswith(prefix)
    )
    columns = {table.partition}
    shown = [path for path in below if needs.is_visible(f"{path}/x", entries, columns)]
    return None if pick is None or not shown else shown[pick % len(shown)]


def _is_below(path: str, directory: str | None) -> bool:
    return directory is None or path.startswith(f"{directory}/")


def _files(table: VacuumedTable) -> set[str]:
    return files_of(table, listing(table.base))


def _is_whole(table: VacuumedTable, files: Iterable[Live]) -> bool:
    return all((table.root / path).exists() for live in files for path in live.paths)


def _picked(found: Sequence[T], picks: Iterable[int]) -> list[T]:
    if not found:
        return []
    return [found[number] for number in dict.fromkeys(pick % len(found) for pick in picks)]
