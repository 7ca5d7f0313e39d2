"""Advice on the log and on settings: checkpoints, expired files, statistics of columns, features, retentions."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.changing.commit import require_possible
from deltacli.core.errors import Refused
from deltacli.core.hints import command
from deltacli.core.units import DAY_MS, format_duration, format_size, plural, some_of
from deltacli.delta.checkpoint.layout import Layout, choose_layout
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.protocol.feature_drops import PROTECTION, REMOVALS, VECTORS, require_droppable, uses_left
from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.delta.protocol.property_values import (
    DELETED_FILE_RETENTION,
    LOG_RETENTION,
    deleted_file_retention_ms,
    log_retention_ms,
    retentions_out_of_order,
)
from deltacli.delta.protocol.protocol_action import require_writable
from deltacli.delta.stats.schema import STATS_COLUMNS
from deltacli.operations.checkpoint.plan import DEFAULT_ROWS_A_SIDECAR
from deltacli.operations.doctor.findings import Severity
from deltacli.operations.doctor.table import advice as codes
from deltacli.operations.doctor.table.advice import Advice, Saves, saved
from deltacli.operations.doctor.table.examined import Examined

_INTERVALS_BEHIND, _FEWEST_BEHIND, _MANY_BEHIND = 2, 20, 100
"""Commits since the checkpoint from which advice is given, in intervals of the table and at least, and from which it
is a warning.
"""
_BYTES_BEHIND = 16 << 20
_FEWEST_EXPIRED = 20
_EXPIRED_BYTES = 10 << 20
_SHARE = 0.1
_KEPT_FEATURES = frozenset({PROTECTION, "vacuumProtocolCheck", "materializePartitionColumns"})
"""Features that protect something without being used by the schema or the properties."""


def log_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on the log and on settings."""
    yield from problem_advice(facts)
    yield from _checkpoint(facts)
    yield from _expired(facts)
    try:
        require_possible(facts.snapshot, CommitRequest("SET TBLPROPERTIES"))
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
        f"the log has problems that readers work around: {', '.join(found)}",
        "problems",
        {"problems": len(found)},
        {"problems": None},
        Saves(),
        command("validate"),
    )


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
    is_much = size_bytes >= _EXPIRED_BYTES or count >= max(_FEWEST_EXPIRED, _SHARE * facts.log_files)
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
    gain = f", so {plural(len(beyond), 'column')} beyond them have no statistics" if beyond else ""
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
    return some_of([one.name for one in columns], 3)  # type: ignore[attr-defined]


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
