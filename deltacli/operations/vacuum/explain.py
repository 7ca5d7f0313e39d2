"""Why one file is kept or deleted, with the commits that name it. Spec: Add File and Remove File; Deletion Vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from deltacli.core.errors import FileMissing, UsageError, command, parameter
from deltacli.core.texts import add_article
from deltacli.core.times import format_duration, format_timestamp
from deltacli.core.typing import ArrowArray
from deltacli.core.units import format_size
from deltacli.delta.data_files import MANIFESTS
from deltacli.delta.listing import HiddenNames
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.engine_readings import SEVERAL_SPELLINGS
from deltacli.delta.paths.keys import encode_paths_as_binary
from deltacli.delta.paths.spelling import IS_ABSOLUTE, decode, encode_percent_signs
from deltacli.delta.paths.spelling_columns import locate_all
from deltacli.delta.schema.misnamed_fields import MISNAMED
from deltacli.operations.vacuum.candidates import CandidateClassifier, Candidates, choose, spare_linked
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.missing_files import advice, choose_without_misnamed, explain_outside
from deltacli.operations.vacuum.plan import Reason, VacuumRequest
from deltacli.operations.vacuum.plan_context import PlanContext, missing_commits, prepare, removed_in_gap
from deltacli.storage import PathKind
from deltacli.table.file_history import MISSING_ADD_RULE
from deltacli.table.file_references import FileReferenceReader, FileReferences
from deltacli.table.nested_tables import find_table_format
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import read_commit_time
from deltacli.work.commits.provenance import read_provenance
from deltacli.work.files.walking import ListedFiles

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

_WORDS = {"add": "adds it", "remove": "removes it", "cdc": "names it as change data"}
_WHY_IT_GOES = {
    Reason.TOMBSTONE: "it was removed longer ago than the retention, and no retained version needs it",
    Reason.UNCOMMITTED: "no version in the log names it, and it is older than the retention",
    Reason.VECTOR: "no retained version needs this file of deletion vectors",
    Reason.CHANGE_DATA: "no retained commit names this change data",
}


class ExplainedCommit(NamedTuple):
    """A commit that names the file: `action` is `add`, `remove`, `cdc` or `vector`, `detail` describes it."""

    version: int
    timestamp_ms: int | None
    action: str
    operation: str | None
    detail: str


class FileExplanation(NamedTuple):
    """The decision of vacuum on a file: `verdict` is `kept`, `goes` or `absent`; the commits are in order."""

    path: str
    verdict: str
    why: str
    facts: tuple[tuple[str, str], ...]
    commits: tuple[ExplainedCommit, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.vacuum-explain`, without the envelope."""
        return {
            "path": self.path,
            "verdict": self.verdict,
            "why": self.why,
            "facts": dict(self.facts),
            "commits": [
                {
                    "version": one.version,
                    "timestampMs": one.timestamp_ms,
                    "action": one.action,
                    "operation": one.operation,
                    "detail": one.detail,
                }
                for one in self.commits
            ],
        }


def explain_file(table: TableHandle, request: VacuumRequest, path: str) -> FileExplanation:
    """Return what `plan_vacuum` would do with one file, and why. `path` is relative to the table or an absolute path or
    URI inside it, spelled as on the store or as in the log.

    Raises UsageError for a path outside this table, and what `plan_vacuum` raises.
    """
    snapshot = read_snapshot(table)
    name = _name_of(table, path)
    setting = prepare(table, request, snapshot)
    names = setting.hidden_names
    commits = tuple(_commits_of(setting, name))
    at_place = _by_place(table, name, names)
    if at_place is not None:
        return FileExplanation(name, at_place[0], at_place[1], (), commits)
    if request.prefix and not name.startswith(f"{request.prefix}/"):
        return FileExplanation(
            name, "kept", f"{parameter('vacuum.prefix')} {request.prefix} does not select it", (), commits
        )
    sizes, times = table.storage.stat_many([name])
    facts = [
        ("size", format_size(sizes[0])),
        ("written", format_timestamp(times[0])),
        ("cutoff", f"{format_timestamp(setting.cutoff_ms)} ({format_duration(setting.retention_ms)} ago)"),
    ]
    judge = CandidateClassifier(table.storage, setting.references, setting.keys, names, setting.cutoff_ms)
    judge.take(ListedFiles(encode_paths_as_binary([name]), None, None))
    old = spare_linked(judge, None, names_hidden=True)
    found = choose(old, (), setting.references, choose_without_misnamed(setting))
    verdict, why = _verdict(setting, judge, found, commits)
    if verdict == "goes" and not setting.is_listed and not _is_candidate(table, request, name):
        verdict, why = "kept", _why_unseen(request)
    return FileExplanation(name, verdict, why, tuple(facts), commits)


def _is_candidate(table: TableHandle, request: VacuumRequest, name: str) -> bool:
    """Return True if the plan, which is made without a listing of the table, deletes the file."""
    paths = plan_vacuum(table, request).candidates.column("path")
    return bool(pc.any(pc.equal(paths, encode_paths_as_binary([name])[0])).as_py())


def _verdict(
    setting: PlanContext, judge: CandidateClassifier, found: Candidates, commits: tuple[ExplainedCommit, ...]
) -> tuple[str, str]:
    if found.rows.num_rows:
        return "goes", _why_it_goes(Reason(found.rows.column("reason")[0].as_py()))
    if len(judge.needed):
        return "kept", _why_needed(setting, judge, commits)
    if judge.young_files:
        return "kept", "it is newer than the retention, and a writer may be about to commit it"
    if found.lost.num_rows:
        return "kept", _why_lost(setting, found)
    if found.misnamed.num_rows:
        return "kept", _why_misnamed(setting, found)
    if found.unread.num_rows:
        code = found.fault.code if found.fault else "checkpoint.unreadable"
        return "kept", f"the log does not name it, but an older checkpoint that may name it is damaged [{code}]"
    if found.with_logical_names.num_rows:
        why = found.with_logical_names.column("why")[0].as_py()
        return "kept", f"it {why} [{MISNAMED}], and readers return null for such a column"
    if found.foreign.files:
        return "kept", f"it is not part of a Delta table; {parameter('vacuum.include_foreign')} would delete it"
    if found.outside_selection:
        return "kept", f"the condition {setting.request.where} does not select it"
    return "kept", "the log does not reach back far enough to prove that it was not removed within the retention"


def _why_lost(setting: PlanContext, found: Candidates) -> str:
    version = setting.snapshot.version
    if pc.any(removed_in_gap(setting, found.lost.column("hash").combine_chunks())).as_py():
        missing = missing_commits(setting)
        return f"version {version} lacks it, but it is not known whether {missing} removed it [log.gap]"
    return (
        f"the log adds it and does not remove it, but version {version} lacks it because of a wrong checkpoint "
        f"[{MISSING_ADD_RULE}]"
    )


def _why_misnamed(setting: PlanContext, found: Candidates) -> str:
    missing = found.misnamed["missing"][0].as_py().decode("utf-8", "replace")
    is_of_vector = found.misnamed["isOfVector"][0].as_py()
    if IS_ABSOLUTE.match(missing):
        return explain_outside(setting, missing, is_of_vector=is_of_vector)
    what = "the file of a deletion vector" if is_of_vector else "the file"
    return f"it may be {what} {missing}, which is needed and missing; to see where it may be: {advice(setting)}"


def _why_needed(setting: PlanContext, judge: CandidateClassifier, commits: tuple[ExplainedCommit, ...]) -> str:
    references, hashes = setting.references, judge.needed
    version = setting.snapshot.version

    def is_among(values: ArrowArray) -> bool:
        return bool(pc.any(pc.is_in(hashes, value_set=values)).as_py())

    if is_among(references.live) or is_among(references.live_written):
        return f"version {version} needs it: it is live"
    if is_among(references.live_vectors):
        return f"version {version} needs it: it contains deletion vectors of live files"
    if references.viewed is not None and is_among(references.viewed):
        return f"a manifest in {MANIFESTS} names it, and readers of that (Athena, Redshift) need it"
    if references.streamed is not None and is_among(references.streamed):
        return f"a query of {parameter('vacuum.protect_streams')} needs it"
    retained = [one for one in commits if references.window.retains(one.version)]
    if retained:
        newest = retained[-1]
        moment = newest.timestamp_ms
        when = "is"
        if moment is not None and moment >= setting.cutoff_ms:
            when = f"was committed at {format_timestamp(moment)},"
        return f"version {newest.version} {newest.detail}, and {when} within the retention"
    if setting.ambiguous is not None and is_among(setting.ambiguous.hashes):
        return f"engines that compare paths as text read it under another spelling [{SEVERAL_SPELLINGS}]"
    request, cutoff_ms = setting.request, setting.cutoff_ms
    removals = [one for one in commits if one.action in ("remove", "vector")]
    is_late = any(one.timestamp_ms is None or one.timestamp_ms >= cutoff_ms for one in removals)
    is_removed = bool(removals) or is_among(references.removed.hashes)
    if is_late or (is_removed and not request.keep_versions and not setting.protected):
        return "it was removed within the retention, and readable versions need it"
    tables = "a shallow clone" if not request.protect_from else f"a table of {parameter('vacuum.protect_from')}"
    return (
        f"a version of {parameter('vacuum.keep_versions')} or {tables} needs it"
        if request.keep_versions
        else f"{tables} needs it"
    )


def _why_it_goes(reason: Reason) -> str:
    if reason is Reason.FOREIGN:
        return f"it is not part of a Delta table, and {parameter('vacuum.include_foreign')} is given"
    return _WHY_IT_GOES[reason]


def _why_unseen(request: VacuumRequest) -> str:
    if request.inventory:
        inventory = parameter("vacuum.inventory")
        return f"the inventory does not list it as a file to delete; a run without {inventory} deletes it"
    lite = parameter("vacuum.mode", "lite")
    return f"{lite} finds only files that commits removed since the last vacuum; a full run deletes it"


def _by_place(table: TableHandle, name: str, names: HiddenNames) -> tuple[str, str] | None:
    """Return the verdict if the location of the file determines it."""
    parts = name.split("/")
    if parts[0] == LOG_DIRECTORY:
        return "kept", f"it is part of the log, which vacuum does not change; see {command('log expire', table=None)}"
    for length in range(1, len(parts)):
        above = "/".join(parts[:length])
        if names.hides_directory(above):
            return "kept", f"it is in the hidden directory {above}, which vacuum skips"
        try:
            kind = find_table_format(table.storage, above)
        except FileMissing:
            break
        if kind is not None:
            return "kept", f"it is in {above}, which is {add_article(kind)} table of its own"
    if names.hides_name(parts[-1]):
        return "kept", "its name is hidden, and vacuum skips hidden files"
    if table.storage.stat_many([name])[0][0] >= 0:
        return None
    match table.storage.kind_of(name):
        case PathKind.MISSING:
            return "absent", "the table has no such file"
        case PathKind.DIRECTORY:
            return "kept", "it is a directory; vacuum deletes only empty ones older than the retention"
        case PathKind.FILE:
            return "kept", "it is a link or below one; vacuum does not follow links"


def _name_of(table: TableHandle, path: str) -> str:
    """Return the name on the store. Raises UsageError for a path outside this table."""
    if "://" not in path and not path.startswith(("/", "file:")):
        plain = "/".join(part for part in path.split("/") if part not in ("", "."))
        if not plain or ".." in plain.split("/"):
            raise UsageError(f"{parameter('vacuum.explain')} {path} is not a path below the table")
        is_there = table.storage.kind_of(plain) is not PathKind.MISSING
        return plain if is_there or decode(plain) == plain else decode(plain)
    for uri in (table.uri, *table.storage.aliases):
        for spelling in (encode_percent_signs(path), path):
            found = locate_all([spelling], uri)[0]
            if found is not None and (spelling == path or table.storage.kind_of(found) is not PathKind.MISSING):
                return found
    raise UsageError(f"{parameter('vacuum.explain')} {path} is outside this table", facts={"table": table.uri})


def _commits_of(setting: PlanContext, name: str) -> Iterator[ExplainedCommit]:
    wanted = setting.keys.hash_listed_paths(encode_paths_as_binary([name]))
    found: set[tuple[int, str, str]] = set()
    for rows in FileReferenceReader(setting.table, setting.references.listing).read():
        found |= set(_matches(setting, rows, wanted))
    listing = setting.references.listing
    for version, action, detail in sorted(found):
        info = read_provenance(setting.table.storage, listing.commits[version]).commit_info or {}
        operation = info.get("operation")
        yield ExplainedCommit(
            version,
            read_commit_time(setting.table, listing, version),
            action,
            operation if isinstance(operation, str) else None,
            detail,
        )


def _matches(setting: PlanContext, rows: FileReferences, wanted: Any) -> Iterator[tuple[int, str, str]]:
    """Yield (version, action, description) of the actions that name the file; Any: an int64 array."""
    of_paths = setting.keys.compute_keys(rows.path)
    is_named = pc.fill_null(pc.is_in(of_paths.hashes, value_set=wanted), False)
    for version, moment in zip(
        pc.filter(rows.version, is_named).to_pylist(),
        pc.filter(rows.deletion_timestamp, is_named).to_pylist(),
        strict=True,
    ):
        at = f" at {format_timestamp(moment)}" if moment is not None else ""
        yield version, rows.kind, f"{_WORDS[rows.kind]}{at}"
    of_vectors = setting.keys.compute_vector_keys(rows.vector)
    is_vector = pc.fill_null(pc.is_in(of_vectors.hashes, value_set=wanted), False)
    for version in pc.unique(pc.filter(rows.version, is_vector)).to_pylist():
        yield version, "vector", f"{rows.kind}s files whose deletion vectors it contains"
