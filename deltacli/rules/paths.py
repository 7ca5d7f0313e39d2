"""Rules about the paths of files: how each is written, and several paths for one file.

Spec: Add File and Remove File (RFC 2396); Data Files; Add File and Remove File; Action Reconciliation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import LazyText, command
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.data_files import EMPTY_VECTOR_DIRECTORY
from deltacli.delta.encoding.many_values import compute_fingerprints, find_repeated_hashes
from deltacli.delta.log.segment import HINT_NAME, LOG_DIRECTORY, LogFileKind, Place, parse_log_path
from deltacli.delta.paths.hadoop import are_spelled_otherwise, spell_as_hadoop
from deltacli.delta.paths.lookalikes import compose_letters, fold_letters, fold_letters_column, other_readings
from deltacli.delta.paths.spelling import (
    IS_ABSOLUTE,
    canonicalize_path,
    canonicalize_root,
    decode,
    encode_path_bytes,
    leaves_directory,
)
from deltacli.delta.paths.spelling_columns import (
    STRAY_PERCENT,
    are_absolute,
    canonicalize_paths,
    decode_column,
    drop_first_bytes,
)
from deltacli.rules.framework import views
from deltacli.rules.framework.base import Area, Finding, Level, Rule, Severity
from deltacli.rules.framework.engines import effect_of

AREA = Area("paths", spec="Add File and Remove File")

_ADD_AGAIN = "commit a remove of this path, and the add again with the right one, both with dataChange=false"

BAD_ENCODING = AREA.error(
    "path.bad-encoding",
    "A path has a percent sign that does not begin a valid escape, or its escapes are not UTF-8.",
    broken="readers refuse the path, or look for a file of another name",
    repair=_ADD_AGAIN,
    example='{"add":{"path":"rate=5%/part-0.parquet",…}}',
)
NOT_ENCODED = AREA.error(
    "path.not-encoded",
    "A path has characters that a URI must escape, such as a space, #, ?, a backslash or a control character.",
    broken="Spark and Delta Kernel for Java refuse the whole table; others refuse the path, or cut it at # or ?",
    repair=_ADD_AGAIN,
    example='{"add":{"path":"city=New York/part-0.parquet",…}}',
)
COLON = AREA.error(
    "path.colon",
    "The first directory of a relative path, or its only name, has a colon, which a URI must escape there.",
    broken="Spark and Delta Kernel for Java take what is before the colon for a scheme and refuse the whole table",
    repair=_ADD_AGAIN,
    example='{"add":{"path":"time=03:06/part-0.parquet",…}}, which a URI spells time=03%3A06/part-0.parquet',
)
ESCAPES_ROOT = AREA.error(
    "path.escapes-root",
    "A relative path leaves the table's directory with `..`.",
    broken="the file is outside the table, so copies of the table lack it and others may delete it",
    repair="copy the file into the table, then commit a remove of this path and an add of the new one",
    loss="the rows of the file, if it cannot be copied",
    example='{"add":{"path":"../other/part-0.parquet",…}}',
)
NOT_NORMALISED = AREA.error(
    "path.not-normalised",
    "A path has dot segments, empty segments, a trailing slash or backslashes.",
    broken="engines that compare paths as text treat it as another file; on object stores it is another file; some "
    "engines do not find the file",
    repair=_ADD_AGAIN,
    example='{"add":{"path":"./day=1//part-0.parquet",…}}',
)
ABSOLUTE = AREA.info(
    "path.absolute",
    "An absolute path points outside the table, as in a shallow clone.",
    broken="another table's vacuum may delete the file; without a scheme each engine uses its own default store",
    repair="copy the file into the table, then commit a remove of this path and an add of the new one",
    example='{"add":{"path":"s3://other-bucket/table/part-0.parquet",…}}',
)
ABSOLUTE_INSIDE_ROOT = AREA.warning(
    "path.absolute-inside-root",
    "An absolute path points into the table's own directory.",
    broken="after the table is moved or copied, the path still points to the old place; some vacuums delete the file",
    repair=_ADD_AGAIN,
    example='{"add":{"path":"s3://bucket/table/part-0.parquet",…}} in the table s3://bucket/table',
)
FILE_URI_FORM = AREA.warning(
    "path.file-uri-form",
    "In a table that writes deletion vectors, an absolute path is not spelled as Hadoop spells it.",
    spec="Delta-Spark: deletion vectors of DELETE, UPDATE and MERGE",
    broken="DELETE, UPDATE and MERGE of Delta for Spark fail: Encountered a non matched file path",
    repair="add the file again under the right spelling with another deletion vector, and then with its own",
    example='{"add":{"path":"file:///lake/source/part-0.parquet",…}}, which Hadoop spells file:/lake/source/…',
)
HIDDEN_LOCATION = AREA.warning(
    "path.hidden-location",
    "A data file is below a directory whose name begins with _ or a dot.",
    spec="Data Files",
    broken="tools treat such directories as hidden: vacuum never cleans them, and some readers skip the file",
    repair="rewrite the file with an engine, which gives it a valid path",
    example='{"add":{"path":"_tmp/part-0.parquet",…}}',
)
RESERVED_NAME = AREA.warning(
    "path.reserved-name",
    "A data file is in the log, or is named like a file of the log.",
    spec="File Types",
    broken="tools that clean or list the log may delete the file, or treat it as part of the log",
    repair="rewrite the file with an engine, which gives it a valid path",
    example='{"add":{"path":"_delta_log/part-0.parquet",…}}',
)


class PathFault(NamedTuple):
    """A rule that a path violates, and the message."""

    rule: Rule
    message: str
    seen: str
    expected: str
    severity: Severity | None = None
    cases: tuple[str, ...] = ()


_PLAIN = "A-Za-z0-9_.!~*'()%:@&=+$,;/-"
"The characters that need no escape in the path of a URI."
_SUSPICIOUS = "|".join(
    (
        f"[^{_PLAIN}]",
        STRAY_PERCENT,
        "%2[Ee]",  # an encoded dot
        r"//|/$|(^|/|%2[Ff])[.][.]?(/|%2[Ff]|$)",
        r"^[^/]*:|^/",
        "(^|/)[_.][^/=]*/",
        r"(^|/)(_last_checkpoint|_last_vacuum_info|[0-9]{20}[.](json|crc|([0-9]+[.]compacted|checkpoint)[.][^/]*))$",
    )
)
"Any path that violates a rule, and few others; in the dialect of Arrow."
_NOT_ASCII_ESCAPE = "%[89A-Fa-f][0-9A-Fa-f]"

_STRAY = re.compile(STRAY_PERCENT.replace("$", r"\Z"))
_NOT_PLAIN = re.compile(rf"[^{_PLAIN}]")
_ROOT = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://[^/]*)?)?(?P<rest>.*)", re.DOTALL)
_COLON_IN_FIRST_SEGMENT = re.compile(r"(?P<before>[^/:]*):")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_RESERVED_NAMES = frozenset({HINT_NAME, "_last_vacuum_info"})


def suspicious(paths: ArrowArray) -> ArrowArray:
    """Return which paths need to be checked one by one: all that violate a rule, and few others."""
    mask: Any = pc.match_substring_regex(paths, _SUSPICIOUS)
    escaped = pc.match_substring_regex(paths, _NOT_ASCII_ESCAPE)
    if pc.any(escaped).as_py():
        try:
            pc.cast(decode_column(paths), pa.string())
        except pa.ArrowInvalid:
            mask = pc.or_(mask, escaped)
    return mask


def faults_of_path(path: str, uri: str) -> Iterator[PathFault]:
    """Yield the rules that a path violates. `uri` is that of the table, empty to leave absolute paths unchecked."""
    parts = _ROOT.fullmatch(path)
    scheme, rest = (parts["scheme"], parts["rest"]) if parts else (None, path)
    is_absolute = scheme is not None or path.startswith("/")
    yield from _encoding_faults(path)
    if not is_absolute and (match := _COLON_IN_FIRST_SEGMENT.match(path)):
        yield _colon_fault(path, match["before"])
    escapes = not is_absolute and leaves_directory(decode(rest))
    if escapes:
        yield PathFault(ESCAPES_ROOT, f"{path} leaves the table's directory", path, "a path inside the table")
    elif odd := _odd_part(rest):
        normalised = canonicalize_path(path).encode("utf-8", "replace").decode()
        severity = None if effect_of(NOT_NORMALISED.id, (odd.case,)) is not None else Severity.WARNING
        yield PathFault(NOT_NORMALISED, f"{path} has {odd.text}", path, normalised, severity, (odd.case,))
    if is_absolute and uri:
        yield _absolute_fault(path, scheme, uri)
    yield from _place_faults(rest, is_absolute=is_absolute)


def _encoding_faults(path: str) -> Iterator[PathFault]:
    if stray := _STRAY.search(path):
        seen = path[stray.start() : stray.start() + 3]
        message = f"{path} has {seen}, which is not a valid escape"
        yield PathFault(BAD_ENCODING, message, seen, "%25 for a percent sign", cases=("stray",))
    elif any("\udc80" <= character <= "\udcff" for character in decode(path)):
        message = f"the escapes of {path} are not UTF-8"
        yield PathFault(BAD_ENCODING, message, path, "UTF-8, each byte as %xx", cases=("not UTF-8",))
    odd = sorted(set(_NOT_PLAIN.findall(path)))
    refused = [character for character in odd if _kind_of_character(character) != "letter"]
    if refused:
        names = " ".join(_named(character) for character in refused[:5])
        escaped = " ".join(_escape(character) for character in refused[:5])
        cases = tuple(dict.fromkeys(map(_kind_of_character, refused)))
        message = f"{path} has {names} unescaped, which a URI must escape"
        yield PathFault(NOT_ENCODED, message, names, escaped, cases=cases)
    elif odd:
        # The reference implementation leaves non-ASCII letters unescaped, and every reader accepts them.
        seen = "".join(odd[:5])
        message = f"{path} has {seen} unescaped; strictly, a URI escapes it"
        yield PathFault(NOT_ENCODED, message, seen, _escape(seen), Severity.INFO, ("letter",))


def _escape(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))


def _kind_of_character(character: str) -> str:
    """Return the kind of a character that a URI escapes: all of a kind are refused by the same engines.

    Java's `java.net.URI` takes every character outside of ASCII that is neither a space nor a control character.
    """
    named = {"#": "hash", "?": "question mark", "\\": "backslash"}.get(character)
    if named is not None:
        return named
    category = unicodedata.category(character)
    if character.isascii():
        return "control character" if category == "Cc" else "other"
    return "other" if category in ("Cc", "Zs", "Zl", "Zp") else "letter"


def _colon_fault(path: str, before: str) -> PathFault:
    """Return the fault of a relative path whose first segment has a colon behind `before`."""
    expected = f"{before}%3A{path[len(before) + 1 :]}"
    case = "scheme" if _SCHEME.fullmatch(before) else "segment"
    message = f"{path} has a colon before the first slash, where it ends a scheme"
    return PathFault(COLON, message, before + ":", expected, cases=(case,))


def _named(character: str) -> str:
    if character == " ":
        return "a space"
    if character.isprintable():
        return character
    kind = "control character" if unicodedata.category(character) == "Cc" else "character"
    return f"the {kind} {ord(character)}"


class _OddPart(NamedTuple):
    """What gives a path more than one spelling, in words, and its case in the table of engines."""

    text: str
    case: str


def _odd_part(rest: str) -> _OddPart | None:
    """Return what gives a path more than one spelling; None if nothing does."""
    segments = rest.split("/")
    if ".." in segments:
        return _OddPart("a segment ..", "parent")
    if "." in segments:
        return _OddPart("a segment .", "dot")
    if "\\" in rest:
        return _OddPart("a backslash", "backslash")
    if len(rest) > 1 and segments[-1] == "":
        return _OddPart("a trailing slash", "trailing slash")
    return _OddPart("two slashes in a row", "slashes") if "" in segments[1:-1] else None


def _absolute_fault(path: str, scheme: str | None, uri: str) -> PathFault:
    root = _root_of(uri)
    key = canonicalize_path(path)
    if key.startswith(f"{root}/"):
        inside = key[len(root) + 1 :].encode("utf-8", "replace").decode()
        message = f"{path} is absolute but points into the table itself"
        case = "plain" if scheme is None else scheme
        # What engines do with the paths of object stores was not measured.
        severity = None if effect_of(ABSOLUTE_INSIDE_ROOT.id, (case,)) is None else Severity.ERROR
        return PathFault(ABSOLUTE_INSIDE_ROOT, message, path, inside, severity, (case,))
    if scheme is None:
        message = f"{path} is absolute without a scheme, so each engine uses its own default store"
        return PathFault(ABSOLUTE, message, path, "a path with a scheme", Severity.WARNING)
    return PathFault(ABSOLUTE, f"{path} points outside the table", path, "a path inside the table")


@lru_cache(maxsize=4)
def _root_of(uri: str) -> str:
    return canonicalize_root(uri)


def _place_faults(rest: str, *, is_absolute: bool) -> Iterator[PathFault]:
    *directories, name = rest.split("/")
    if (LOG_DIRECTORY in directories and not is_absolute) or _is_log_name(name):
        what = f"is in {LOG_DIRECTORY}" if LOG_DIRECTORY in directories else f"is named {name}, like a file of the log"
        yield PathFault(RESERVED_NAME, f"the data file {rest} {what}", rest, "another name and directory")
        return
    if is_absolute:
        return
    for directory in directories:
        if directory[:1] in ("_", ".") and directory not in (".", "..") and "=" not in directory:
            message = f"{rest} is below {directory}, which counts as a hidden directory"
            yield PathFault(HIDDEN_LOCATION, message, directory, "a directory without a leading _ or .")
            return


def _is_log_name(name: str) -> bool:
    return name in _RESERVED_NAMES or parse_log_path(name).kind not in (LogFileKind.OTHER, LogFileKind.UNPADDED)


@AREA.check(
    views.FilesView,
    BAD_ENCODING,
    NOT_ENCODED,
    COLON,
    ESCAPES_ROOT,
    NOT_NORMALISED,
    ABSOLUTE,
    ABSOLUTE_INSIDE_ROOT,
    HIDDEN_LOCATION,
    RESERVED_NAME,
)
def paths_of_adds(view: views.FilesView) -> Iterator[Finding]:
    """Only paths that are not plain are checked one by one."""
    paths = view.adds.column("path")
    for row in view.rows(suspicious(paths)):
        for fault in faults_of_path(paths[row].as_py(), view.uri):
            yield _finding(fault, view.place(row))


_RULES_OF_REMOVES = (BAD_ENCODING, NOT_ENCODED, COLON, ESCAPES_ROOT, NOT_NORMALISED)


@AREA.check(views.CommitView, *_RULES_OF_REMOVES)
def paths_of_removes_and_change_files(view: views.CommitView) -> Iterator[Finding]:
    """A remove repeats the path of an add. Only a remove without a live add of that path is checked."""
    placed = [action for action in (*view.removes, *view.of_kind("cdc")) if isinstance(action.action.get("path"), str)]
    if not placed:
        return
    try:
        paths = pa.array([action.action["path"] for action in placed], pa.string())
    except UnicodeEncodeError:
        return
    for row in views.rows_where(suspicious(paths)):
        path, kind = placed[row].action["path"], placed[row].kind
        if kind == "remove" and any(file.path == path for file in view.live_before(path) or ()):
            continue
        for fault in faults_of_path(path, ""):
            if fault.rule in _RULES_OF_REMOVES:
                unread = _of_removed_file(fault) if kind == "remove" else _of_change_file(fault)
                yield _finding(unread, view.place(placed[row].line, path))


def _of_removed_file(fault: PathFault) -> PathFault:
    """Return a fault as one of a remove: engines parse its path and do not open its file."""
    if fault.rule in (NOT_NORMALISED, ESCAPES_ROOT):
        return fault._replace(severity=_at_most_warning(fault), cases=("removed",))
    if fault.rule is NOT_ENCODED and fault.severity is None:
        is_parsed = set(fault.cases) <= {"hash", "question mark"}
        cases, severity = ("removed",), Severity.WARNING
        return fault._replace(cases=cases, severity=severity) if is_parsed else fault._replace(cases=("other",))
    if fault.cases == ("segment",) or fault.severity is not None:
        return fault
    return fault._replace(cases=(f"removed {fault.cases[0]}",))


def _of_change_file(fault: PathFault) -> PathFault:
    """Return a fault as one of a change data file, which only readers of changes look for."""
    return fault._replace(severity=_at_most_warning(fault), cases=("change data",))


def _at_most_warning(fault: PathFault) -> Severity | None:
    """Return a warning for rules that are errors only because engines refuse the table."""
    is_refused_only = fault.rule in (NOT_NORMALISED, NOT_ENCODED, COLON)
    return Severity.WARNING if fault.severity is None and is_refused_only else fault.severity


# What the id of a vector has around the path of its file, in the dialects of Arrow and of Python.
_AROUND_PATH_OF_VECTOR = r"^p|@[0-9]+$"


@AREA.check(views.StateView, FILE_URI_FORM)
def absolute_paths_in_another_spelling(view: views.StateView) -> Iterator[Finding]:
    """Report live files and vectors whose absolute paths Spark cannot match with the files that it has opened."""
    # Without the property Spark rewrites whole files, and compares their paths by what they mean.
    if not view.config.is_on("delta.enableDeletionVectors"):
        return
    count = 0
    first: tuple[str, str] | None = None
    for batch in view.live.select(["path", "dv_id", "dv_cardinality"]).to_batches():
        needs_respelling = find_other_spellings(*batch.columns)
        rows = views.rows_where(needs_respelling)
        count += len(rows)
        if first is None and rows:
            first = batch.column("path")[rows[0]].as_py(), batch.column("dv_id")[rows[0]].as_py()
    if first is None:
        return
    path, vector_id = first
    named = path
    if spell_as_hadoop(path) == path and vector_id.startswith("p"):
        named = re.sub(_AROUND_PATH_OF_VECTOR, "", vector_id)
    message = f"{plural(count, 'live file')} with an absolute path in another spelling than that of Hadoop: {named}"
    yield FILE_URI_FORM.at(view.place(path), message, seen=named, expected=spell_as_hadoop(named))


def find_other_spellings(paths: ArrowArray, vector_ids: ArrowArray, cardinalities: ArrowArray) -> ArrowArray:
    """Return which live files have an absolute path, of the data or of the vector, in another spelling than Hadoop's.

    Files at absolute paths with the empty vector of an interrupted repair are among them.

    Args:
        paths: Raw paths of live files (string array).
        vector_ids: The ids of their vectors (string array, "" for none).
        cardinalities: How many rows the vectors delete (int64 array).
    """
    # A vector that deletes rows is that of another writer, whatever its directory is called.
    deletes_nothing = pc.fill_null(pc.equal(cardinalities, 0), False)
    is_empty_vector = pc.and_(pc.starts_with(vector_ids, f"u{EMPTY_VECTOR_DIRECTORY}"), deletes_nothing)
    is_left_over = pc.and_(is_empty_vector, are_absolute(paths))
    mask = pc.or_(are_spelled_otherwise(paths), is_left_over)
    has_absolute_vector = pc.starts_with(vector_ids, "p")
    if not pc.any(has_absolute_vector).as_py():
        return mask
    places = pc.replace_substring_regex(vector_ids, _AROUND_PATH_OF_VECTOR, "")
    return pc.or_(mask, pc.and_(has_absolute_vector, are_spelled_otherwise(places)))


def _finding(fault: PathFault, place: Place) -> Finding:
    return fault.rule.at(
        place, fault.message, seen=fault.seen, expected=fault.expected, severity=fault.severity, cases=fault.cases
    )


# -- rules that compare the paths of several files ---------------------------------------------------------------------

COLLISION_AREA = Area("paths", spec="Data Files")

DOUBLE_ENCODED = COLLISION_AREA.warning(
    "path.double-encoded",
    "A path names no file when decoded once, but names a file when decoded twice or not at all.",
    spec="Add File and Remove File",
    broken="readers that decode once, as required, do not find the file; vacuum treats it as unused",
    repair="commit a remove of this path, and the add again with the right one, both with dataChange=false",
    loss="nothing, as long as no vacuum runs before",
    example='{"add":{"path":"city=New%2520York/part-0.parquet",…}} with the file in "city=New York"',
    level=Level.STORAGE,
)
SAME_FILE_TWO_SPELLINGS = COLLISION_AREA.error(
    "path.same-file-two-spellings",
    "One file is named by two spellings of its path.",
    spec="Action Reconciliation",
    broken="engines that compare paths as text see two files: its rows count twice, or it is not removed",
    repair=LazyText(
        "where one spelling is absolute, commit a remove of the one that is wrong; else, if deltacli reads the right "
        "rows, let all engines begin with them: {}",
        partial(command, "checkpoint", force=True),
    ),
    example='{"add":{"path":"a%2Db.parquet",…}} after {"add":{"path":"a-b.parquet",…}}',
)
CASE_COLLISION = COLLISION_AREA.warning(
    "path.case-collision",
    "The paths of two live files differ only in case, or in the Unicode form of their letters.",
    broken="on a file system that ignores case or that form, one file overwrites the other when the table is copied",
    repair="rewrite one of the files with an engine",
    example='"P=1/part-0.parquet" next to "p=1/part-0.parquet"',
)
SHARED_WITH_CDC = COLLISION_AREA.info(
    "path.shared-with-cdc",
    "A commit adds a file and also names it as a change data file.",
    spec="Add CDC File",
    broken="the rows are both data and changes; unless the file has _change_type, readers of changes fail",
    repair="no repair needed; writers should write separate change data files",
    example='{"add":{"path":"part-0.parquet",…}} and {"cdc":{"path":"part-0.parquet",…}} in one commit',
)
NOT_UNIQUE_OVER_HISTORY = COLLISION_AREA.warning(
    "path.not-unique-over-history",
    "A path is used again with another size or time: the file was overwritten in place.",
    broken="older versions that use the path read the wrong rows, or fail",
    repair="no repair needed; each file must have a new name",
    loss="the rows of the earlier file at that path",
    example='{"add":{"path":"part-0.parquet","size":20,…}} after {"remove":{"path":"part-0.parquet","size":10,…}}',
)


@COLLISION_AREA.check(views.CommitView, SAME_FILE_TWO_SPELLINGS, NOT_UNIQUE_OVER_HISTORY)
def files_against_those_before(view: views.CommitView) -> Iterator[Finding]:
    """Compare each file of a commit with the previous file at its path."""
    for file in view.removed:
        yield from _spelled_otherwise(view, file)
        live = view.live_from_elsewhere.get(file.path)
        if live is not None:
            # The file remains live for all readers, also in a checkpoint.
            path = file.placed.action["path"]
            yield _two_spellings(view.place(file.placed.line, path), live.path, path)
    for file in view.added:
        if file.live:
            yield from _spelled_otherwise(view, file)
            yield from _overwritten(view, file, file.live[0])
        else:
            yield from _reused(view, file)


def _spelled_otherwise(view: views.CommitView, file: views.TouchedFile) -> Iterator[Finding]:
    path = file.placed.action["path"]
    for live in file.live or ():
        if live.path != path and not _is_respelled(view, file, live):
            place = view.place(file.placed.line, path)
            yield _two_spellings(place, live.path, path, ends_with_checkpoint=True)
            return


def _is_respelled(view: views.CommitView, file: views.TouchedFile, live: views.LiveFile) -> bool:
    """Return whether a commit replaces one spelling of a path by another one, in a way that all readers understand.

    It removes the file under the text that the log has, for readers that compare texts. It adds it with another
    deletion vector, for readers that compare what paths mean: to them both actions are about different logical files.
    """
    if file.placed.kind != "add" or file.dv_id == live.dv_id:
        return False
    return (live.path, live.dv_id) in view.removed_as_written


def _two_spellings(place: Place, first: str, second: str, *, ends_with_checkpoint: bool = False) -> Finding:
    message = f"{second} is another spelling of {first}, a live file"
    return SAME_FILE_TWO_SPELLINGS.at(
        place, message, seen=second, expected=first, ends_with_checkpoint=ends_with_checkpoint
    )


def _overwritten(view: views.CommitView, file: views.TouchedFile, live: views.LiveFile) -> Iterator[Finding]:
    """Check that an add of a live path describes the same file as the previous add."""
    add = file.placed.action
    # With a new vector, some writers renew the time.
    names = ("size", "modificationTime") if file.dv_id == live.dv_id else ("size",)
    for name in names:
        before, now = live.add.get(name), add.get(name)
        if type(before) is int and type(now) is int and before != now:
            message = f"{live.path} is live with {name} {before}, but added again with {now}, so it was overwritten"
            place = view.place(file.placed.line, live.path)
            yield NOT_UNIQUE_OVER_HISTORY.at(place, message, seen=now, expected=before)
            return


def _reused(view: views.CommitView, file: views.TouchedFile) -> Iterator[Finding]:
    removed = view.tombstone_of((file.path, file.dv_id or "")) or view.tombstone_of((file.path, ""))
    if removed is None:
        return
    path, before, now = file.placed.action["path"], removed.get("size"), file.placed.action.get("size")
    if type(before) is int and type(now) is int and before != now:
        message = f"{path} was removed with size {before} but is added again with size {now}, so its name was reused"
        yield NOT_UNIQUE_OVER_HISTORY.at(view.place(file.placed.line, path), message, seen=now, expected=before)


@COLLISION_AREA.check(views.CommitView, SHARED_WITH_CDC)
def files_that_are_data_and_changes(view: views.CommitView) -> Iterator[Finding]:
    """Report adds whose file is a change data file of the same commit."""
    changes = {
        canonicalize_path(path): placed.line
        for placed in view.of_kind("cdc")
        if isinstance(path := placed.action.get("path"), str)
    }
    for placed in view.adds if changes else ():
        path = placed.action.get("path")
        if isinstance(path, str) and (line := changes.get(canonicalize_path(path))) is not None:
            message = f"{path} is added and is also a change data file of the same commit (line {line})"
            yield SHARED_WITH_CDC.at(view.place(placed.line, path), message, expected="a separate change data file")


@COLLISION_AREA.check(views.StateView, SAME_FILE_TWO_SPELLINGS)
def relative_and_absolute_spellings(view: views.StateView) -> Iterator[Finding]:
    """Report a relative and an absolute path to the same file of the table, which replay treats as two files."""
    if not view.uri or not view.live.num_rows:
        return
    for uri in (view.uri, *view.aliases):
        yield from _absolute_spellings_below(view, uri)


def _absolute_spellings_below(view: views.StateView, uri: str) -> Iterator[Finding]:
    """Report the live files with an absolute path below a URI of the table whose relative path is live, too."""
    keys = view.live.column("key")
    prefix = encode_path_bytes(f"{canonicalize_root(uri)}/")
    inside = pc.indices_nonzero(pc.starts_with(keys, prefix))
    if not len(inside):
        return
    relative = drop_first_bytes(pc.take(keys, inside), len(prefix)).combine_chunks()
    named = pa.chunked_array(
        [pc.filter(chunk, pc.is_in(chunk, value_set=relative)) for chunk in keys.chunks], pa.binary()
    )
    paths = view.live.column("path")
    for row in pc.filter(inside, pc.is_in(relative, value_set=named.combine_chunks())).to_pylist():
        path = paths[row].as_py()
        name = keys[row].as_py()[len(prefix) :].decode("utf-8", "replace")
        yield _two_spellings(view.place(path), name, path)


@COLLISION_AREA.check(views.StateView, CASE_COLLISION)
def paths_that_differ_in_case(view: views.StateView) -> Iterator[Finding]:
    """Report live paths that are equal except for case and the composition of letters, each such group once."""
    keys = view.live.column("key")
    suspects = rows_that_may_repeat(map(fold_letters_column, keys.chunks))
    groups: dict[bytes, dict[bytes, int]] = {}
    for row in views.rows_where(suspects):
        key = keys[row].as_py()
        groups.setdefault(fold_letters(key), {}).setdefault(key, row)
    paths = view.live.column("path")
    for by_key in groups.values():
        if len(by_key) > 1:
            first, second, *_ = (paths[row].as_py() for row in by_key.values())
            is_composed_otherwise = len(set(map(compose_letters, list(by_key)[:2]))) == 1
            difference = "how its letters are composed" if is_composed_otherwise else "case"
            message = f"the path differs from {first} only in {difference}"
            place = view.place(second)
            yield CASE_COLLISION.at(place, message, seen=second, expected="names that differ by more than case")


@COLLISION_AREA.check(views.StorageView, DOUBLE_ENCODED)
def paths_encoded_twice(view: views.StorageView) -> Iterator[Finding]:
    """Report live files that do not exist under their decoded path, but exist under another reading of it."""
    paths = view.live_adds.column("path").combine_chunks()
    rows = pc.indices_nonzero(pc.match_substring_regex(paths, "%"))
    names = canonicalize_paths(pc.take(paths, rows)).to_pylist()
    for row, data in zip(rows.to_pylist(), names, strict=True):
        name = data.decode("utf-8", "surrogateescape")
        # A colon alone makes no URI: directories of times have some.
        if name in view.files or IS_ABSOLUTE.match(name):
            continue
        path = paths[row].as_py()
        other_path = next((other for other in reversed(other_readings(path)) if other in view.files), None)
        if other_path is not None:
            reading = "as it stands" if other_path == path else "decoded twice"
            yield DOUBLE_ENCODED.at(
                views.place_of_live_file(view.live_adds.slice(row, 1).to_pylist()[0]),
                f"there is no file {name}, but there is one at the path {path} {reading}",
                seen=name,
                expected=other_path,
            )


def rows_that_may_repeat(keys: Iterable[ArrowArray]) -> ArrowArray:
    """Return which of millions of keys may occur more than once: all that do, and very few others.

    Arrays of keys are taken one after another, so that only one needs to be in memory.
    """
    prints = [compute_fingerprints(chunk) for chunk in keys if len(chunk)]
    if not prints:
        return pa.chunked_array([], pa.bool_())
    often = find_repeated_hashes(pa.concat_arrays(prints))
    return pa.chunked_array([pc.is_in(prints_of_chunk, value_set=often) for prints_of_chunk in prints], pa.bool_())
