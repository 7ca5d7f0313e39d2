"""Comparison of a listing with the files that a table needs: which to delete, which to keep and why.

Spec: Data Files (hidden names); Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.arrow import compute as pc
from deltacli.changing.plan import Amount
from deltacli.core.cached import cached_property
from deltacli.core.typing import ArrowArray
from deltacli.delta.vacuum.file_kinds import FileKind, HiddenNames, TableRoots, kinds
from deltacli.delta.vacuum.keys import PathKeys, is_among, partition_of
from deltacli.operations.vacuum.plan import Kept, Reason
from deltacli.operations.vacuum.references import References
from deltacli.storage import ReadStorage, link_targets
from deltacli.table.walk import TableWalk
from deltacli.work.files.classifying import ClassifiedFiles, KnownFiles, classify
from deltacli.work.files.listing import ListedFiles

if TYPE_CHECKING:
    import pyarrow

    from deltacli.core.errors import Unreadable
    from deltacli.delta.vacuum.partition_paths import PartitionSelector

_LEAST_ROWS, _MOST_ROWS = 524_288, 1_000_000
_EXAMPLES = 5
_LONGEST = 1 << 20
"""Maximum length of a path, because pyarrow 26.0.1 cannot slice without an end."""
_MOST_LINKS = 8
"""Maximum number of links in the path of one file."""
_MOST_NAMES = 4_000_000
"""Maximum number of names of files through links, which may form cycles; with more names the files are kept."""


class Doubts(NamedTuple):
    """Files (boolean arrays) that are kept because the log is inconsistent or partly unreadable."""

    lost: Any
    """The log adds and does not remove them, but the newest version lacks them."""
    unread: Any
    """No readable part of the log names them, but a damaged older checkpoint may."""
    fault: Unreadable | None = None
    """The fault of the damaged checkpoint; None where everything could be read."""


def rows_at_once(references: References) -> int:
    """Number of listed files compared at a time: each lookup builds a hash table of all needed files."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, (len(references.live) + len(references.protected)) // 4))


@dataclass(eq=False, repr=False)
class CandidateClassifier:
    """Collects classified files; `choose` returns the candidates."""

    storage: ReadStorage
    references: References
    keys: PathKeys
    names: HiddenNames
    cutoff_ms: int
    may_repeat: bool = False
    """The listing may contain a file more than once, as an inventory does."""
    hits: list[Any] = field(default_factory=list)  # Any: pyarrow has no types
    """Hashes of listed files that are needed."""
    lost: ArrowArray = None
    """Hashes of listed files that are kept because the log is inconsistent; None before `choose`."""
    young: list[Any] = field(default_factory=list)
    hidden: int = 0
    listed: int = 0
    _roots: TableRoots = field(default_factory=TableRoots)
    _old: list[Any] = field(default_factory=list)
    _live_hits: int = 0

    @cached_property
    def known(self) -> KnownFiles:
        """What files are compared with."""
        import pyarrow as pa

        found = self.references
        others = [found.protected, *([] if found.live_written is found.live else [found.live_written])]
        return KnownFiles(self.keys, self.names, self.cutoff_ms, found.live, pa.concat_arrays(others))

    def take(self, files: ListedFiles) -> None:
        """Classify listed files."""
        self.merge(classify(files, self.known, self.storage))

    def merge(self, part: ClassifiedFiles) -> None:
        """Add classified files."""
        self.listed += part.listed
        self.hidden += part.hidden
        self._live_hits += part.live
        self.hits += part.hits
        self.young += part.young
        self._old += part.old
        self._roots.merge(part.roots)

    def is_needed(self, hashes: pyarrow.Array) -> pyarrow.Array:
        """Return which files the log needs."""
        return pc.or_(self.known.find_live(hashes), self.known.find_others(hashes))

    def old_files(self) -> pyarrow.Table:
        """Return every file that is not needed and old enough: path, sizeBytes, modificationTimeMs, hash."""
        import pyarrow as pa

        names = ["path", "sizeBytes", "modificationTimeMs", "hash"]
        types = [pa.binary(), pa.int64(), pa.int64(), pa.int64()]
        found = pa.Table.from_batches(self._old, pa.schema(list(zip(names, types, strict=True))))
        if not self.may_repeat:
            return found
        paths = found.column("path").combine_chunks()
        return found.take(pc.index_in(pc.unique(paths), value_set=paths))

    @cached_property
    def needed(self) -> pyarrow.Array:
        """Return the hashes of the listed files that are needed."""
        import pyarrow as pa

        found = pa.concat_arrays([*self.hits, pa.array([], pa.int64())])
        return pc.unique(found) if self.may_repeat else found

    @property
    def young_files(self) -> int:
        """Return the number of files that are too recent to delete."""
        import pyarrow as pa

        if self.may_repeat:
            return len(pc.unique(pa.concat_arrays([*self.young, pa.array([], pa.int64())])))
        return sum(map(len, self.young))

    @cached_property
    def live_found(self) -> tuple[Amount, Amount]:
        """Return the expected and the found number of live files in the listing, with their bytes by the log."""
        live, written, sizes = self.references.live, self.references.live_written, self.references.live_sizes
        if (
            self._live_hits == len(live) and not self.may_repeat
        ):  # the usual case: all were found, and no lookup is needed
            every = Amount(len(live), pc.sum(sizes).as_py() or 0)
            return every, every
        is_found = is_among(live, self.needed)
        if written is not live:
            is_found = pc.or_(is_found, is_among(written, self.needed))
        found = pc.filter(sizes, is_found)
        if len(self.references.unlisted):
            is_new = pc.is_in(live, value_set=self.references.unlisted)
            sizes = pc.filter(sizes, pc.or_(is_found, pc.invert(is_new)))
        return Amount(len(sizes), pc.sum(sizes).as_py() or 0), Amount(len(found), pc.sum(found).as_py() or 0)

    @cached_property
    def removed_stays(self) -> pyarrow.Array:
        """Return for each removal in the log whether the file was listed and is kept."""
        import pyarrow as pa

        survivors = pa.concat_arrays([self.needed, *self.young, *([] if self.lost is None else [self.lost])])
        return is_among(self.references.removed.hashes, survivors)

    @property
    def tables(self) -> dict[str, str]:
        """Directories that are tables of their own by the listed files, '' for the root -> the format."""
        return self._roots.found


class Walk(Protocol):
    """Other entries found by the listing."""

    links: list[str]
    hidden_directories: list[str]


class CandidateChoice(NamedTuple):
    """What limits the candidates."""

    include_foreign: bool = False
    selector: PartitionSelector | None = None
    proven_only: bool = False
    """The log lacks removals within the retention: only files that it proves to be old enough are deleted."""
    find_doubts: Callable[[ArrowArray], Doubts] | None = None
    """Finds the files that the newest version may have lost."""


class Candidates(NamedTuple):
    """The files to delete, as in `VacuumPlan.candidates`, with their hashes; and the old files that are kept."""

    rows: pyarrow.Table
    hashes: pyarrow.Array
    foreign: Amount
    foreign_examples: tuple[str, ...]
    unproven: int
    outside_selection: int
    in_nested: int
    lost: pyarrow.Table
    """The files that are kept because the log is inconsistent, a part of `unproven`; columns as in `choose`.
    """
    unread: pyarrow.Table
    """The same for files that a damaged checkpoint may name."""
    fault: Unreadable | None
    """The reason why it cannot be read."""


def choose(old: pyarrow.Table, nested: Sequence[str], references: References, choice: CandidateChoice) -> Candidates:
    """Return the reason to delete each old unneeded file, without the files that are kept for another reason."""
    rows = _with_reasons(outside_of(old, nested), references)
    in_nested = old.num_rows - rows.num_rows
    foreign, examples = Amount(), ()
    if not choice.include_foreign:
        is_foreign = pc.equal(rows.column("reason"), Reason.FOREIGN.value)
        found = pc.filter(rows, is_foreign)
        foreign = Amount(found.num_rows, pc.sum(found.column("sizeBytes")).as_py() or 0)
        examples = tuple(
            path.decode("utf-8", "surrogateescape") for path in found.column("path").slice(0, _EXAMPLES).to_pylist()
        )
        rows = pc.filter(rows, pc.invert(is_foreign))
    before = rows.num_rows
    rows, lost, unread, fault = _without_doubtful(rows, choice)
    if choice.proven_only:
        rows = pc.filter(rows, rows.column("isKnown"))
    if references.unknown_vector is not None:
        for reason in (Reason.VECTOR, Reason.FOREIGN):  # the name of such a file is not known
            rows = pc.filter(rows, pc.not_equal(rows.column("reason"), reason.value))
    unproven, before = before - rows.num_rows, rows.num_rows
    if choice.selector is not None and rows.num_rows:
        rows = pc.filter(rows, choice.selector.mask(rows.column("path").combine_chunks()))
    outside = before - rows.num_rows
    rows = rows.combine_chunks()
    rows = pc.take(rows, pc.sort_indices(rows.column("path").combine_chunks()))
    hashes = rows.column("hash").combine_chunks()
    paths = rows.column("path").combine_chunks()
    rows = rows.select(["path", "sizeBytes", "modificationTimeMs", "reason", "removedAtVersion"])
    rows = rows.append_column("partition", partition_of(paths))
    return Candidates(rows, hashes, foreign, examples, unproven, outside, in_nested, lost, unread, fault)


def _without_doubtful(
    rows: pyarrow.Table, choice: CandidateChoice
) -> tuple[pyarrow.Table, pyarrow.Table, pyarrow.Table, Unreadable | None]:
    """Return the rows that the newest version may lack, those that it lost, and those for which that is unknown, with
    the reason. Checkpoints do not name change data.
    """
    if choice.find_doubts is None or not rows.num_rows:
        return rows, rows.slice(0, 0), rows.slice(0, 0), None
    found = choice.find_doubts(rows.column("hash").combine_chunks())
    is_unread = pc.and_not(found.unread, pc.equal(rows.column("reason"), Reason.CHANGE_DATA.value))
    is_unread = pc.and_not(is_unread, found.lost)
    stays = pc.or_(found.lost, is_unread)
    return pc.filter(rows, pc.invert(stays)), pc.filter(rows, found.lost), pc.filter(rows, is_unread), found.fault


def outside_of(rows: pyarrow.Table, directories: Sequence[str]) -> pyarrow.Table:
    """Return the rows whose paths are in none of the directories."""
    for directory in directories:
        prefix = directory.encode("utf-8", "surrogateescape") + b"/"
        rows = pc.filter(rows, pc.invert(pc.starts_with(rows.column("path"), pattern=prefix)))
    return rows


def _with_reasons(rows: pyarrow.Table, references: References) -> pyarrow.Table:
    """Add `reason`, `removedAtVersion`, and whether the log proves that it was removed (`isKnown`)."""
    import pyarrow as pa

    hashes = rows.column("hash").combine_chunks()
    of_removed = pc.index_in(hashes, value_set=references.removed.hashes)
    of_changes = pc.index_in(hashes, value_set=references.changes.hashes)
    is_removed = pc.or_(pc.is_valid(of_removed), pc.is_valid(of_changes))
    versions = pc.coalesce(pc.take(references.removed.other, of_removed), pc.take(references.changes.other, of_changes))
    kind = kinds(rows.column("path").combine_chunks())
    is_vector = pc.or_(pc.equal(kind, FileKind.VECTOR), pc.is_in(hashes, value_set=references.vectors))
    is_change_data = pc.equal(kind, FileKind.CHANGE_DATA)
    is_known_kind = pc.or_(pc.not_equal(kind, FileKind.FOREIGN), pc.is_in(hashes, value_set=references.named))
    reason = pc.if_else(
        is_vector,
        Reason.VECTOR.value,
        pc.if_else(
            is_change_data,
            Reason.CHANGE_DATA.value,
            pc.if_else(
                is_removed,
                Reason.TOMBSTONE.value,
                pc.if_else(is_known_kind, Reason.UNCOMMITTED.value, Reason.FOREIGN.value),
            ),
        ),
    )
    # Before a gap in the log the later history of a file is unknown.
    runs = references.listing.commit_runs
    is_sure = pc.greater_equal(versions, runs[-1][0]) if runs else pc.is_null(versions)
    is_known = pc.or_(pc.and_(is_removed, pc.fill_null(is_sure, True)), is_change_data)
    return (
        rows.append_column("reason", pc.cast(reason, pa.string()))
        .append_column("removedAtVersion", versions)
        .append_column("isKnown", is_known)
    )


def kept_files(judge: CandidateClassifier, found: Candidates, walk: Walk, nested: Sequence[str]) -> Kept:
    """The listed files that are kept."""
    _, live = judge.live_found
    vectors = judge.references.live_vectors
    of_vectors = pc.sum(pc.is_in(judge.needed, value_set=vectors)).as_py() or 0 if len(vectors) else 0
    return Kept(
        live=Amount(live.files + of_vectors, live.size_bytes),
        retained=max(0, len(judge.needed) - live.files - of_vectors),
        young=judge.young_files,
        foreign=found.foreign,
        hidden=judge.hidden + len(walk.hidden_directories),
        links=len(walk.links),
        unproven=found.unproven,
        outside_selection=found.outside_selection,
        nested_tables=tuple(sorted(nested)),
        foreign_examples=found.foreign_examples,
    )


def batches_of(listed: Iterator[ListedFiles], rows: int) -> Iterator[ListedFiles]:
    """Join batches of a listing until each has so many rows."""
    held: list[ListedFiles] = []
    count = 0
    for files in listed:
        held.append(files)
        count += len(files.paths)
        if count >= rows:
            yield _joined(held)
            held, count = [], 0
    if held:
        yield _joined(held)


def _joined(held: list[ListedFiles]) -> ListedFiles:
    import pyarrow as pa

    if len(held) == 1:
        return held[0]

    def whole(columns: list[Any]) -> Any:  # Any: pyarrow has no types
        return None if any(column is None for column in columns) else pa.concat_arrays(columns)

    paths, sizes, times, plain = zip(*held, strict=True)
    joined = list(chain.from_iterable(paths)) if isinstance(paths[0], list) else pa.concat_arrays(list(paths))
    return ListedFiles(joined, whole(list(sizes)), whole(list(times)), all(plain))


def spare_linked(judge: CandidateClassifier, walk: TableWalk | None, *, names_hidden: bool) -> pyarrow.Table:
    """Return the old files without those that the log needs by another name, which are passed to the judge.

    `walk` has listed the whole table, None if nothing has; with `names_hidden` the log names files in hidden
    directories, so that links in these count, too.
    """
    old, storage = judge.old_files(), judge.storage
    if not old.num_rows or not storage.capabilities.has_directories:
        return old
    if walk is None:
        walk = TableWalk(storage, judge.names)
        for _ in walk.files():
            pass
    links = [*walk.links, *(walk.hidden_links if names_hidden else ())]
    ways = [(_encoded(target), _encoded(link)) for target, link in link_targets(storage, links)]
    if not ways:
        return old

    def is_needed(names: pyarrow.Array) -> pyarrow.Array:
        hashes = judge.keys.of_listing(names)
        found = judge.is_needed(hashes)
        judge.hits.append(pc.filter(hashes, found))
        return found

    return pc.filter(old, pc.invert(_has_needed_name(old, ways, is_needed)))


def is_live_by_links(
    rows: pyarrow.Table,
    storage: ReadStorage,
    directories: Iterable[str],
    is_live: Callable[[pyarrow.Array], pyarrow.Array],
) -> pyarrow.Array:
    """Return which files are live by another name, because the path of one of these directories contains a link."""
    names = [name for name in directories if "\0" not in name]
    found = link_targets(storage, names)
    ways = [(_encoded(target), _encoded(name)) for target, name in found if target != name]
    return _has_needed_name(rows, ways, is_live)


def _has_needed_name(
    old: pyarrow.Table, ways: Sequence[tuple[bytes, bytes]], is_wanted: Callable[[pyarrow.Array], pyarrow.Array]
) -> pyarrow.Array:
    """Return which files have a wanted name through these links (target, link)."""
    import pyarrow as pa

    numbers = rows = pa.array(range(old.num_rows), pa.int64())
    names = old.column("path").combine_chunks()
    is_needed = pa.repeat(pa.scalar(False), old.num_rows)
    for _ in range(_MOST_LINKS if ways else 0):
        rows, names = _by_other_names(rows, names, ways)
        if len(rows) > _MOST_NAMES:
            return pc.or_(is_needed, pc.is_in(numbers, value_set=rows))
        if not len(rows):
            break
        is_needed = pc.or_(is_needed, pc.is_in(numbers, value_set=pc.filter(rows, is_wanted(names))))
    return is_needed


def _by_other_names(
    rows: pyarrow.Array, names: pyarrow.Array, ways: Sequence[tuple[bytes, bytes]]
) -> tuple[pyarrow.Array, pyarrow.Array]:
    """Return the names of files through one more link, with the indices of their rows."""
    import pyarrow as pa

    found_rows, found_names = [pa.array([], pa.int64())], [pa.array([], pa.binary())]
    for target, link in ways:
        below, start = (target + b"/", len(target) + 1) if target else (b"", 0)
        is_below = pc.starts_with(names, pattern=below)
        is_target = pc.equal(names, pa.scalar(target, pa.binary()))
        inner = pc.binary_slice(pc.filter(names, is_below), start, _LONGEST)
        found_names += [
            pc.binary_join_element_wise(pa.scalar(link), inner, b"/"),
            pa.array([link] * is_target.true_count, pa.binary()),
        ]
        found_rows += [pc.filter(rows, is_below), pc.filter(rows, is_target)]
    return pa.concat_arrays(found_rows), pa.concat_arrays(found_names)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
