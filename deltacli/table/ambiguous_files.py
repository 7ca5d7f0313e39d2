"""Files that the log of a version names by several spellings of their path, so that engines read different rows.

What an engine reads depends on the spellings of all adds and removes, also of those that deltacli regards as replaced.
So the checkpoint and the commits of a version are read once more, as they are. That is done only if one of their paths
has more than one spelling at all.

Spec: Action Reconciliation; Add File and Remove File.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.errors import Refusal, Refused
from deltacli.core.hints import command
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.encoding.many_values import PRINTED_BYTES, fingerprints
from deltacli.delta.log.disputed_readings import DECISIONS, SETTLED_BY_CHECKPOINT
from deltacli.delta.paths.engine_readings import (
    BEFORE_COMMITS,
    RULES_OF_SPELLINGS,
    SEVERAL_SPELLINGS,
    AmbiguousFile,
    SpelledAction,
    read_as_engines,
)
from deltacli.delta.paths.spelling import key_bytes, key_text
from deltacli.delta.paths.spelling_columns import name_files
from deltacli.table.checkpoint_paths import CheckpointPaths, examine_checkpoint_paths
from deltacli.table.commit_contents import read_commit_contents
from deltacli.table.file_references import FileReferenceCollector, FileReferences, read_references_of_commits
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import stream_lines

# A path that is not certainly the name of its file: one that begins like an absolute path or with a dot segment, or has
# an escape of a URI or of JSON, a scheme, an empty segment or a dot segment. A key `path` inside of statistics has a
# backslash before its quotation mark.
_ODD_PATH = re.compile(rb'"path"\s*:\s*"(?![^"%:\\/.][^"%:\\/]*(?:/[^"%:\\/.][^"%:\\/]*)*")')
# A key of four characters, as `path` has, of which one at least is an escape. Keys inside of statistics end with a
# backslash and a quotation mark.
_ESCAPED_KEY = re.compile(rb'"(?=[a-z]{0,3}\\u)(?:[a-z]|\\u[0-9A-Fa-f]{4}){4}"\s*:')
_FACTOR = 0x9E3779B1
"""Odd, so that two equal fingerprints do not cancel each other."""


def find_ambiguous_files(
    snapshot: Snapshot, checkpoint_paths: CheckpointPaths | None = None
) -> Sequence[AmbiguousFile]:
    """Return the files about which the paths of a version's log leave a doubt.

    Args:
        snapshot: The version.
        checkpoint_paths: What `examine_checkpoint_paths` has returned for the version, if it was called already.

    Raises:
        CommitCorrupt: If a commit was replaced by a damaged one since the version was read.
        StorageFailed: If the log cannot be read.
    """
    uris = (snapshot.table.storage.uri, *snapshot.table.storage.aliases)
    if checkpoint_paths is None:
        checkpoint_paths = examine_checkpoint_paths(snapshot)
    # Nearly all tables end here: every path is certainly the name of its file.
    if not checkpoint_paths.may_have_spellings and not _have_odd_paths(snapshot):
        return ()

    # The first pass finds the names with several spellings, in little memory. The second one collects
    # the actions with these names, which are few.
    search = _SpellingSearch(uris)
    for adds in _read_live_files(checkpoint_paths.start):
        search.add(adds.paths)
    for references in _read_commits(snapshot):
        search.add(references.path)
    contested = search.find_contested()
    if not len(contested):
        return ()

    collector = _ActionCollector(uris, contested)
    for adds in _read_live_files(checkpoint_paths.start):
        collector.take(adds, are_adds=True)
    for references in _read_commits(snapshot):
        columns = _ActionColumns(references.path, references.vector, references.version)
        collector.take(columns, are_adds=references.kind == "add")
    readings = [read_as_engines(key_text(name), actions_of_file) for name, actions_of_file in collector.actions.items()]
    return tuple(file for file in readings if file is not None)


def find_files_live_otherwise(files: Sequence[AmbiguousFile], first: Snapshot, second: Snapshot) -> list[AmbiguousFile]:
    """Return those files of which two snapshots do not have the same live ones, with the same deletion vectors.

    Args:
        files: The files to look for.
        first: A snapshot.
        second: Another snapshot of the same version, which was rebuilt from other files of the log.
    """
    if not files:
        return []
    names = {file.name for file in files}
    live_of_first = _read_live_vector_ids(first, names)
    live_of_second = _read_live_vector_ids(second, names)
    return [file for file in files if live_of_first.get(file.name) != live_of_second.get(file.name)]


def find_live_names(snapshot: Snapshot, names: Set[str]) -> Set[str]:
    """Return those of some names of files that deltacli reads as live in a version."""
    return _read_live_vector_ids(snapshot, names).keys()


def _read_live_vector_ids(snapshot: Snapshot, names: Set[str]) -> Mapping[str, list[str]]:
    """Return the ids of the vectors of some live files, sorted, by the name of the file."""
    uris = (snapshot.table.storage.uri, *snapshot.table.storage.aliases)
    wanted = pa.array([key_bytes(name) for name in names], pa.binary())
    ids_by_name: dict[str, list[str]] = defaultdict(list)
    for adds in _read_live_files(snapshot):
        names_of_adds = name_files(adds.paths, uris)
        is_wanted = pc.is_in(names_of_adds, value_set=wanted)
        if not pc.any(is_wanted).as_py():
            continue
        chosen_names = pc.filter(names_of_adds, is_wanted).to_pylist()
        chosen_ids = pc.filter(adds.vector_ids, is_wanted).to_pylist()
        for name, vector_id in zip(chosen_names, chosen_ids, strict=True):
            ids_by_name[key_text(name)].append(vector_id)
    return {name: sorted(vector_ids) for name, vector_ids in ids_by_name.items()}


def require_same_reading(snapshot: Snapshot, what: str, *, rewrites_files: bool = False, settles: bool = True) -> None:
    """Raise Refused (`path.same-file-two-spellings`) with what `find_reading_refusal` returns."""
    refusal = find_reading_refusal(snapshot, what, rewrites_files=rewrites_files, settles=settles)
    if refusal is not None:
        raise Refused.by([refusal])


def find_reading_refusal(
    snapshot: Snapshot,
    what: str,
    *,
    rewrites_files: bool = False,
    settles: bool = True,
    files: Sequence[AmbiguousFile] | None = None,
) -> Refusal | None:
    """Return why the state of a version must not be written in a form from which engines would read other rows.

    Args:
        snapshot: The version.
        what: What would be written, such as "a checkpoint".
        rewrites_files: Refuse it, too, if all engines read the rows of a file twice: new files would have both copies,
            and nothing would show that any more.
        settles: False if engines would go on reading different rows beside what is written.
        files: What `find_ambiguous_files` has returned for the version, if it was called already.

    Returns:
        The refusal with the first files; None if all engines read the same.
    """
    if files is None:
        files = find_ambiguous_files(snapshot)
    differing = [file for file in files if file.engines_differ]
    if differing:
        refused = differing
        effect = "would settle this as deltacli reads it" if settles else "would be right for some of them only"
        consequence = f"engines do not agree on which rows are live; {what} {effect}"
    elif files and rewrites_files:
        refused = list(files)
        consequence = f"its rows may be there twice; {what} would make that permanent"
    else:
        return find_disputed_refusal(snapshot, what, settles=settles)
    return Refusal(
        SEVERAL_SPELLINGS,
        f"the log of version {snapshot.version} names {describe_ambiguous(refused)}, and {consequence}",
        command("validate", select=RULES_OF_SPELLINGS),
        facts={f"file {number}": " and ".join(file.spellings) for number, file in enumerate(refused[:3], 1)},
    )


def find_disputed_refusal(snapshot: Snapshot, what: str, *, settles: bool = True) -> Refusal | None:
    """Return why a version with damaged commits, which engines read differently, must not be written in another form.

    Args:
        snapshot: The version.
        what: What would be written, such as "a checkpoint".
        settles: False if engines would go on reading different rows beside what is written.

    Returns:
        The refusal; None if the version depends on no such damage.
    """
    rules = [rule for rule in SETTLED_BY_CHECKPOINT if rule in snapshot.disputed]
    if not rules:
        return None
    effect = "would settle this as deltacli reads it" if settles else "would be right for some of them only"
    return Refusal(
        rules[0],
        f"engines read version {snapshot.version} differently, and {what} {effect}: {DECISIONS[rules[0]]}",
        command("validate", select=rules),
        facts={"to let all engines read it as deltacli does": command("checkpoint", force=True)},
    )


def describe_ambiguous(files: Sequence[AmbiguousFile]) -> str:
    """Return the number of files, and the spellings of the first one, in words."""
    first, *others = files
    example = f"one file as {' and as '.join(first.spellings[:2])}"
    return f"{example}, and {plural(len(others), 'more file')} by several spellings" if others else example


class _SpellingSearch:
    """Looks for names that several texts stand for, among the paths of a log that come in batches.

    Most paths are the name of their file. Of these only the fingerprint of the name is kept, of the others the hash of
    the text, too.
    """

    def __init__(self, uris: Sequence[str]) -> None:
        self._uris = uris
        self._plain: list[ArrowArray] = []
        self._odd_names: list[ArrowArray] = []
        self._odd_texts: list[ArrowArray] = []

    def add(self, paths: ArrowArray) -> None:
        """Add paths of the log."""
        if not len(paths):
            return
        texts = pc.cast(paths, pa.binary())
        names = name_files(paths, self._uris)
        is_odd = pc.not_equal(texts, names)
        if not pc.any(is_odd).as_py():
            self._plain.append(_fingerprint_names(names))
            return
        odd_texts = pc.filter(texts, is_odd)
        self._plain.append(_fingerprint_names(pc.filter(names, pc.invert(is_odd))))
        self._odd_names.append(_fingerprint_names(pc.filter(names, is_odd)))
        # Texts may differ anywhere, so that a fingerprint, which is made from the last bytes, is not enough.
        self._odd_texts.append(pa.array(map(hash, odd_texts.to_pylist()), pa.int64()))

    def find_contested(self) -> ArrowArray:
        """Return the fingerprints of names for which there are several texts."""
        nothing = pa.array([], pa.int64())
        names = pa.concat_arrays([nothing, *self._odd_names])
        texts = pa.concat_arrays([nothing, *self._odd_texts])
        if not len(names):
            return nothing

        pairs = aggregate_rows(pa.table({"name": names, "text": texts}), ["name", "text"], [])
        per_name = aggregate_rows(pairs, ["name"], [("text", "count")])
        has_several = pc.greater(per_name["text_count"], 1)
        plain = pa.concat_arrays([nothing, *self._plain])
        is_contested = pc.or_(has_several, pc.is_in(per_name["name"], value_set=plain))
        return pc.filter(per_name["name"], is_contested).combine_chunks()


def _fingerprint_names(names: ArrowArray) -> ArrowArray:
    """Return a fingerprint of each whole name: binary array in, int64 array out.

    `fingerprints` covers only the end of a text. Files of one job of Spark have the same last 50 bytes and more:
    `part-00001-UUID.c000.snappy.parquet`.
    """
    beginnings = pc.binary_slice(names, 0, -PRINTED_BYTES)
    return pc.bit_wise_xor(pc.multiply(fingerprints(beginnings), _FACTOR), fingerprints(names))


class _ActionColumns(NamedTuple):
    """File actions of a log, one row each.

    Attributes:
        paths: The paths as in the log.
        vector_ids: The ids of their deletion vectors, "" for none.
        versions: The versions of their commits, `BEFORE_COMMITS` for those of a checkpoint.
    """

    paths: ArrowArray
    vector_ids: ArrowArray
    versions: ArrowArray


def _read_live_files(snapshot: Snapshot | None) -> Iterator[_ActionColumns]:
    """Yield the live files of a version; none without one."""
    if snapshot is None:
        return
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            versions = pa.repeat(pa.scalar(BEFORE_COMMITS, pa.int64()), batch.adds.num_rows)
            yield _ActionColumns(batch.adds.column("path"), batch.adds.column("dv_id"), versions)


def _have_odd_paths(snapshot: Snapshot) -> bool:
    """Return whether the commits after the checkpoint may have a path with several spellings, by their bytes."""
    table = snapshot.table
    for file, content in read_commit_contents(table.storage, table.engine, snapshot.segment.commits, table.progress):
        parts: Iterable[bytes] = stream_lines(table.storage, file) if content is None else (content,)
        if any(map(_has_odd_path, parts)):
            return True
    return False


def _has_odd_path(text: bytes) -> bool:
    """Return whether lines of a commit may have a path with several spellings."""
    if _ODD_PATH.search(text):
        return True
    return b"\\u" in text and _ESCAPED_KEY.search(text) is not None


def _read_commits(snapshot: Snapshot) -> Iterator[FileReferences]:
    """Yield the adds and removes of the commits after the checkpoint."""
    # Faults of other actions, such as change data, are no concern of those who ask.
    yield from read_references_of_commits(
        snapshot.table, snapshot.segment.commits, FileReferenceCollector(), kinds=("add", "remove")
    )


class _ActionCollector:
    """Collects the actions of files with contested names.

    Attributes:
        actions: The actions by the name of their file, each with the spelling of its path.
    """

    def __init__(self, uris: Sequence[str], contested: ArrowArray) -> None:
        """Prepare the collection.

        Args:
            uris: The URIs of the table.
            contested: The fingerprints of the names.
        """
        self._uris = uris
        self._contested = contested
        self.actions: dict[bytes, list[SpelledAction]] = defaultdict(list)

    def take(self, columns: _ActionColumns, *, are_adds: bool) -> None:
        """Add those of some actions that have a contested name."""
        names = name_files(columns.paths, self._uris)
        is_contested = pc.is_in(_fingerprint_names(names), value_set=self._contested)
        if not pc.any(is_contested).as_py():
            return
        rows = zip(
            pc.filter(names, is_contested).to_pylist(),
            pc.filter(columns.paths, is_contested).to_pylist(),
            pc.filter(columns.vector_ids, is_contested).to_pylist(),
            pc.filter(columns.versions, is_contested).to_pylist(),
            strict=True,
        )
        for name, path, vector_id, version in rows:
            self.actions[name].append(SpelledAction(path, vector_id, version, are_adds))
