"""Wrong partition values of live files: what is right, and the commit that adds the files again with it.

The value of a column comes from the log itself, if only its name or its spelling is wrong, else from the directories of
the file, else from the user. A directory is believed only as far as it agrees with the partition values that are right.
Nothing else of the file changes, and `dataChange` is false.

    in the log                                                   written
    date=2026-06-02/a.parquet, {}                                {"date": "2026-06-02"}      from its path
    a.parquet, {"P": "x"}                                        {"p": "x"}                  from the log
    p=1.5/a.parquet, {"p": "1.5"} of a decimal(10,2)             {"p": "1.50"}               from the log
    p=0.-1/a.parquet, {"p": "0.-1"} of a decimal(10,2)           what the user gives

Spec: Partition Value Serialization; Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from deltacli.core.errors import UsageError, parameter
from deltacli.core.typing import RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.commit_content import CommitRequest, FilesAt, NextVersion, encoded_files
from deltacli.delta.partitions.canonical import TIME_WITH_ZONE, canonical_value
from deltacli.delta.partitions.given_values import GivenValue, parse_given_value
from deltacli.delta.partitions.values import (
    HIVE_DEFAULT,
    Spelling,
    is_refused_by_kernel,
    is_text,
    may_be_equal,
    spelling_of,
)
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import canonicalize_path, decode_hive
from deltacli.delta.schema.types import PrimitiveType, find_name_positions
from deltacli.operations.repair.plan import Planned, Run, Step, Unrepaired, left
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.rules.mapping import PARTITION_KEY_LOGICAL
from deltacli.rules.partitions.partitions import KERNEL_REFUSES, KEY_CASE, KEY_MISSING, UNPARSABLE

if TYPE_CHECKING:
    from deltacli.delta.log.state import TableConfiguration
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_FIELDS = ("path", "partitionValues")
_NAMED = 5
Values = tuple[tuple[str, str | None], ...]
"""A map of partition values: physical names of columns, and texts."""


class Fault(NamedTuple):
    """What is wrong with the value of one column: the rule, and the text that the log has for it, if it is usable."""

    rule: str
    column: str
    text: str | None = None
    is_text_known: bool = False


class Change(NamedTuple):
    """The right value of one column of a file. `origin` says in words where it comes from."""

    rule: str
    column: str
    text: str | None
    origin: str


class Correction(NamedTuple):
    """What is known of a file with wrong partition values: the right ones, or why they are not known."""

    path: str
    rules: frozenset[str]
    values: Values
    changes: tuple[Change, ...]
    obstacle: str | None

    def describe(self) -> str:
        """Return the values that are written, in words."""
        texts = [f"{one.column}={'null' if one.text is None else one.text} ({one.origin})" for one in self.changes]
        return f"write the partition values of {self.path}: {', '.join(texts)}"


class PartitionJudge:
    """Finds what is wrong with the partition values of files, and the right ones.

    It depends on nothing but the configuration of a version and the request, so that a commit can ask again.
    """

    def __init__(self, config: TableConfiguration, uris: Sequence[str], given: Sequence[GivenValue]) -> None:
        """Raise UsageError for values of columns that are none of the partition columns, or of other types."""
        self._keys = PathKeys(uris)
        columns = config.partition_columns
        self._types = {
            name: column.data_type.name
            for name, column in columns.items()
            if column is not None and isinstance(column.data_type, PrimitiveType)
        }
        self._names = {name: name if column is None else column.name for name, column in columns.items()}
        self._not_null = {name for name, column in columns.items() if column is not None and not column.nullable}
        self._spellings = [(spelling, name) for name in columns for spelling in {name, self._names[name]}]
        self._given = [(self._require_known(one), one) for one in given]
        self._faults: dict[Values, tuple[Fault, ...]] = {}

    def correct(self, adds: RecordBatch) -> Iterator[tuple[int, Correction]]:
        """Yield the rows of adds with wrong partition values."""
        paths, maps = (adds.column(name).to_pylist() for name in _FIELDS)
        for row, (path, pairs) in enumerate(zip(paths, maps, strict=True)):
            values = tuple(pairs or ())
            if values not in self._faults:
                self._faults[values] = tuple(self._find_faults(values))
            if self._faults[values]:
                yield row, self._correction_of(path, values, self._faults[values])

    def _require_known(self, given: GivenValue) -> str:
        """Return the physical name of the column of a value that the user gives. Raises UsageError."""
        option = parameter("repair.partition_values")
        found = {
            self._spellings[place][1]
            for place in find_name_positions(given.column, [text for text, _ in self._spellings])
        }
        if len(found) != 1:
            raise UsageError(
                f"{option}: {given.column} is not a partition column",
                code="usage.partition-value",
                facts={"partition columns": ", ".join(self._names.values()) or "none"},
            )
        (name,) = found
        kind = self._types.get(name, "string")
        if given.text is None:
            problem = "a value" if name in self._not_null else ""
        else:
            problem = canonical_value(kind, given.text).expected
        if problem:
            raise UsageError(
                f"{option}: {given.text or 'null'!r} is not a value of partition column {given.column}",
                code="usage.partition-value",
                facts={"type": kind, "expected": problem},
            )
        return name

    def _find_faults(self, values: Values) -> Iterator[Fault]:
        """Yield what is wrong with the values of a file."""
        known = dict(values)
        for name in self._names:
            if name in known:
                yield from self._judge_text(name, known[name])
                continue
            others = [key for key in known if key not in self._names]
            of_logical = [key for key in others if key == self._names[name]]
            of_other_case = [key for key in others if key.lower() == name.lower()]
            rule = PARTITION_KEY_LOGICAL.id if of_logical else KEY_CASE.id if of_other_case else KEY_MISSING.id
            keys = of_logical or of_other_case
            is_usable = len(keys) == 1 and self._is_valid(name, known[keys[0]])
            yield Fault(rule, name, known[keys[0]] if is_usable else None, is_usable)

    def _judge_text(self, name: str, text: str | None) -> Iterator[Fault]:
        kind = self._types.get(name)
        if text is None or kind is None or is_text(kind):
            return
        if not text:
            # By the protocol null for every type. Kernel for Java fails on it.
            yield Fault(KERNEL_REFUSES.id, name, None, is_text_known=True)
        elif not self._is_valid(name, text):
            yield Fault(UNPARSABLE.id, name)
        elif is_refused_by_kernel(kind, text):
            yield Fault(KERNEL_REFUSES.id, name, text, is_text_known=True)

    def _is_valid(self, name: str, text: str | None) -> bool:
        kind = self._types.get(name, "string")
        return not text or is_text(kind) or spelling_of(kind, text) is not Spelling.UNPARSABLE

    def _correction_of(self, path: str, values: Values, faults: Sequence[Fault]) -> Correction:
        rules = frozenset(fault.rule for fault in faults)
        changes = list[Change]()
        wrong = {fault.column for fault in faults if not fault.is_text_known}
        in_path = self._read_path(path) if wrong else {}
        obstacle = self._find_contradiction(in_path, dict(values), wrong)
        for fault in faults:
            if obstacle is not None:
                break
            change = self._change_of(path, fault, in_path)
            if isinstance(change, str):
                obstacle = change
            else:
                changes.append(change)
        if obstacle is not None:
            return Correction(path, rules, values, (), obstacle)

        right = dict(values)
        for fault in faults:
            self._drop_other_keys(right, fault)
        physical = {self._names[name]: name for name in self._names}
        right |= {physical[change.column]: change.text for change in changes}
        return Correction(path, rules, tuple(right.items()), tuple(changes), None)

    def _drop_other_keys(self, values: dict[str, str | None], fault: Fault) -> None:
        """Drop the key that has the value of a column under another name."""
        name = fault.column
        for key in list(values):
            is_other_name = key.lower() == name.lower() or (
                fault.rule == PARTITION_KEY_LOGICAL.id and key == self._names[name]
            )
            if fault.is_text_known and key not in self._names and is_other_name:
                del values[key]

    def _change_of(self, path: str, fault: Fault, in_path: Mapping[str, str | None]) -> Change | str:
        """Return the right value of a column, or why it is not known."""
        name, column = fault.column, self._names[fault.column]
        kind = self._types.get(name)
        if kind is None:
            return f"the schema has no column {column} of a type that can partition a table"

        if fault.is_text_known:
            found = self._change_to(fault, kind, fault.text, "from the log")
        elif name in in_path:
            found = self._change_to(fault, kind, in_path[name], "from its path")
        else:
            found = f"its path does not name a value of {column}"

        given = [one for of_column, one in self._given if of_column == name and one.is_for(path)]
        changes = {self._change_to(fault, kind, one.text, "as given") for one in given}
        if isinstance(found, str) and not changes:
            return f"{found}; if you know the value, give it: {self._option(column)}"
        if len(changes) > 1:
            return f"several values of {column} are given for it"
        if not isinstance(found, str):
            # A value for all files is meant for those that nothing tells it of. One for this file has to agree.
            is_named = any(one.glob is not None for one in given)
            if is_named and found.text not in [change.text for change in changes if isinstance(change, Change)]:
                return f"{column} is {found.text or 'null'} {found.origin}, and another value is given for it"
            return found
        return changes.pop()

    def _change_to(self, fault: Fault, kind: str, text: str | None, origin: str) -> Change | str:
        """Return a value in the form that every reader parses, or why there is none."""
        column = self._names[fault.column]
        if not text:
            if fault.column in self._not_null and origin != "from the log":
                return f"{column} must not be null, and is null {origin}"
            return Change(fault.rule, column, None, origin)
        value = canonical_value(kind, text)
        if value.text is None:
            zone = ", and nothing tells the time zone" if value.expected == TIME_WITH_ZONE else ""
            return f"{column} is {text[:80]!r} {origin}, not {value.expected}{zone}"
        return Change(fault.rule, column, value.text, origin)

    def _option(self, column: str) -> str:
        return parameter("repair.partition_values", [f"{column}=VALUE"])

    def _read_path(self, path: str) -> dict[str, str | None]:
        """Return the partition values that the directories of a file name, without ambiguous ones."""
        key = self._keys.compute_keys(pa.array([path], pa.string())).keys[0].as_py()
        if key is None:
            # Where the other table begins is not known, so only the innermost directories can be its partitions.
            parts = canonicalize_path(path).encode("utf-8", "surrogateescape").split(b"/")[:-1][-len(self._names) :]
            if not all(b"=" in part for part in parts):
                return {}
        else:
            parts = key.split(b"/")[:-1]

        found: dict[str, set[str | None]] = {}
        for part in parts:
            name, equals, value = part.partition(b"=")
            if not equals:
                continue
            try:
                column, text = decode_hive(name).decode(), decode_hive(value).decode()
            except UnicodeDecodeError:
                continue
            columns = {
                self._spellings[place][1] for place in find_name_positions(column, [one for one, _ in self._spellings])
            }
            for physical in columns:
                # A directory that may mean two columns says nothing about either.
                texts = {text, None} if len(columns) > 1 else {None if text in ("", HIVE_DEFAULT) else text}
                found.setdefault(physical, set()).update(texts)
        return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}

    def _find_contradiction(
        self, in_path: Mapping[str, str | None], values: Mapping[str, str | None], wrong: set[str]
    ) -> str | None:
        """Return why the directories of a file are not believed; None if they agree with the values that are right."""
        for name, text in in_path.items():
            if name in wrong or name not in values:
                continue
            own = values[name] or None
            is_same = own == text
            if own is not None and text is not None:
                is_same = may_be_equal(self._types.get(name, "string"), own, text)
            if not is_same:
                return f"its path names another value of {self._names[name]} than the log"
        return None


@dataclass(frozen=True, eq=False)
class CorrectPartitionValues:
    """Adds live files again in one commit, with the partition values that the plan shows."""

    planned: Mapping[str, Values]
    given: tuple[GivenValue, ...]
    is_sensitive: bool = True

    @property
    def name(self) -> str:
        first = next(iter(self.planned))
        more = f" and {plural(len(self.planned) - 1, 'more file')}" if len(self.planned) > 1 else ""
        return f"commit the partition values of {first}{more}"

    def run(self, run: Run) -> int | None:
        return run.commit(lambda now: self._request(run.table, now))

    def _request(self, table: TableHandle, now: Snapshot) -> CommitRequest | None:
        """Return the commit; None if none of the files has the planned correction any more.

        The corrections are found again: a file may have been added with other values meanwhile, or the column may have
        another type.
        """
        judge = PartitionJudge(now.config, _uris_of(table), self.given)

        def correct(adds: RecordBatch) -> RecordBatch:
            right = {
                row: one.values
                for row, one in judge.correct(adds)
                if one.obstacle is None and self.planned.get(one.path) == one.values
            }
            chosen = adds.take(pa.array(list(right), pa.int64()))
            maps = pa.array(list(right.values()), adds.column("partitionValues").type)
            chosen = chosen.set_column(adds.schema.get_field_index("partitionValues"), "partitionValues", maps)
            no_change = pa.repeat(pa.scalar(False), chosen.num_rows)
            return chosen.set_column(adds.schema.get_field_index("dataChange"), "dataChange", no_change)

        batches = [adds for adds in now.file_actions.map_actions("add", correct) if adds.num_rows]
        if not batches:
            return None

        def body(slot: NextVersion) -> Iterator[bytes]:
            return encoded_files(lambda: (("add", adds) for adds in batches), slot)

        count = sum(adds.num_rows for adds in batches)
        paths = tuple(path for adds in batches for path in adds.column("path").to_pylist())
        return CommitRequest("FSCK", {}, {"numAmendedFiles": count}, body=body, reads=FilesAt(paths))


def plan_partition_values(
    table: TableHandle, texts: Sequence[str], findings: Sequence[Finding], now: Snapshot, obstacle: str | None
) -> Planned:
    """Return the steps for wrong partition values of live files.

    Args:
        table: The table, of which nothing but the log is read.
        texts: The partition values that the user gives, as `parse_given_value` takes them.
        findings: Findings of the rules about keys and texts of partition values. Some are about several files, of
            which they name one.
        now: The newest version.
        obstacle: Why nothing may be committed; None if it may.

    Raises:
        UsageError: For a value that the user gives which cannot be that of a partition column.
    """
    given = tuple(parse_given_value(text) for text in texts)
    judge = PartitionJudge(now.config, _uris_of(table), given)
    if not findings:
        return Planned()
    if obstacle is not None:
        return Planned(unrepaired=[left(finding, obstacle) for finding in findings])

    corrections = _find_corrections(now, judge)
    rules = {finding.rule.id for finding in findings}
    # A file is corrected as a whole or not at all, and no rule that was not selected is acted on.
    possible = {one.path: one for one in corrections if one.obstacle is None and one.rules <= rules}
    wrong = {one.path: one for one in corrections}
    steps, unrepaired = list[Step](), list[Unrepaired]()
    for finding in findings:
        path = finding.place.key or ""
        of_rule = [one for one in possible.values() if finding.rule.id in one.rules]
        if path in possible and finding.rule.id in possible[path].rules:
            what = possible[path].describe()
            if finding.rule is KERNEL_REFUSES and len(of_rule) > 1:
                what = "; ".join([one.describe() for one in of_rule[:_NAMED]])
                what += f"; and {plural(len(of_rule) - _NAMED, 'more file')}" if len(of_rule) > _NAMED else ""
        elif finding.rule is KERNEL_REFUSES and of_rule:
            what = of_rule[0].describe()
        elif path in wrong:
            unrepaired.append(left(finding, wrong[path].obstacle or _OTHER_FAULTS))
            continue
        else:
            # What a repair corrected is found again, in the commit that it corrected.
            unrepaired.append(left(finding, _PAST)._replace(severity=Severity.WARNING))
            continue
        steps.append(Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what))
    acted = {step.rule for step in steps}
    planned = {one.path: one.values for one in possible.values() if one.rules & acted}
    if not planned:
        return Planned(unrepaired=unrepaired)
    return Planned(steps, [CorrectPartitionValues(planned, given)], unrepaired)


_OTHER_FAULTS = "it has other wrong partition values, too, which are not selected"
_PAST = "the newest version has no such value; the action stays until the log is cleaned up"


def _find_corrections(now: Snapshot, judge: PartitionJudge) -> list[Correction]:
    """Return what is known of each live file with wrong partition values; nothing of one that is live twice."""

    def correct(adds: RecordBatch) -> list[Correction]:
        return [correction for _, correction in judge.correct(adds)]

    found: dict[str, Correction] = {}
    for part in now.file_actions.map_actions("add", correct, fields=_FIELDS):
        for one in part:
            if one.path in found:
                one = one._replace(obstacle="it is live twice, with different deletion vectors")
            found[one.path] = one
    return list(found.values())


def _uris_of(table: TableHandle) -> tuple[str, ...]:
    return (table.storage.uri, *table.storage.aliases)
