"""Adding a version to the schema of a Paimon table: the only module that creates schema files.

A schema file is created atomically under a name that does not exist. Paimon's own writers look whether the name exists
and then rename a temporary file, which replaces a file that was created in between. So after creating ours, we wait for
the temporary files that are there for the same name, and read ours back. A writer that comes later sees that the name
exists. Where ours was replaced after somebody had made a version from it, that version is created once more on top:
pypaimon remembers each version that it wrote, and if one was replaced, makes the next from what it remembers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from deltacli.changing.commit import MAX_ASKED
from deltacli.core.errors import (
    NOTHING_CHANGED,
    ConflictLost,
    DeltacliError,
    FileMissing,
    NotATable,
    OutcomeUnknown,
    Refused,
    StorageFailed,
    Unreadable,
)
from deltacli.core.hints import DoubleQuoted, command
from deltacli.core.machine import MACHINE, Machine
from deltacli.engine.base import Engine
from deltacli.operations.paimon.table_files import list_schemas, read_limited, read_schemas
from deltacli.paimon.schema import MAX_SCHEMA_BYTES, Schema, read_schema
from deltacli.paimon.schema_changes import ChangeKind, changes_between
from deltacli.paimon.table_paths import (
    SCHEMA_DIRECTORY,
    SCHEMA_PREFIX,
    SNAPSHOT_DIRECTORY,
    SNAPSHOT_PREFIX,
    branch_root,
    number_of,
    schema_path,
)
from deltacli.storage import Created, Existed, ReadStorage, Storage, Unknown
from deltacli.storage.base import require_writable

MAX_ATTEMPTS = 200
"""Maximum number of versions to try. With the pauses between them this takes about ten seconds."""

_FIRST_PAUSE = 0.005  # writers of Paimon retry at once, so longer pauses would let them win
_LONGEST_PAUSE = 0.1
_MAX_READ = 5
"""Maximum number of attempts to read the newest schema, which can be deleted after it was listed."""

_OURS = re.compile(r"[0-9a-f]{32}(\.[0-9a-f]+)?\.tmp")
"""The end of the names of our own temporary files, which never replace a file. Those of Paimon have dashes."""

_PATIENCE_SECONDS = 2.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest schema of a branch, and whether the branch has snapshots."""

    schema: Schema
    ids: tuple[int, ...]
    has_snapshots: bool


@dataclass(frozen=True, slots=True)
class CommittedSchema:
    """A version that is in the table. `lost` is the number of attempts that other writers won."""

    before: Newest
    schema: Schema
    lost: int


@dataclass(frozen=True, slots=True)
class NothingToCommit:
    """The newest schema is as requested: no version was created."""

    before: Newest


Make = Callable[[Newest], Schema | None]
"""Makes the next schema from the newest one; None where there is nothing to do. May be called several times."""


def read_newest(storage: ReadStorage, branch: str) -> Newest:
    """Return the newest schema of a branch. Raises Unreadable, and Refused where its id is not that of its name."""
    for _ in range(_MAX_READ):
        ids = list_schemas(storage, branch).ids
        if not ids:
            raise NotATable("the table has no schema", code="paimon.schema-missing", facts={"branch": branch})
        path = schema_path(ids[-1], branch)
        try:
            schema = read_schema(read_limited(storage, path, MAX_SCHEMA_BYTES))
        except FileMissing:
            continue  # deleted since it was listed
        except Unreadable as fault:
            fault.facts = {"file": path} | fault.facts
            raise
        if schema.id != ids[-1]:
            raise Refused(
                f"{path} has the id {schema.id}: the next version would get a wrong name",
                code="paimon.id-differs",
                hint=command("validate", select=[DoubleQuoted("paimon.id-differs")]),
            )
        return Newest(schema, ids, _has_snapshots(storage, branch))
    raise ConflictLost("the newest schema was deleted each time before it could be read", facts={"branch": branch})


class UsedIds:
    """The ids that fields have in the schemas of a branch. Each schema is read once; unreadable ones are left out."""

    def __init__(self, storage: ReadStorage, engine: Engine, branch: str) -> None:
        self._storage, self._engine, self._branch = storage, engine, branch
        self._seen: set[int] = set()
        self._greatest = -1

    def greatest(self, newest: Newest) -> int:
        """Return the greatest id, -1 without any."""
        ids = [number for number in newest.ids if number not in self._seen and number != newest.schema.id]
        schemas = read_schemas(self._storage, self._engine, ids, self._branch).values()
        found = [schema.greatest_id for schema in schemas if isinstance(schema, Schema)]
        self._greatest = max(self._greatest, newest.schema.greatest_id, *found)
        self._seen.update(ids)
        return self._greatest


def _has_snapshots(storage: ReadStorage, branch: str) -> bool:
    directory = f"{branch_root(branch)}{SNAPSHOT_DIRECTORY}"
    try:
        names = (stat.name for stat in storage.list_from(directory, SNAPSHOT_PREFIX))
        return any(number_of(name, SNAPSHOT_PREFIX) is not None for name in names)
    except FileMissing:
        return False


def commit_schema(
    storage: Storage,
    branch: str,
    make: Make,
    *,
    max_attempts: int = MAX_ATTEMPTS,
    machine: Machine = MACHINE,
) -> CommittedSchema | NothingToCommit:
    """Make a schema from the newest one and create it as the next one, from the new newest one again whenever another
    writer was first.

    Raises what `make` raises, Unreadable, NoAtomicCreate and StorageFailed, with nothing changed; ConflictLost after
    `max_attempts`, with nothing changed; OutcomeUnknown where the file was sent and cannot be read back.
    """
    require_writable(storage)
    ours: list[tuple[Newest, Schema]] = []
    """Versions that were created and then replaced by another writer."""
    for attempt in range(max_attempts):
        if attempt:
            _pause(machine, attempt)
        newest = read_newest(storage, branch)
        before = next((before for before, made in ours if _has_them(before, made, newest.schema)), None)
        schema = _on_top_of(newest.schema) if before else make(newest)
        if schema is None:
            return NothingToCommit(newest)
        try:
            if not _create(storage, branch, schema, machine):
                continue
            if _is_kept(storage, branch, schema, machine):
                return CommittedSchema(before or newest, schema, attempt)
        except BaseException as stop:
            if not isinstance(stop, Exception):
                stop.add_note(_note(storage, branch, schema))
            raise
        if before is None:
            ours.append((newest, schema))
    raise ConflictLost(
        "other writers created every version that was tried",
        said_first=NOTHING_CHANGED,
        facts={"versions tried": str(max_attempts)},
        hint=command("history", limit=10),
    )


def _pause(machine: Machine, repetition: int) -> None:
    machine.sleep_up_to(min(_LONGEST_PAUSE, _FIRST_PAUSE * repetition))


def _on_top_of(schema: Schema) -> Schema:
    """Return the next version, with the same fields. Its greatest id grows as if it had one more, because
    other writers count on from versions that were replaced.
    """
    return replace(schema, id=schema.id + 1, highest_field_id=schema.highest_field_id + 1)


def _create(storage: Storage, branch: str, schema: Schema, machine: Machine) -> bool:
    """Create a schema file and return whether it is ours; returns only certain outcomes."""
    path, data = schema_path(schema.id, branch), schema.encode()
    cause: str | None = None
    """Why the outcome is unknown. From then on the file may exist or appear later, with these bytes."""
    fault: StorageFailed | None = None
    for asked in range(MAX_ASKED):
        if asked:
            _pause(machine, asked)
        try:
            answer = storage.put_if_absent(path, data)
        except StorageFailed as failed:
            if cause is None:
                raise  # an error here means that nothing was written
            fault = failed
            continue
        match answer:
            case Created():
                return True
            case Existed():  # by another writer, or a proxy sent ours twice
                pass
            case Unknown(why):
                cause = why
            case other:
                assert_never(other)
        try:
            return storage.read(path) == data
        except FileMissing as failed:  # it is sent again: it may never have arrived
            fault = failed
        except StorageFailed as failed:
            cause, fault = cause or "the file exists and cannot be read", failed
    raise _unknown(path, cause, fault)


def _is_kept(storage: ReadStorage, branch: str, schema: Schema, machine: Machine) -> bool:
    """Return whether a version that was created is still there, once no other writer can replace it any more."""
    path = schema_path(schema.id, branch)
    try:
        waiting = _rivals(storage, branch, schema.id)
        for _ in range(round(_PATIENCE_SECONDS / _POLL_SECONDS)):
            if not waiting:
                break
            machine.sleep(_POLL_SECONDS)
            waiting &= _rivals(storage, branch, schema.id)
        return read_schema(storage.read(path)).encode() == schema.encode()
    except (FileMissing, Unreadable):
        return False
    except StorageFailed as fault:
        raise _unknown(path, "the file was created, and could not be read back", fault) from fault


def _rivals(storage: ReadStorage, branch: str, schema_id: int) -> set[str]:
    """Return the temporary files of writers that are about to create the same schema file."""
    prefix = f".{SCHEMA_PREFIX}{schema_id}."
    names = (stat.name for stat in storage.list_from(f"{branch_root(branch)}{SCHEMA_DIRECTORY}", prefix))
    found = set()
    for name in names:
        if not name.startswith(prefix):
            break
        if name.endswith(".tmp") and _OURS.fullmatch(name.removeprefix(prefix)) is None:
            found.add(name)
    return found


def _has_them(before: Newest, made: Schema, newest: Schema) -> bool:
    """Return whether a newer schema was made from the one that we made, although our file was replaced."""
    if newest.id <= made.id:
        return False
    present = list(changes_between(before.schema, newest))
    skipped = (ChangeKind.HIGHEST_FIELD_ID, ChangeKind.POSITION)
    return all(change in present for change in changes_between(before.schema, made) if change.kind not in skipped)


def _note(storage: ReadStorage, branch: str, schema: Schema) -> str:
    """Return the outcome of a creation that was in flight when the run was interrupted; looks once."""
    path = schema_path(schema.id, branch)
    try:
        is_ours = storage.read(path) == schema.encode()
    except DeltacliError:
        return f"{path} may have been created"
    return f"{path} was created" if is_ours else "nothing was changed"


def _unknown(path: str, cause: str | None, fault: StorageFailed | None) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{path} was sent, but it is not known whether it is in the table",
        code="paimon.outcome-unknown",
        facts={
            "file": path,
            "why": cause or "no answer",
            **({} if fault is None else {"looking for it": fault.message}),
            "to check": "the change was made if the history of the table shows it",
        },
        hint=command("history", limit=5),
    )
