"""Rules about log compaction files: each must equal the reconciliation of the commits it replaces.

Spec: Log Compaction Files; Action Reconciliation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from deltacli.core.units import plural
from deltacli.delta.data_files import find_descriptor_fault, unique_id
from deltacli.delta.log.actions import FIELDS, Action
from deltacli.delta.log.segment import LogFileKind
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.rules.framework.base import Area, Finding, Fix, from_a_copy
from deltacli.rules.framework.views import CompactionView, ListingView, LocatedAction

AREA = Area("compactions", spec="Log Compaction Files")

_DELETE = Fix(
    broken="engines that read compactions instead of commits get a different state of the table",
    advice="delete the compaction; the commits have all its data",
)

BAD_NAME = AREA.warning(
    "compaction.bad-name",
    "The name of a log compaction does not consist of two versions of 20 digits, the second above the first.",
    broken="no reader recognizes it",
    repair="delete the compaction; the commits have all its data",
    example="00000000000000000007.00000000000000000004.compacted.json",
)
BEYOND_LOG = AREA.error(
    "compaction.beyond-log",
    "A log compaction covers versions that the log does not have.",
    broken="commits may be lost; if their versions are committed again, engines can read the compaction instead",
    repair=from_a_copy("delete the compaction if its versions were never committed; otherwise bring the commits back"),
    loss="the changes of the missing commits, if they were made and cannot be restored",
    example="00000000000000000004.00000000000000000009.compacted.json where the newest commit is 7",
)
MISSING_REMOVE = AREA.error(
    "compaction.missing-remove",
    "A log compaction lacks a remove of its commits, so a file of an older checkpoint reappears.",
    *_DELETE,
    spec="Action Reconciliation",
    example='no {"remove":{"path":"part-0.parquet",…}} in 00000000000000000004.00000000000000000006.compacted.json',
)
MISSING_DOMAIN_TOMBSTONE = AREA.error(
    "compaction.missing-domain-tombstone",
    "A log compaction lacks the removal of a domain, so the domain of an older checkpoint reappears.",
    *_DELETE,
    spec="Action Reconciliation",
    example='no {"domainMetadata":{"domain":"app.settings",…,"removed":true}} in the compaction',
)
CONTENT = AREA.error(
    "compaction.content",
    "A log compaction differs from the reconciliation of its commits.",
    *_DELETE,
    example="an add of commit 5 that 00000000000000000004.00000000000000000006.compacted.json does not hold",
)
FORBIDDEN_ACTION = AREA.warning(
    "compaction.forbidden-action",
    "A log compaction has an action that reconciliation does not keep.",
    spec="Action Reconciliation",
    broken="readers of history or changes may treat it as an action of its last version",
    repair="delete the compaction; the commits have all its data",
    example='{"commitInfo":{…}} in 00000000000000000004.00000000000000000006.compacted.json',
)
STALE = AREA.info(
    "compaction.stale",
    "A log compaction begins at or below the oldest checkpoint of a log that was cleaned up, so it is not used.",
    spec="Metadata Cleanup",
    broken="only the space it takes",
    repair="delete the compaction",
    example="00000000000000000004.00000000000000000006.compacted.json with the oldest checkpoint at 40",
)

Key = tuple[str, ...]

_NAME = re.compile(r"[0-9]+\.[0-9]+\.compacted\.json")
_ADD_FIELDS = tuple(name for name in FIELDS["add"] if name not in ("path", "dataChange", "stats"))


@AREA.check(ListingView, BAD_NAME, BEYOND_LOG, STALE)
def names_of_compactions(view: ListingView) -> Iterator[Finding]:
    """Compare the names with the contents of the log."""
    oldest = view.oldest_checkpoint
    is_cleaned = 0 not in view.listing.commits
    for file in view.files:
        if not _NAME.fullmatch(file.name):
            continue
        place = view.place(file.name)
        first, last = file.path.version, file.path.last_version
        if file.path.kind is not LogFileKind.COMPACTED_COMMIT:
            message = f"{file.name} has versions that are not 20 digits long"
            yield BAD_NAME.at(place, message, seen=file.name, expected="two versions of 20 digits")
        elif first >= last:
            message = f"{file.name} ends at version {last}, which is not above {first}"
            yield BAD_NAME.at(place, message, seen=f"{first} to {last}", expected="a last version above the first")
        elif last > view.listing.newest_version:
            newest = view.listing.newest_version
            message = f"{file.name} covers versions up to {last}, but the newest is {newest}"
            yield BEYOND_LOG.at(place, message, seen=last, expected=f"at most {newest}")
        elif is_cleaned and oldest is not None and first <= oldest.version:
            message = f"{file.name} begins at version {first}, but the oldest checkpoint is {oldest.version}"
            yield STALE.at(place, message, seen=first, expected=f"above {oldest.version}")


@AREA.check(CompactionView, FORBIDDEN_ACTION)
def actions_that_do_not_last(view: CompactionView) -> Iterator[Finding]:
    """Provenance and change files belong to one version, sidecars to checkpoints."""
    seen: dict[str, list[int]] = {}
    for placed in view.actions:
        if placed.kind in ("commitInfo", "cdc", "sidecar", "checkpointMetadata"):
            seen.setdefault(placed.kind, []).append(placed.line)
    for kind, lines in seen.items():
        message = f"the compaction has {plural(len(lines), f'{kind} action')}, which reconciliation does not keep"
        yield FORBIDDEN_ACTION.at(view.place(lines[0], kind), message, seen=len(lines), expected=0)


@AREA.check(CompactionView, MISSING_REMOVE, MISSING_DOMAIN_TOMBSTONE, CONTENT)
def compactions_against_their_commits(view: CompactionView) -> Iterator[Finding]:
    """Compare key by key. Every remove and every removed domain is kept, whatever its age."""
    if view.commits is None or view.file.path.version >= view.file.path.last_version:
        return
    if not view.is_readable:
        message = "the compaction has lines or actions that cannot be read"
        yield CONTENT.at(view.place(), message, expected="the reconciliation of its commits")
        return
    expected = _reconciled(view.commits)
    actual = _reconciled([view.actions])
    lacking = [key for key in expected if key not in actual]
    removes = [key for key in lacking if expected[key].kind == "remove"]
    if removes:
        message = f"the compaction lacks {plural(len(removes), 'remove')} of the commits"
        yield MISSING_REMOVE.at(view.place(key=removes[0][1]), message, seen="no remove", expected=_name(removes[0]))
    domains = [key for key in lacking if expected[key].action.get("removed") is True and key[0] == "domainMetadata"]
    if domains:
        message = f"the compaction lacks the removal of {plural(len(domains), 'domain')}"
        place = view.place(key=domains[0][1])
        yield MISSING_DOMAIN_TOMBSTONE.at(place, message, seen="no removal", expected=_name(domains[0]))
    known = {*removes, *domains}
    if faults := [
        (key, words) for key, words in differences_of_compaction(view.commits, view.actions) if key not in known
    ]:
        key, first = faults[0]
        rest = f", and {plural(len(faults) - 1, 'other difference')}" if len(faults) > 1 else ""
        line = actual[key].line if key in actual else None
        yield CONTENT.at(
            view.place(line, _name(key)),
            f"the compaction {first}{rest}",
            seen=plural(len(faults), "difference"),
            expected="the reconciliation of its commits",
        )


def differences_of_compaction(
    commits: Iterable[Sequence[LocatedAction]], actions: Sequence[LocatedAction]
) -> Iterator[tuple[Key, str]]:
    """Yield by key how a compaction differs from its commits, in words. Null is absent, and writers have choices."""
    expected, actual, repeated = _reconciled(commits), _reconciled([actions]), _repeated(actions)
    yield from ((key, f"has {_name(key)} more than once") for key in repeated)
    yield from ((key, f"lacks {_name(key)}") for key in expected if key not in actual)
    yield from ((key, f"has {_name(key)}, which its commits do not have") for key in actual if key not in expected)
    yield from ((key, words) for key, words in _differences(expected, actual) if key not in repeated)


def _reconciled(commits: Iterable[Sequence[LocatedAction]]) -> dict[Key, LocatedAction]:
    """Return the newest action of every key. Within a commit the last one applies, and an add wins over a remove."""
    newest: dict[Key, LocatedAction] = {}
    for actions in commits:
        added = {_key(placed) for placed in actions if placed.kind == "add"}
        for placed in actions:
            key = _key(placed)
            if key is not None and not (placed.kind == "remove" and key in added):
                newest[key] = placed
    return newest


def _key(placed: LocatedAction) -> Key | None:
    action = placed.action
    match placed.kind:
        case "add" | "remove":
            path, vector = action.get("path"), action.get("deletionVector")
            if not isinstance(path, str) or (vector is not None and find_descriptor_fault(vector) is not None):
                return None
            return ("file", canonicalize_path(path), unique_id(vector))
        case "txn":
            return ("txn", str(action.get("appId")))
        case "domainMetadata":
            return ("domainMetadata", str(action.get("domain")))
        case "protocol" | "metaData":
            return (placed.kind,)
    return None


def _repeated(actions: Iterable[LocatedAction]) -> dict[Key, None]:
    seen: set[Key] = set()
    repeated: dict[Key, None] = {}
    for placed in actions:
        key = _key(placed)
        if key in seen:
            repeated[key] = None
        elif key is not None:
            seen.add(key)
    return repeated


def _differences(
    expected: Mapping[Key, LocatedAction], actual: Mapping[Key, LocatedAction]
) -> Iterator[tuple[Key, str]]:
    for key, placed in expected.items():
        other = actual.get(key)
        if other is None:
            continue
        if other.kind != placed.kind:
            yield key, f"has the {other.kind} of {_name(key)} instead of its {placed.kind}"
        elif names := _fields_that_differ(placed.kind, placed.action, other.action):
            yield key, f"has a different {' and '.join(names)} of {_name(key)}"


def _fields_that_differ(kind: str, expected: Action, actual: Action) -> list[str]:
    """Return the fields that differ. Writers may choose which dataChange and statistics to keep."""
    names: Iterable[str]
    match kind:
        case "add":
            names = _ADD_FIELDS
        case "remove":
            names = ("deletionTimestamp",)
        case "txn":
            names = ("version", "lastUpdated")
        case "domainMetadata":
            names = ("removed",) if expected.get("removed") is True else ("configuration", "removed")
        case _:
            names = sorted({*expected, *actual})
    differing = [name for name in names if _plain(name, expected.get(name)) != _plain(name, actual.get(name))]
    before, now = expected.get("stats"), actual.get("stats")
    if kind == "add" and isinstance(before, str) and isinstance(now, str) and _parsed(before) != _parsed(now):
        differing.append("stats")
    return differing


def _plain(name: str, value: object) -> object:
    """Return a value in normal form: no map and an empty one, no time and 0, and any order of features are equal."""
    if isinstance(value, dict):
        plain = {key: item for key, item in value.items() if item is not None or name == "partitionValues"}
        return {key: _plain(key, item) for key, item in plain.items()} or None
    match name, value:
        case "readerFeatures" | "writerFeatures", list():
            return sorted(str(item) for item in value)
        case "schemaString", str():
            return _parsed(value)
        case "deletionTimestamp" | "removed", _:
            return value or None
    return value


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _name(key: Key) -> str:
    match key:
        case ("file", path, vector):
            shown = path.encode("utf-8", "replace").decode()
            return f"{shown} with deletion vector {vector}" if vector else shown
        case (kind, name):
            return f"{kind} {name}"
    return key[0]
