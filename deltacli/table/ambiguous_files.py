"""Find files that the log of a version references by several spellings of their path.

The paths `a.parquet`, `./a.parquet` and `d/../a.parquet` lead to the same file. The protocol does
not say whether a remove of `./a.parquet` removes `a.parquet`, and engines disagree: some compare
paths as text, others normalize them first (see `deltacli.delta.paths.engine_readings`). If a log
contains more than one spelling of a path, engines may read different rows of the same version, or
read the rows of a file twice.

The replay of a version has already reconciled its actions, so the original paths are read again
from the checkpoint and the commits. Most tables never need this second pass, because none of their
paths can have another spelling.

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
from deltacli.delta.encoding.many_values import FINGERPRINTED_BYTES, compute_fingerprints
from deltacli.delta.log.disputed_readings import DECISIONS, RULES_SETTLED_BY_CHECKPOINT
from deltacli.delta.paths.engine_readings import (
    BEFORE_COMMITS,
    RULES_OF_SPELLINGS,
    SEVERAL_SPELLINGS,
    AmbiguousFile,
    SpelledAction,
    read_as_engines,
)
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes
from deltacli.delta.paths.spelling_columns import resolve_file_names
from deltacli.table.checkpoint_paths import CheckpointPaths, examine_checkpoint_paths
from deltacli.table.commit_contents import read_commit_contents
from deltacli.table.file_references import FileReferenceCollector, FileReferences, read_references_of_commits
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import stream_lines

# Matches a path that may have another spelling: one that starts like an absolute path or with a dot
# segment, or contains a URI escape, a JSON escape, a scheme, an empty segment or a dot segment.
# Statistics are JSON text inside JSON: the quotes of a key named `path` are escaped there, so that
# the expression does not match.
_RESPELLABLE_PATH = re.compile(rb'"path"\s*:\s*"(?![^"%:\\/.][^"%:\\/]*(?:/[^"%:\\/.][^"%:\\/]*)*")')
# Matches a JSON key of four characters of which at least one is escaped, such as `p\u0061th`.
_ESCAPED_KEY = re.compile(rb'"(?=[a-z]{0,3}\\u)(?:[a-z]|\\u[0-9A-Fa-f]{4}){4}"\s*:')
_FINGERPRINT_FACTOR = 0x9E3779B1
"""An odd number, so that the fingerprints of the two halves of a name do not cancel each other if they are equal."""


def find_ambiguous_files(
    snapshot: Snapshot, checkpoint_paths: CheckpointPaths | None = None
) -> Sequence[AmbiguousFile]:
    """Return the files that engines may read differently, or twice, because their path has several spellings.

    Args:
        snapshot: The version to examine.
        checkpoint_paths: The result of `examine_checkpoint_paths` for this version, if available.

    Raises:
        CommitCorrupt: If a commit was replaced by a damaged one since the version was read.
        StorageFailed: If the log cannot be read.
    """
    uris = (snapshot.table.storage.uri, *snapshot.table.storage.aliases)
    if checkpoint_paths is None:
        checkpoint_paths = examine_checkpoint_paths(snapshot)
    # Nearly all tables end here.
    if not checkpoint_paths.may_have_spellings and not _may_commits_have_spellings(snapshot):
        return ()

    # First pass: find the names with several spellings. Only hashes are kept in memory.
    search = _SpellingSearch(uris)
    for adds in _read_live_files(checkpoint_paths.start):
        search.add_paths(adds.paths)
    for references in _read_commits(snapshot):
        search.add_paths(references.path)
    ambiguous_names = search.find_ambiguous_names()
    if not len(ambiguous_names):
        return ()

    # Second pass: collect the actions that refer to these names. There are few of them.
    collector = _ActionCollector(uris, ambiguous_names)
    for adds in _read_live_files(checkpoint_paths.start):
        collector.add_actions(adds, are_adds=True)
    for references in _read_commits(snapshot):
        columns = _ActionColumns(references.path, references.vector, references.version)
        collector.add_actions(columns, are_adds=references.kind == "add")

    files = [read_as_engines(decode_path_bytes(name), actions) for name, actions in collector.actions.items()]
    return tuple(file for file in files if file is not None)


def find_differing_live_files(files: Sequence[AmbiguousFile], left: Snapshot, right: Snapshot) -> list[AmbiguousFile]:
    """Return the files that are live in one snapshot only, or have different deletion vectors in both.

    Args:
        files: The files to compare.
        left: A snapshot.
        right: A snapshot of the same version that was rebuilt from other log files, such as an
            older checkpoint.
    """
    if not files:
        return []
    names = {file.name for file in files}
    left_vector_ids = _read_live_vector_ids(left, names)
    right_vector_ids = _read_live_vector_ids(right, names)
    return [file for file in files if left_vector_ids.get(file.name) != right_vector_ids.get(file.name)]


def find_live_names(snapshot: Snapshot, names: Set[str]) -> Set[str]:
    """Return those `names` (see `resolve_file_names`) whose files are live in a version, as replayed by deltacli."""
    return _read_live_vector_ids(snapshot, names).keys()


def _read_live_vector_ids(snapshot: Snapshot, names: Set[str]) -> Mapping[str, list[str]]:
    """Return the deletion vector ids of live files by file name, sorted. "" stands for no deletion vector.

    A file that is live with two spellings has two ids.
    """
    uris = (snapshot.table.storage.uri, *snapshot.table.storage.aliases)
    requested_names = pa.array([encode_path_bytes(name) for name in names], pa.binary())
    ids_by_name: dict[str, list[str]] = defaultdict(list)
    for adds in _read_live_files(snapshot):
        add_names = resolve_file_names(adds.paths, uris)
        is_requested = pc.is_in(add_names, value_set=requested_names)
        if not pc.any(is_requested).as_py():
            continue
        matching_names = pc.filter(add_names, is_requested).to_pylist()
        matching_ids = pc.filter(adds.vector_ids, is_requested).to_pylist()
        for name, vector_id in zip(matching_names, matching_ids, strict=True):
            ids_by_name[decode_path_bytes(name)].append(vector_id)
    return {name: sorted(vector_ids) for name, vector_ids in ids_by_name.items()}


def require_engine_agreement(
    snapshot: Snapshot, product: str, *, rewrites_files: bool = False, replaces_actions: bool = True
) -> None:
    """Refuse to write something derived from a version that engines read differently.

    Takes the same arguments as `find_disagreement_refusal`.

    Raises:
        Refused: `path.same-file-two-spellings`, or the rule for a damaged commit.
    """
    refusal = find_disagreement_refusal(
        snapshot, product, rewrites_files=rewrites_files, replaces_actions=replaces_actions
    )
    if refusal is not None:
        raise Refused.from_refusals([refusal])


def find_disagreement_refusal(
    snapshot: Snapshot,
    product: str,
    *,
    rewrites_files: bool = False,
    replaces_actions: bool = True,
    files: Sequence[AmbiguousFile] | None = None,
) -> Refusal | None:
    """Return a refusal if engines read a version differently, so that nothing should be derived from it.

    A checkpoint, for example, contains the live files as deltacli reads them. Writing it would
    silently change the rows that other engines return.

    Args:
        snapshot: The version.
        product: The thing to be written, for the message, such as "a checkpoint".
        rewrites_files: True if data files are rewritten. Then a file whose rows all engines read
            twice is refused, too, because the new files would contain both copies of the rows, and
            nobody could detect it any more.
        replaces_actions: True if engines will read the product instead of the ambiguous actions, as
            with a checkpoint. False if they will read both, as with a checksum file.
        files: The result of `find_ambiguous_files` for this version, if available.

    Returns:
        A refusal that lists the first three files, or None if all engines agree.
    """
    if files is None:
        files = find_ambiguous_files(snapshot)

    differing_files = [file for file in files if file.engines_differ]
    if differing_files:
        refused_files = differing_files
        effect = _describe_effect(replaces_actions=replaces_actions)
        consequence = f"engines do not agree on which rows are live; {product} {effect}"
    elif files and rewrites_files:
        refused_files = list(files)
        consequence = f"its rows may be there twice; {product} would make that permanent"
    else:
        return find_damaged_commit_refusal(snapshot, product, replaces_actions=replaces_actions)
    return Refusal(
        SEVERAL_SPELLINGS,
        f"the log of version {snapshot.version} names {describe_ambiguous(refused_files)}, and {consequence}",
        command("validate", select=RULES_OF_SPELLINGS),
        facts={f"file {number}": " and ".join(file.spellings) for number, file in enumerate(refused_files[:3], 1)},
    )


def find_damaged_commit_refusal(snapshot: Snapshot, product: str, *, replaces_actions: bool = True) -> Refusal | None:
    """Return a refusal if a version depends on damaged commits that engines read differently.

    An example is a commit with two metaData actions: Spark uses the last one, delta-rs the first
    one (see `deltacli.delta.log.disputed_readings`).

    Args:
        snapshot: The version.
        product: The thing to be written, for the message, such as "a checkpoint".
        replaces_actions: True if engines will read the product instead of the damaged commits.

    Returns:
        The refusal, or None if the version does not depend on such a commit.
    """
    rules = [rule for rule in RULES_SETTLED_BY_CHECKPOINT if rule in snapshot.disputed]
    if not rules:
        return None
    effect = _describe_effect(replaces_actions=replaces_actions)
    return Refusal(
        rules[0],
        f"engines read version {snapshot.version} differently, and {product} {effect}: {DECISIONS[rules[0]]}",
        command("validate", select=rules),
        facts={"to let all engines read it as deltacli does": command("checkpoint", force=True)},
    )


def _describe_effect(*, replaces_actions: bool) -> str:
    return "would settle this as deltacli reads it" if replaces_actions else "would be right for some of them only"


def describe_ambiguous(files: Sequence[AmbiguousFile]) -> str:
    """Describe ambiguous files for a message: two spellings of the first file, and the number of other files."""
    first, *others = files
    example = f"one file as {' and as '.join(first.spellings[:2])}"
    return f"{example}, and {plural(len(others), 'more file')} by several spellings" if others else example


class _SpellingSearch:
    """Finds file names that occur with several spellings among millions of paths.

    A path that equals the name of its file is stored as one fingerprint. Any other path is stored
    as the fingerprint of the name and a hash of the spelling:

        path              name            stored as
        a.parquet         a.parquet       plain name
        ./a.parquet       a.parquet       respelled name, with the hash of `./a.parquet`

    A name is ambiguous if it is both a plain and a respelled name, or was respelled in two ways.
    """

    def __init__(self, uris: Sequence[str]) -> None:
        self._uris = uris
        self._plain_names: list[ArrowArray] = []
        self._respelled_names: list[ArrowArray] = []
        self._spelling_hashes: list[ArrowArray] = []

    def add_paths(self, paths: ArrowArray) -> None:
        """Add paths as written in the log."""
        if not len(paths):
            return
        spellings = pc.cast(paths, pa.binary())
        names = resolve_file_names(paths, self._uris)
        is_respelled = pc.not_equal(spellings, names)
        if not pc.any(is_respelled).as_py():
            self._plain_names.append(_fingerprint_names(names))
            return

        plain_names = pc.filter(names, pc.invert(is_respelled))
        respelled_names = pc.filter(names, is_respelled)
        self._plain_names.append(_fingerprint_names(plain_names))
        self._respelled_names.append(_fingerprint_names(respelled_names))
        # Fingerprints depend mainly on the last bytes, but spellings may differ anywhere.
        respelled = pc.filter(spellings, is_respelled).to_pylist()
        self._spelling_hashes.append(pa.array(map(hash, respelled), pa.int64()))

    def find_ambiguous_names(self) -> ArrowArray:
        """Return the fingerprints (int64) of names with more than one spelling."""
        empty = pa.array([], pa.int64())
        plain_names = pa.concat_arrays([empty, *self._plain_names])
        respelled_names = pa.concat_arrays([empty, *self._respelled_names])
        spelling_hashes = pa.concat_arrays([empty, *self._spelling_hashes])
        if not len(respelled_names):
            return empty

        respelled = pa.table({"name": respelled_names, "spelling": spelling_hashes})
        distinct_spellings = aggregate_rows(respelled, ["name", "spelling"], [])
        counts = aggregate_rows(distinct_spellings, ["name"], [("spelling", "count")])
        has_two_respellings = pc.greater(counts["spelling_count"], 1)
        is_also_plain = pc.is_in(counts["name"], value_set=plain_names)
        is_ambiguous = pc.or_(has_two_respellings, is_also_plain)
        return pc.filter(counts["name"], is_ambiguous).combine_chunks()


def _fingerprint_names(names: ArrowArray) -> ArrowArray:
    """Return a 64-bit fingerprint of each name (binary -> int64).

    `compute_fingerprints` covers only the last 48 bytes of a value. The names of files of one Spark job
    differ before these bytes (`part-00001-UUID.c000.snappy.parquet`), so the beginning of each name
    has its own fingerprint.
    """
    beginnings = pc.binary_slice(names, 0, -FINGERPRINTED_BYTES)
    return pc.bit_wise_xor(
        pc.multiply(compute_fingerprints(beginnings), _FINGERPRINT_FACTOR), compute_fingerprints(names)
    )


class _ActionColumns(NamedTuple):
    """File actions as columns, one row per action.

    Attributes:
        paths: Paths as written in the log.
        vector_ids: Unique ids of the deletion vectors, "" for files without one.
        versions: Versions of the commits, `BEFORE_COMMITS` for actions of a checkpoint.
    """

    paths: ArrowArray
    vector_ids: ArrowArray
    versions: ArrowArray


def _read_live_files(snapshot: Snapshot | None) -> Iterator[_ActionColumns]:
    """Yield the live files of a version. None has no files."""
    if snapshot is None:
        return
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            versions = pa.repeat(pa.scalar(BEFORE_COMMITS, pa.int64()), batch.adds.num_rows)
            yield _ActionColumns(batch.adds.column("path"), batch.adds.column("dv_id"), versions)


def _may_commits_have_spellings(snapshot: Snapshot) -> bool:
    """Search the commits after the checkpoint for paths that may have another spelling, without parsing JSON."""
    table = snapshot.table
    for file, content in read_commit_contents(table.storage, table.engine, snapshot.segment.commits, table.progress):
        # Large commits are searched line by line.
        texts: Iterable[bytes] = stream_lines(table.storage, file) if content is None else (content,)
        if any(map(_may_have_respellable_path, texts)):
            return True
    return False


def _may_have_respellable_path(text: bytes) -> bool:
    """Return True if lines of a commit may contain a path with another spelling."""
    if _RESPELLABLE_PATH.search(text):
        return True
    # `{"p\u0061th": …}` is a path, too, but the expression above does not find it.
    return b"\\u" in text and _ESCAPED_KEY.search(text) is not None


def _read_commits(snapshot: Snapshot) -> Iterator[FileReferences]:
    """Yield the adds and removes of the commits after the checkpoint. Damaged actions of other kinds are ignored."""
    yield from read_references_of_commits(
        snapshot.table, snapshot.segment.commits, FileReferenceCollector(), kinds=("add", "remove")
    )


class _ActionCollector:
    """Collects the actions that refer to files with an ambiguous name.

    Attributes:
        actions: The collected actions by file name, in the order in which they were added.
    """

    def __init__(self, uris: Sequence[str], ambiguous_names: ArrowArray) -> None:
        """Create an empty collector.

        Args:
            uris: All URIs of the table directory.
            ambiguous_names: Fingerprints of the ambiguous names.
        """
        self._uris = uris
        self._ambiguous_names = ambiguous_names
        self.actions: dict[bytes, list[SpelledAction]] = defaultdict(list)

    def add_actions(self, columns: _ActionColumns, *, are_adds: bool) -> None:
        """Add the actions whose file has an ambiguous name, and ignore the others.

        Args:
            columns: The actions.
            are_adds: True for adds, False for removes.
        """
        names = resolve_file_names(columns.paths, self._uris)
        is_ambiguous = pc.is_in(_fingerprint_names(names), value_set=self._ambiguous_names)
        if not pc.any(is_ambiguous).as_py():
            return
        rows = zip(
            pc.filter(names, is_ambiguous).to_pylist(),
            pc.filter(columns.paths, is_ambiguous).to_pylist(),
            pc.filter(columns.vector_ids, is_ambiguous).to_pylist(),
            pc.filter(columns.versions, is_ambiguous).to_pylist(),
            strict=True,
        )
        for name, path, vector_id, version in rows:
            self.actions[name].append(SpelledAction(path, vector_id, version, are_adds))
