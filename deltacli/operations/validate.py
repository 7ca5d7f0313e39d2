"""`validate`: every file of the log read once, in the order of versions, and judged by the rules of the catalogue.

Replay stops at the first fault; this goes on. What can't be read is a finding, and what follows from it is judged as
far as it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deltacli.delta.features import FEATURES
from deltacli.delta.regime import Regime
from deltacli.delta.rules.base import Finding, Place
from deltacli.delta.rules.views import HistoryView, ListingView, StateView, StorageView
from deltacli.engine.base import Engine
from deltacli.operations.findings import Choice, Collector
from deltacli.operations.inspect_log import LogInspector
from deltacli.operations.inspect_storage import list_log_whole, list_table, make_exists
from deltacli.progress import SILENT, Progress
from deltacli.storage import Storage

DEFAULT_MOST = 100


@dataclass(frozen=True, slots=True)
class Validation:
    """What was found in one table. `version` is the newest that its log names, whole or not; `findings` are in the
    order of files and lines; `suppressed` tells for each rule how many findings above the limit were left out;
    `not_checked` says what could not be judged, and why.
    """

    table: str
    version: int | None
    level: str
    findings: tuple[Finding, ...]
    suppressed: Mapping[str, int]
    not_checked: tuple[str, ...]
    rules: frozenset[str] = frozenset()
    """The ids of the rules that were asked for."""


def validate_table(
    storage: Storage,
    engine: Engine,
    *,
    level: str = "log",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    profile: str = "current",
    max_findings: int = DEFAULT_MOST,
    now_ms: int,
    progress: Progress = SILENT,
    on_finding: Callable[[Finding], None] | None = None,
) -> Validation:
    """Check a table against the rules of a level (`log`, `storage`); `select` and `ignore` are globs over rule ids.

    Works on tables that can't be opened. Raises NotATable only where there is nothing at the path, and StorageFailed.
    """
    collector = Collector(Choice(level, select, ignore, profile), max_findings, on_finding)
    log = list_log_whole(storage, progress)
    inspector = LogInspector(storage, engine, collector, log, now_ms, progress)
    inspector.run()
    regime = inspector.last_known
    view = ListingView(
        log.files,
        log.directories,
        log.sidecars,
        log.staged,
        log.listing,
        regime,
        now_ms,
        log.has_hint,
        log.exists,
        inspector.named_sidecars(),
    )
    collector.look(view, view.place())
    history = HistoryView(inspector.commits, log.listing, regime, now_ms, inspector.counts)
    collector.look(history, view.place())
    state = inspector.state_view()
    if state is not None:
        collector.look(state, state.place())
    if level == "storage":
        _look_at_storage(storage, collector, inspector, state, now_ms, progress)
    return Validation(
        storage.uri,
        inspector.version if inspector.version >= 0 else None,
        level,
        tuple(sorted(collector.findings, key=_order)),
        dict(sorted(collector.suppressed.items())),
        (*inspector.not_checked, *_unknown_features(regime)),
        collector.rules,
    )


def _look_at_storage(
    storage: Storage,
    collector: Collector,
    inspector: LogInspector,
    state: StateView | None,
    now_ms: int,
    progress: Progress,
) -> None:
    """List the table and compare it with its newest state."""
    if not collector.looks_at(StorageView):
        return
    if state is None:
        inspector.not_checked.append("the table's files were not compared: no version of it can be rebuilt")
        return
    listed = list_table(storage, progress)
    view = StorageView(
        listed.files,
        listed.nested_logs,
        state,
        inspector.files.live_adds(),
        inspector.all_removes(),
        inspector.cdc,
        inspector.commits,
        storage.uri,
        now_ms,
        make_exists(storage),
    )
    collector.look(view, Place(""))


def _unknown_features(regime: Regime) -> list[str]:
    """What features that nobody here knows keep from being checked."""
    unknown = sorted(regime.features - FEATURES.keys())
    if not unknown:
        return []
    names = ", ".join(unknown)
    word = "features" if len(unknown) > 1 else "feature"
    return [f"what the unknown {word} {names} may ask of the log and the files"]


def _order(finding: Finding) -> tuple[str, int, str, str]:
    place = finding.place
    return (place.path, place.line or 0, finding.rule.id, place.key or "")
