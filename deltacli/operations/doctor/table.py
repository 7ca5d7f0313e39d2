"""`doctor table`: one replay of the log and one pass over the live files, then advice on files, log and settings.

The numbers of afterwards are those of the planners that the commands use, and of a sample of new files.

Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.request_checks import require_committable_change
from deltacli.core.errors import (
    TABLE_PLACEHOLDER,
    CommitCorrupt,
    DataUnreadable,
    DeltacliError,
    FileMissing,
    Refused,
    Unreadable,
    UsageError,
    command,
)
from deltacli.core.texts import summarize_names
from deltacli.core.times import DAY_MS, format_duration
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.core.units import format_size, plural
from deltacli.delta.checkpoint.layout import Layout, choose_layout
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.file_actions import SMALL_FILE_BYTES
from deltacli.delta.log.state import (
    DELETED_FILE_RETENTION,
    LOG_RETENTION,
    deleted_file_retention_ms,
    log_retention_ms,
    retentions_out_of_order,
)
from deltacli.delta.protocol.feature_changes import PROTECTION, REMOVALS, VECTORS, require_droppable, uses_left
from deltacli.delta.protocol.features import FEATURES, FeatureKind, require_writable
from deltacli.delta.schema.to_arrow import require_partitions
from deltacli.delta.stats.schema import STATS_COLUMNS
from deltacli.operations.change.properties_and_features import list_features
from deltacli.operations.checkpoint.checkpoint import DEFAULT_ROWS_A_SIDECAR
from deltacli.operations.doctor import advice as codes
from deltacli.operations.doctor.advice import (
    REQUESTS_PER_FILE,
    Advice,
    DoctorRequest,
    Saves,
    Severity,
    prices_of,
    saved,
)
from deltacli.operations.doctor.examined import Examined, TableReport, Tombstones, read_timeline
from deltacli.operations.doctor.live_state import LiveState, live_state, statistics_state
from deltacli.operations.log.expire import ExpiryRequest, plan_expiry
from deltacli.operations.optimize.live_files import Bin, select
from deltacli.operations.optimize.plan import OptimizePlan, open_groups, plan_of_files
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.vacuum.full_plan import kept_walk, plan_vacuum
from deltacli.operations.vacuum.plan import Reason, VacuumPlan, VacuumRequest
from deltacli.operations.validate.findings import LevelChoice, ValidateRequest
from deltacli.operations.validate.inspect_storage import WholeLog, list_log_whole
from deltacli.operations.validate.validate import Validation, validate_table
from deltacli.rules.framework.engines import engines_stopped_by, enumerate_engines
from deltacli.rules.framework.repairs import ARCHIVED_FILES
from deltacli.storage.optional_interfaces import (
    is_shared_directory,
    is_shared_table,
)
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_newest_readable
from deltacli.table.version import Snapshot
from deltacli.table.walk import CachedWalk
from deltacli.work.rewrite.pieces import SPEC, RewritePiece
from deltacli.work.rewrite.rewriting import measure_rewrite

# -- advice on data files ----------------------------------------------------------------------------------------------

_FEWEST, _MANY = 10, 100
"""Files that advice saves at least, and from which it is a warning."""
_SHARE, _LARGE_SHARE = 0.1, 0.5
"""Shares of the table from which advice is given, and from which it is a warning."""
_PARTITIONS = 100
_EXAMPLES = 2
_MIB = 1 << 20
_BINS, _FILES, _BYTES = 8, 64, 8 << 20
"""The most bins that are sampled, and of each the most files and bytes."""


def lost_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on live files that cannot be read, before which nothing else should be done."""
    if facts.lost is None or not facts.lost.findings:
        return
    messages = [one.message for one in facts.lost.findings if one.rule.id != ARCHIVED_FILES]
    if not messages:
        return
    count = len(messages) + sum(facts.lost.suppressed.values())
    shown = list(dict.fromkeys(messages))[:_EXAMPLES]  # a file of deletion vectors has those of several
    left = count - sum(one in shown for one in messages)
    more = f"; and {left:,} more" if left else ""
    yield Advice(
        codes.LOST_FILES,
        Severity.ERROR,
        f"rows of {plural(count, 'live file')} cannot be read: {'; '.join(shown)}{more}. Bring the "
        "files back before anything is rewritten or deleted",
        "live files that are missing or have another size than the log records",
        {"lostFiles": count},
        {},
        Saves(),
        command("reach") if facts.snapshot.protocol.is_catalog_managed else command("repair", dry_run=True),
    )


def archived_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on live files in an archive of the store, which no command can read or rewrite."""
    findings = () if facts.lost is None else facts.lost.findings
    for finding in findings:
        if finding.rule.id == ARCHIVED_FILES:
            yield Advice(
                codes.ARCHIVED_FILES,
                Severity.ERROR,
                f"{finding.message}. Restore them with the tools of the store before anything reads or rewrites the "
                "table, and exclude the table from the lifecycle rule that archives its files",
                "live files in an archive of the store",
                {"archivedFiles": int(finding.seen or 0)},
                {},
                Saves(),
                command("validate", level="storage"),
            )


def file_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on data files."""
    plan = facts.optimize
    if plan is not None:
        yield from _small_files(facts, plan)
        yield from _deleted_rows(facts)
        yield from _without_statistics(facts)
        yield from _partitions(facts, plan)
    if facts.vacuum is not None:
        yield from _unreferenced(facts, facts.vacuum)


def _small_files(facts: Examined, plan: OptimizePlan) -> Iterator[Advice]:
    chosen, count = plan.selection, facts.state.count
    fewer = chosen.files - chosen.outputs
    if fewer < _FEWEST or fewer < _SHARE * count:
        return
    after = count - fewer
    requests = REQUESTS_PER_FILE * fewer - len(plan.groups)
    size_after = bytes_after(plan)
    yield Advice(
        codes.SMALL_FILES,
        Severity.WARNING if fewer >= _MANY and fewer >= _LARGE_SHARE * count else Severity.INFO,
        f"{chosen.files:,} of {plural(count, 'file')} ({format_size(chosen.size_bytes)}) would become "
        f"{chosen.outputs:,}{_where(facts, fewer)}",
        "live files, and the requests of a read of the whole table",
        _files_now(facts),
        {"files": after, "bytes": size_after, "requests": facts.read_requests - requests},
        saved(facts.prices, files=fewer, size_bytes=_less(facts, size_after), requests=requests),
        command("optimize"),
    )


def _where(facts: Examined, fewer: int) -> str:
    """Return in how many partitions files are saved, and the partition with most of them."""
    by_partition = facts.saved_by_partition
    if len(by_partition) < 2:
        return ""
    touched = sum(1 for one in by_partition if one)
    worst = max(range(len(by_partition)), key=by_partition.__getitem__)
    most = by_partition[worst]
    named = f", {most:,} of them in {facts.state.name_of(worst)}" if most > _LARGE_SHARE * fewer and touched > 1 else ""
    return f", in {touched:,} of {plural(len(by_partition), 'partition')}{named}"


def _files_now(facts: Examined) -> dict[str, int | None]:
    return {"files": facts.state.count, "bytes": facts.state.size_bytes, "requests": facts.read_requests}


def _less(facts: Examined, size_after: int | None) -> int | None:
    """Return how many bytes fewer the live files have afterwards: the old ones stay until a vacuum deletes them."""
    return None if size_after is None else facts.state.size_bytes - size_after


def _deleted_rows(facts: Examined) -> Iterator[Advice]:
    state = facts.state
    if not state.vectors:
        return
    is_many = state.vectors >= _SHARE * state.count and state.vectors >= _FEWEST
    if state.deleted_rows < _SHARE / 2 * max(state.records, 1) and not is_many:
        return
    plan = plan_of_files(facts.snapshot, OptimizeRequest(purge=True), state.live)
    chosen = plan.selection
    if not chosen.vectors:
        return
    fewer = chosen.files - chosen.outputs
    left = state.vectors - chosen.vectors
    size_after = bytes_after(plan)
    gone = _less(facts, size_after)
    vector_files = state.vector_files if not left else 0
    requests = REQUESTS_PER_FILE * fewer + vector_files - len(plan.groups)
    is_large = state.deleted_rows >= _SHARE * max(state.records, 1)
    yield Advice(
        codes.DELETED_ROWS,
        Severity.WARNING if is_large else Severity.INFO,
        f"{plural(state.deleted_rows, 'deleted row')} of {state.records:,} are still in "
        f"{plural(state.vectors, 'file')}; every reader skips them",
        "live files with their deletion vectors, and the requests of a read of the whole table",
        _files_now(facts) | {"vectors": state.vectors},
        {
            "files": state.count - fewer,
            "bytes": size_after,
            "requests": facts.read_requests - requests,
            "vectors": left,
        },
        saved(facts.prices, files=fewer, size_bytes=gone, requests=requests, read_bytes=gone or 0),
        command("optimize", purge=True),
    )


def _without_statistics(facts: Examined) -> Iterator[Advice]:
    """Files get statistics from their footers, without being rewritten."""
    state = facts.state
    missing = state.without_records
    if missing < _FEWEST or missing < _SHARE * state.count:
        return
    from deltacli.operations.change.stats import COMMIT_FILES

    commits = -(-missing // COMMIT_FILES)
    has, them = ("has", "it") if missing == 1 else ("have", "them")
    yield Advice(
        codes.NO_STATISTICS,
        Severity.WARNING if missing >= _LARGE_SHARE * state.count else Severity.INFO,
        f"{missing:,} of {plural(state.count, 'file')} {has} no statistics, so every query opens {them}; reading "
        f"{plural(missing, 'footer')} and {plural(commits, 'commit')} add them, without rewriting data",
        "live files, and those without statistics",
        _files_now(facts) | {"withoutStatistics": missing},
        _files_now(facts) | {"withoutStatistics": 0},
        saved(facts.prices),
        command("stats"),
    )


def _partitions(facts: Examined, plan: OptimizePlan) -> Iterator[Advice]:
    state, count = facts.state, facts.state.partitions.num_rows
    if count < _PARTITIONS or state.size_bytes >= SMALL_FILE_BYTES * count:
        return
    alike = state.live.columns._replace(groups=pa.repeat(pa.scalar(0, pa.int32()), state.count))
    whole = select(alike, replace(plan.rules, purge=False))
    best = state.count - whole.files + whole.outputs
    after = state.count - plan.selection.files + plan.selection.outputs
    if best > _LARGE_SHARE * after:
        return
    requests = REQUESTS_PER_FILE * (state.count - best)
    columns = ", ".join(facts.snapshot.metadata.partition_columns)
    yield Advice(
        codes.PARTITIONS,
        Severity.WARNING,
        f"{plural(count, 'partition')} by {columns} have {format_size(state.size_bytes // count)} each on average, so "
        f"an optimization leaves {after:,} files; without partitions it would be {best:,}. Write the table again with "
        "fewer partition columns, or with clustering; no command of deltacli does this",
        "live files, and the requests of a read of the whole table",
        _files_now(facts) | {"partitions": count},
        {"files": best, "bytes": None, "requests": facts.read_requests - requests, "partitions": 1},
        saved(facts.prices, files=state.count - best, requests=requests),
        None,
    )


_PROVEN = (Reason.TOMBSTONE, Reason.VECTOR, Reason.CHANGE_DATA)
"""Reasons that the log itself gives."""


def _unreferenced(facts: Examined, plan: VacuumPlan) -> Iterator[Advice]:
    is_much = plan.files >= _FEWEST or plan.size_bytes >= max(_SHARE * facts.state.size_bytes, _MIB)
    if not plan.files or not is_much:
        return
    options: dict[str, bool] = {}
    above = ""
    for refusal in plan.refusals:
        proven = sum(plan.totals[reason].amount.files for reason in _PROVEN if reason in plan.totals)
        if refusal.code != "vacuum.max-delete" or proven < (1 - _SHARE) * plan.files:
            facts.notes.append(f"no advice on unreferenced files: vacuum is refused: {refusal.message}")
            return
        options["dry_run"] = True
        above = ", above the limit of what one vacuum deletes: look at the plan first"
    kinds = ", ".join(
        f"{totals.amount.files:,} {'removed' if reason is Reason.TOMBSTONE else reason.value}"
        for reason, totals in plan.totals.items()
    )
    now = {"files": plan.files, "bytes": plan.size_bytes, "requests": None}
    yield Advice(
        codes.UNREFERENCED,
        Severity.WARNING if plan.size_bytes >= max(_LARGE_SHARE * facts.state.size_bytes, _MIB) else Severity.INFO,
        f"{plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) are not needed by any retained version "
        f"({kinds}){above}",
        "unreferenced files",
        now,
        {"files": 0, "bytes": 0, "requests": None},
        saved(facts.prices, files=plan.files, size_bytes=plan.size_bytes),
        command("vacuum", table=TABLE_PLACEHOLDER, **options),
    )


class _Sample(NamedTuple):
    """Files of a bin, and the bytes that their live rows take now."""

    piece: RewritePiece
    live_bytes: float


def bytes_after(plan: OptimizePlan) -> int | None:
    """Return about how many bytes the live files would have; None where no sample can be read. Raises StorageFailed."""
    chosen = plan.selection
    total = int(pc.sum(plan.live.columns.sizes).as_py() or 0)
    rest = total - chosen.size_bytes
    whole = _live_bytes(plan, chosen.places(chosen.bins))
    if not whole:
        return rest
    try:
        samples = list(_samples(plan))
        table = plan.table
        pieces = [one.piece for one in samples]
        found = list(table.engine.run_tasks(measure_rewrite, pieces, table.stores, shared={SPEC: plan.spec}))
    except DeltacliError:
        return None
    known = [(size, one.live_bytes) for size, one in zip(found, samples, strict=True) if size is not None]
    if not known or len(known) < len(samples):
        return None
    return rest + round(whole * sum(size for size, _ in known) / sum(now for _, now in known))


def _samples(plan: OptimizePlan) -> Iterator[_Sample]:
    """Yield files of bins that have live rows, evenly chosen among all bins."""
    bins = [one for one in plan.selection.bins if one.outputs]
    step = max(1, -(-len(bins) // _BINS))
    parts = [_part(plan, one) for one in bins[::step]]
    for opened in open_groups(plan, [parts]):
        yield from (_Sample(one.piece, _live_bytes(plan, plan.selection.places([one.bin]))) for one in opened)


def _part(plan: OptimizePlan, one: Bin) -> Bin:
    """Return the beginning of a bin, at least one file of it."""
    sizes = pc.take(plan.live.columns.sizes, plan.selection.order.slice(one.start, min(one.files, _FILES))).to_pylist()
    files = taken = 0
    for size in sizes:
        if files and taken + size > _BYTES:
            break
        files, taken = files + 1, taken + size
    return one._replace(stop=one.start + files)


def _live_bytes(plan: OptimizePlan, places: Sequence[int]) -> float:
    """Return the bytes of the live rows of files, as far as their numbers are known."""
    at = pa.array(places, pa.int64())
    columns = plan.live.columns

    def of(column: ArrowArray) -> ArrowArray:
        return pc.cast(pc.take(column, at), pa.float64())

    rows = pc.max_element_wise(pc.fill_null(of(columns.rows), 0.0), 1.0)
    share = pc.min_element_wise(pc.divide(pc.fill_null(of(columns.deleted), 0.0), rows), 1.0)
    return float(pc.sum(pc.multiply(of(columns.sizes), pc.subtract(1.0, share))).as_py() or 0)


# -- advice on log and settings ----------------------------------------------------------------------------------------

_INTERVALS_BEHIND, _FEWEST_BEHIND, _MANY_BEHIND = 2, 20, 100
"""Commits since the checkpoint from which advice is given (in intervals, and at least), and from which it warns."""
_BYTES_BEHIND = 16 << 20
_FEWEST_EXPIRED = 20
_EXPIRED_BYTES = 10 << 20
_EXPIRED_SHARE = 0.1
_KEPT_FEATURES = frozenset({PROTECTION, "vacuumProtocolCheck", "materializePartitionColumns"})
"""Features that protect something without being used by the schema or the properties."""


def log_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on the log and on settings."""
    yield from problem_advice(facts)
    yield from _checkpoint(facts)
    yield from _expired(facts)
    try:
        require_committable_change(facts.snapshot, CommitRequest("SET TBLPROPERTIES"))
    except Refused as fault:
        facts.notes.append(f"no advice on settings: {fault.message}")
        return
    yield from _columns(facts)
    yield from _features(facts)
    yield from _retentions(facts)


def problem_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on problems of the log."""
    found = facts.snapshot.problems
    if not found:
        return
    yield Advice(
        codes.LOG_PROBLEMS,
        Severity.WARNING,
        _name_problems(found),
        "problems",
        {"problems": len(found)},
        {"problems": None},
        Saves(),
        command("validate"),
    )


def _name_problems(rule_ids: Sequence[str]) -> str:
    """Return what problems of the log mean for readers: deltacli has worked around them, others may not."""
    stopping = [rule_id for rule_id in rule_ids if engines_stopped_by([rule_id])]
    if not stopping:
        return f"the log has problems that readers work around: {', '.join(rule_ids)}"
    engines = enumerate_engines(engines_stopped_by(stopping))
    sentence = f"the log has problems that may stop {engines}: {', '.join(stopping)}"
    others = [rule_id for rule_id in rule_ids if rule_id not in stopping]
    return f"{sentence}; readers work around {', '.join(others)}" if others else sentence


def _checkpoint(facts: Examined) -> Iterator[Advice]:
    behind = facts.commits_behind
    size_bytes = sum(file.size_bytes for file in facts.snapshot.segment.commits)
    is_far = behind >= max(_INTERVALS_BEHIND * facts.interval, _FEWEST_BEHIND)
    if not is_far and (size_bytes < _BYTES_BEHIND or behind < 2):
        return
    snapshot = facts.snapshot
    try:
        require_writable(snapshot.protocol, snapshot.version)
        layout = choose_layout(snapshot.protocol, snapshot.properties, None)
    except Refused as fault:
        facts.notes.append(f"no advice on checkpoints: {fault.message}")
        return
    after = 1
    if layout is Layout.V2:
        actions = facts.state.count + facts.tombstones.count - facts.tombstones.expired
        after += max(1, -(-actions // DEFAULT_ROWS_A_SIDECAR))
    fewer = facts.opened_files - after
    if fewer <= 0:
        return
    checkpoint = snapshot.segment.checkpoint
    since = (
        "there is no checkpoint" if checkpoint is None else f"the last checkpoint is of version {checkpoint.version}"
    )
    yield Advice(
        codes.CHECKPOINT,
        Severity.WARNING if behind >= _MANY_BEHIND else Severity.INFO,
        f"every reader replays {plural(behind, 'commit')} ({format_size(size_bytes)}), because {since}",
        "files of the log that a reader opens for the newest version, and the requests of a read of the whole table",
        {"files": facts.opened_files, "bytes": None, "requests": facts.read_requests},
        {"files": after, "bytes": None, "requests": facts.read_requests - facts.opening_requests + 2 + after},
        saved(facts.prices, files=0, requests=facts.opening_requests - 2 - after),
        command("checkpoint"),
    )


def _expired(facts: Examined) -> Iterator[Advice]:
    plan = facts.expiry
    if plan is None or not plan.files:
        return
    count, size_bytes = len(plan.files), plan.size_bytes
    is_much = size_bytes >= _EXPIRED_BYTES or count >= max(_FEWEST_EXPIRED, _EXPIRED_SHARE * facts.log_files)
    if not is_much:
        return
    if plan.refusals:
        facts.notes.append(f"no advice on the log: log expire is refused: {plan.refusals[0].message}")
        return
    lost = f"; {plural(len(plan.lost_versions), 'version')} older than that can no longer be read then"
    yield Advice(
        codes.LOG_EXPIRED,
        Severity.WARNING if count >= _MANY_BEHIND and 2 * count >= facts.log_files else Severity.INFO,
        f"{count:,} of {plural(facts.log_files, 'file')} of the log ({format_size(size_bytes)}) are older than the "
        f"retention of {format_duration(plan.retention_ms)}{lost if plan.lost_versions else ''}",
        "files of the log",
        {"files": facts.log_files, "bytes": facts.log_bytes, "requests": None},
        {"files": facts.log_files - count, "bytes": facts.log_bytes - size_bytes, "requests": None},
        saved(facts.prices, files=count, size_bytes=size_bytes),
        command("log expire"),
    )


def _columns(facts: Examined) -> Iterator[Advice]:
    """Indexed columns whose bounds leave no file out take the places of columns that have none."""
    state = facts.statistics
    if state.is_chosen or facts.state.count < 2:
        return
    useless = [one for one in state.columns if one.is_indexed and not one.is_useful]
    wanted = state.wanted
    beyond = [one for one in wanted if not one.is_indexed]
    long = [one for one in useless if one.can_skip]
    if not useless or not (beyond or long) or not wanted:
        return
    has = "has" if len(beyond) == 1 else "have"
    gain = f", so {plural(len(beyond), 'column')} beyond them {has} no statistics" if beyond else ""
    now, after = len(state.useful), len(wanted)
    yield Advice(
        codes.COLUMNS,
        Severity.INFO,
        f"statistics of {plural(len(useless), 'column')} leave no file out ({_names(useless)}: "
        f"{'long texts, ' if long else ''}types without an order, or no bounds){gain}; files that are written from "
        "then on have the new ones",
        "columns whose statistics can leave files out",
        {"columns": now, "uselessColumns": len(useless)},
        {"columns": after, "uselessColumns": 0},
        Saves(),
        command("properties set", {STATS_COLUMNS: ",".join(one.name for one in wanted)}),
    )


def _names(columns: object) -> str:
    return summarize_names([one.name for one in columns], 3)  # type: ignore[attr-defined]


def _features(facts: Examined) -> Iterator[Advice]:
    snapshot = facts.snapshot
    domains = [domain.domain for domain in snapshot.domains]
    for one in facts.features:
        if one.name not in REMOVALS or one.name in _KEPT_FEATURES or not one.is_listed:
            continue
        is_active = one.is_active and not (one.name in FEATURES and FEATURES[one.name].is_always_active)
        if is_active or (one.name == VECTORS and facts.state.vectors):
            continue
        try:
            removal = require_droppable(snapshot.config, one.name)
        except Refused:
            continue
        if any(uses_left(snapshot.config, one.name, domains)):
            continue
        is_of_readers = FEATURES[one.name].kind is FeatureKind.READER_WRITER
        who = "readers and writers" if is_of_readers else "writers"
        added = removal.protects_history and PROTECTION not in snapshot.config.features
        behind = f"; {PROTECTION} is added for the versions that need it" if added else ""
        count = len(facts.features)
        yield Advice(
            codes.FEATURE,
            Severity.INFO,
            f"the feature {one.name} is not used, but {who} without it are shut out{behind}",
            f"features of the protocol, and whether {one.name} is one",
            {"features": count, "unused": 1},
            {"features": count if added else count - 1, "unused": 0},
            Saves(),
            command("features drop", one.name),
        )


def _retentions(facts: Examined) -> Iterator[Advice]:
    properties = facts.snapshot.properties
    if retentions_out_of_order(properties) is None:
        return
    of_log, of_files = log_retention_ms(properties), deleted_file_retention_ms(properties)
    days, rest = divmod(of_files, DAY_MS)
    text = f"interval {days} days" if not rest else f"interval {-(-of_files // 3_600_000)} hours"
    yield Advice(
        codes.RETENTIONS,
        Severity.WARNING,
        f"the log is kept for {format_duration(of_log)} and removed files for {format_duration(of_files)}: files are "
        "kept for versions that can no longer be read, and Delta-Spark refuses changes of the properties",
        f"milliseconds that the log is kept, by {LOG_RETENTION}; those of {DELETED_FILE_RETENTION} stay",
        {"logMs": of_log, "filesMs": of_files},
        {"logMs": of_files, "filesMs": of_files},
        Saves(),
        command("properties set", {LOG_RETENTION: text}),
    )


# -- `doctor table` ----------------------------------------------------------------------------------------------------

Plan = TypeVar("Plan")


def examine_table(table: TableHandle, request: DoctorRequest) -> TableReport:
    """Return the state of the newest version in numbers, and advice: lost files, else what saves most first. Where
    commits are missing, return the state of the newest version that can be rebuilt, without advice.

    Raises what `read_newest_readable` and `require_partitions` raise, and UsageError for a shared table.
    """
    if is_shared_table(table.storage) or is_shared_directory(table.storage):
        raise UsageError(
            "doctor table works on Delta tables only: the provider of a shared table cares for its files",
            hint=command("snapshot"),
        )
    snapshot, gap = read_newest_readable(table)
    require_partitions(snapshot.config, snapshot.version)
    whole = list_log_whole(table.storage, table.progress)
    state = live_state(snapshot, sum(piece.group.rows for piece in snapshot.file_actions.pieces))
    facts = Examined(
        snapshot=snapshot,
        now_ms=table.clock(),
        prices=request.prices or prices_of(table.storage),
        whole=whole,
        state=state,
        statistics=statistics_state(snapshot, state),
        tombstones=_tombstones(snapshot, table.clock()),
        timeline=read_timeline(snapshot, whole.listing, state.count, state.size_bytes),
        features=list_features(snapshot),
        gap=gap,
    )
    if gap is not None:
        facts.notes.append(
            "no advice until the missing commits are back: nothing should be rewritten or deleted before"
        )
        return TableReport(facts, ())
    facts = _with_plans(facts, listing=request.listing)
    return TableReport(facts, tuple(_advice(facts)))


def _with_plans(facts: Examined, *, listing: bool) -> Examined:
    """Return what is known of a table with the plans of the commands that advice names."""
    snapshot, whole, notes = facts.snapshot, facts.whole, facts.notes
    table, walk = snapshot.table, kept_walk(snapshot)
    lost = _planned(notes, "files that are missing", lambda: _lost(table, whole, walk) if listing else None)

    def vacuum_plan() -> VacuumPlan | None:
        request = VacuumRequest(dry_run=True)
        return plan_vacuum(table, request, snapshot=snapshot, walk=walk) if listing else None

    return replace(
        facts,
        optimize=_planned(notes, "data files", lambda: _optimization(snapshot, facts.state, lost)),
        vacuum=_planned(notes, "unreferenced files", vacuum_plan),
        expiry=_planned(
            notes, "the log", lambda: plan_expiry(table, ExpiryRequest(dry_run=True), snapshot=snapshot, whole=whole)
        ),
        lost=lost,
    )


def _lost(table: TableHandle, whole: WholeLog, walk: CachedWalk | None) -> Validation:
    """Look for files of live rows and of deletion vectors that are missing, have another size than in the log, or are
    in an archive of the store.
    """
    from deltacli.rules.files.deletion_vectors import VECTOR_FILE_MISSING
    from deltacli.rules.files.storage import FILE_MISSING, SIZE_MISMATCH

    rules = (FILE_MISSING.id, SIZE_MISMATCH.id, VECTOR_FILE_MISSING.id, ARCHIVED_FILES)
    request = ValidateRequest(level=LevelChoice.STORAGE, select=rules)
    return validate_table(table, request, whole=whole, walk=walk)


_REWRITING = frozenset({codes.SMALL_FILES, codes.DELETED_ROWS, codes.NO_STATISTICS})


def _advice(facts: Examined) -> list[Advice]:
    """Return the advice in an order in which each command works after those before it."""
    if lost := [*lost_advice(facts), *archived_advice(facts)]:
        facts.notes.append("no other advice until these files are back: nothing should be rewritten or deleted before")
        return [*lost, *problem_advice(facts)]
    found = list(chain(file_advice(facts), log_advice(facts)))
    found.sort(key=lambda one: (-one.worth, list(type(one.severity)).index(one.severity)))
    # A vacuum comes before what rewrites files: afterwards the old files are most of the table, and it is refused.
    place = next((place for place, one in enumerate(found) if one.code == codes.UNREFERENCED), 0)
    first = next((place for place, one in enumerate(found[:place]) if one.code in _REWRITING), place)
    if first < place:
        found.insert(first, found.pop(place))
    return found


def _optimization(snapshot: Snapshot, state: LiveState, lost: Validation | None) -> OptimizePlan:
    """Plan in numbers only where files are lost: nothing is advised then, and all might be opened in vain."""
    if not state.is_typed:
        raise Unreadable("partition values are not of the types of their columns", code="partition.unparsable")
    return plan_of_files(
        snapshot, OptimizeRequest(dry_run=True), state.live, open_files=lost is None or not lost.findings
    )


def _planned(notes: list[str], what: str, plan: Callable[[], Plan]) -> Plan | None:
    """Return a plan; None, with a note, where it cannot be made."""
    try:
        return plan()
    except (Unreadable, CommitCorrupt, DataUnreadable, FileMissing, Refused) as fault:
        notes.append(f"no advice on {what}: {fault.message}")
        return None


def _tombstones(snapshot: Snapshot, now_ms: int) -> Tombstones:
    cutoff_ms = now_ms - deleted_file_retention_ms(snapshot.properties)

    def counted(removes: RecordBatch) -> tuple[int, int, int, int]:
        moments, sizes = pc.fill_null(removes.column("deletionTimestamp"), 0), removes.column("size")
        expired = pc.sum(pc.less_equal(moments, cutoff_ms)).as_py() or 0
        return removes.num_rows, expired, pc.sum(sizes).as_py() or 0, sizes.null_count

    parts = list(snapshot.file_actions.map_actions("remove", counted, fields=("deletionTimestamp", "size")))
    count, expired, size_bytes, unknown = (
        (sum(column) for column in zip(*parts, strict=True)) if parts else (0, 0, 0, 0)
    )
    return Tombstones(count, expired, None if unknown else size_bytes)
