"""The parts of a `validate` rule, and the catalogue of all rules, whose modules are imported when needed.

A module of rules is imported when something looks at what it checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial, partialmethod
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from deltacli.core.errors import LazyText, command, fill_table, is_shared, parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.engines import Effect, effect_of

View = TypeVar("View")


class Severity(StrEnum):
    """ERROR: a MUST is violated, rows are lost or duplicated, or some engine fails. WARNING: a SHOULD is violated, or
    engines disagree. INFO: an observation.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Level(StrEnum):
    """The cheapest level that checks a rule: the log, a listing of the table, the footers of its files, or their rows.
    `API`: the answers of a server that shares it.
    """

    LOG = "log"
    STORAGE = "storage"
    FOOTERS = "footers"
    DATA = "data"
    API = "api"


LEVELS = (Level.LOG, Level.STORAGE, Level.FOOTERS, Level.DATA)
"""The levels of a table; each also checks what those before it do."""


class Fix(NamedTuple):
    """How to repair a fault: what is broken, a possible repair, and what the repair loses."""

    broken: str
    advice: str | LazyText
    loss: str = "nothing"

    @property
    def repair(self) -> str:
        return self.repair_of("TABLE")

    def repair_of(self, table: str) -> str:
        """Return the repair of a table, whose name is filled into the command that it may contain."""
        if is_shared(table):
            return "ask the provider of the share to repair the table"
        return fill_table(str(self.advice), table) if isinstance(self.advice, LazyText) else self.advice

    @property
    def loses(self) -> bool:
        """Whether the repair loses something, always or under a condition (`nothing, if …`)."""
        is_nothing = self.loss.startswith("nothing") and not self.loss.startswith(("nothing,", "nothing;"))
        return bool(self.loss) and not is_nothing

    def as_json(self, table: str = "TABLE") -> dict[str, str]:
        """Return the fix as in documents, where the repair has its former name, `mend`, too."""
        repair = self.repair_of(table)
        return {"broken": self.broken, "repair": repair, "mend": repair, "loss": self.loss}


COVERED = Fix(
    broken="readers of versions before the checkpoint are affected",
    advice="no repair needed: readers of the newest version begin with the checkpoint and do not read the commit",
)
"""The fix of a finding about a commit that a checkpoint covers."""

UNREAD = "validate.file-unreadable"
"The rule about files that exist but could not be read, for lack of permission or because a disk or store fails."

LOST_BY_VACUUM = "time travel to versions that need removed files past their retention, which a vacuum deletes, too"
"""What is lost if a vacuum deletes a file that no version needs."""

LOST_BY_DROPPING = "time travel to the versions before, where the engine truncates the history"
"""What is lost if a feature that nothing uses is dropped."""


def from_a_copy(sentence: str, **options: str) -> LazyText:
    """Return a repair by files that a copy, or the store itself, still has."""
    return LazyText(f"{sentence}: {{}}", partial(command, "undelete", **options, sources=["COPY"]))


def by_repair(what: str, **options: str) -> LazyText:
    """Return a repair that brings `what` back from a copy, or gives up rows, after a dry run that shows which."""
    return LazyText("{}", partial(_with_repair, what, options))


def _with_repair(what: str, options: Mapping[str, str]) -> str:
    source, loss = parameter("repair.sources", "COPY"), parameter("repair.accept_loss")
    shown = command("repair", **options, dry_run=True)
    return f"bring {what} back with {source}, or give up the rows of the file with {loss}; look first: {shown}"


class Rule(NamedTuple):
    """One row of the catalogue. `spec` names the section of the protocol."""

    id: str
    severity: Severity
    level: Level
    sentence: str | LazyText
    spec: str
    fix: Fix
    example: str

    @property
    def checks(self) -> str:
        return str(self.sentence)

    def at(
        self,
        place: Place,
        message: str,
        *,
        key: str | None = None,
        seen: object = None,
        expected: object = None,
        severity: Severity | None = None,
        field: str = "",
        ends_with_checkpoint: bool = False,
        cases: tuple[str, ...] = (),
    ) -> Finding:
        """Return a finding of this rule. Its message names the engines that refuse or misread the table.

        Args:
            place: Where the fault is.
            message: What is wrong.
            key: Replaces the key of the place.
            seen: The value that was found.
            expected: A value that would be right.
            severity: Replaces the severity of the rule.
            field: The field of an action that the finding is about, where a repair asks for it.
            ends_with_checkpoint: Whether a checkpoint of the version, or of a later one, does not have the fault.
            cases: The kinds of damage, where engines do not treat all findings of the rule alike. See `engines.py`.
        """
        if key is not None:
            place = place._replace(key=key)
        found = Finding(
            self,
            severity or self.severity,
            message,
            place,
            seen=_shown(seen),
            expected=_shown(expected),
            field=field,
            cases=cases,
            ends_with_checkpoint=ends_with_checkpoint,
        )
        if (effect := found.effect) is not None and effect.sentence:
            return found._replace(message=f"{message}; {effect.sentence}")
        return found

    def with_fix(self, fix: Fix) -> Rule:
        """Return the rule for a finding that is not repaired as others of the rule are."""
        return self._replace(fix=fix)


class Finding(NamedTuple):
    """One fault, its place, the value seen and the value expected (None if not useful), the field of an action that it
    is about, where a repair asks for it, and the kinds of damage that engines treat differently.

    `ends_with_checkpoint` is True for a fault of a commit that a checkpoint of its version, or of a later one, does not
    have: readers that begin with the checkpoint are not affected.
    """

    rule: Rule
    severity: Severity
    message: str
    place: Place
    seen: str | None = None
    expected: str | None = None
    field: str = ""
    cases: tuple[str, ...] = ()
    ends_with_checkpoint: bool = False

    def as_covered(self, severity: Severity = Severity.WARNING) -> Finding:
        """Return the finding about a commit that a checkpoint covers, with what that means for readers."""
        message = f"{self.message}; a checkpoint covers it, so only readers of older versions are affected"
        return self._replace(rule=self.rule.with_fix(COVERED), severity=severity, message=message)

    @property
    def effect(self) -> Effect | None:
        """What engines do with the table; None if that was not measured."""
        path = self.place.path
        if self.rule.id.startswith(_ABOUT_COMMITS) and (path.endswith(".compacted.json") or ".checkpoint." in path):
            return None  # measured with damaged commits; an engine may not even open a log compaction
        return effect_of(self.rule.id, self.cases)

    @property
    def may_stop_readers(self) -> bool:
        """Whether it is an error, or a warning about what makes an engine refuse or misread the table."""
        if self.severity is Severity.ERROR:
            return True
        effect = self.effect
        return self.severity is Severity.WARNING and effect is not None and effect.stops_readers

    def as_json(self) -> dict[str, Any]:
        """Return the finding as in the document `deltacli.validate`."""
        location = {name: value for name, value in self.place._asdict().items() if value is not None}
        effect = self.effect
        return {
            "rule": self.rule.id,
            "severity": self.severity.value,
            "message": self.message,
            "location": location,
            "seen": self.seen,
            "expected": self.expected,
            "spec": self.rule.spec,
            "fix": self.rule.fix.as_json(),
            **({} if effect is None else {"engines": effect.as_json()}),
        }


_ABOUT_COMMITS = ("action.", "commit.", "commitinfo.")


class ReadFault(NamedTuple):
    """What a reader found: its code is the id of a rule, or one that no rule has."""

    code: str
    place: Place
    message: str
    seen: object = None
    expected: object = None


class Check(NamedTuple):
    """A function that checks one kind of view, and the rules it may report."""

    view: type
    rules: tuple[Rule, ...]
    run: Callable[[Any], Iterable[Finding]]  # Any: an instance of `view`


class Area:
    """The rules of one area and the checks that report them."""

    def __init__(self, name: str, level: Level = Level.LOG, *, spec: str = "") -> None:
        """`level` and `spec` are those of each rule that names none."""
        self.name = name
        self.level = level
        self.spec = spec
        self.rules: list[Rule] = []
        self.checks: list[Check] = []

    def _add(
        self,
        severity: Severity,
        rule_id: str,
        checks: str | LazyText,
        broken: str,
        repair: str | LazyText,
        loss: str = "nothing",
        *,
        example: str,
        spec: str = "",
        level: Level | None = None,
    ) -> Rule:
        """Add a rule and return it."""
        fix = Fix(broken, repair, loss)
        made = Rule(rule_id, severity, level or self.level, checks, spec or self.spec, fix, example)
        self.rules.append(made)
        return made

    error = partialmethod(_add, Severity.ERROR)
    warning = partialmethod(_add, Severity.WARNING)
    info = partialmethod(_add, Severity.INFO)

    def check(
        self, view: type[View], *rules: Rule
    ) -> Callable[[Callable[[View], Iterator[Finding]]], Callable[[View], Iterator[Finding]]]:
        """Register a function that checks a view and reports only the named rules."""

        def register(run: Callable[[View], Iterator[Finding]]) -> Callable[[View], Iterator[Finding]]:
            self.checks.append(Check(view, rules, run))
            return run

        return register

    def check_faults(
        self, view: type[View], *rules: Rule
    ) -> Callable[[Callable[[View], Iterator[ReadFault]]], Callable[[View], Iterator[Finding]]]:
        """Register what yields faults of a reader, and report those whose code is the id of a named rule."""
        by_id = {rule.id: rule for rule in rules}

        def register(run: Callable[[View], Iterator[ReadFault]]) -> Callable[[View], Iterator[Finding]]:
            def findings(seen: View) -> Iterator[Finding]:
                for fault in run(seen):
                    if fault.code in by_id:
                        yield by_id[fault.code].at(fault.place, fault.message, seen=fault.seen, expected=fault.expected)

            return self.check(view, *rules)(findings)

        return register


def _shown(value: object) -> str | None:
    """Return a value for a finding, shortened because a schema may be a megabyte."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_LONGEST = 300


# -- all rules and all checks ------------------------------------------------------------------------------------------


class Catalogue:
    """The rules of a package and their checks. `modules`: each has areas; and what views its checks look at."""

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        self.package = package
        self.modules = modules
        self._areas: dict[str, list[Area]] = {}

    @cached_property
    def rules(self) -> Mapping[str, Rule]:
        """Every rule by its id, in the order of the modules."""
        return {rule.id: rule for area in self.areas() for rule in area.rules}

    def areas(self) -> list[Area]:
        """Return the areas in order, those of one name as one."""
        merged: dict[str, Area] = {}
        for name in self.modules:
            for found in self.areas_of(name):
                area = merged.setdefault(found.name, Area(found.name))
                area.rules += found.rules
                area.checks += found.checks
        return list(merged.values())

    def areas_of(self, module: str) -> list[Area]:
        """Return the areas of a module, which is imported."""
        if module not in self._areas:
            values = vars(import_module(f"{self.package}.{module}")).values()
            self._areas[module] = [value for value in values if isinstance(value, Area)]
        return self._areas[module]

    def find_checks(self, view: type, modules: Collection[str] | None = None) -> Iterator[Check]:
        """Yield the checks of such views; those of some modules only, where these are given."""
        for name, views in self.modules.items():
            if view.__name__ in views.split() and (modules is None or name in modules):
                yield from (check for area in self.areas_of(name) for check in area.checks if check.view is view)


CATALOGUE = Catalogue(
    "deltacli.rules",
    {
        "log.log_files": "HistoryView ListingView StorageView",
        "log.commit_lines": "",
        "actions.commit_contents": "CommitView",
        "actions.single_actions": "CommitView FilesView HistoryView StateView",
        "paths": "CommitView FilesView StateView StorageView",
        "protocol.protocol": "CommitView HistoryView ProtocolView TableConfigurationView",
        "protocol.metadata": "HistoryView MetadataView",
        "protocol.properties": "ListingView MetadataView StateView TableConfigurationView",
        "schema.schema_changes": "MetadataView",
        "schema.schema": "MetadataView",
        "mapping": "FilesView MetadataView ProtocolView",
        "partitions.partitions": "FilesView MetadataView StateView",
        "partitions.contents": "AnswersView",
        "statistics.statistics": "CheckpointView FilesView",
        "statistics.compared": "AnswersView FootersView",
        "checkpoints.contents": "CheckpointView",
        "checkpoints.columns": "CheckpointView",
        "checkpoints.checkpoints": "CheckpointView ListingView",
        "log.last_checkpoint": "HintView ListingView",
        "log.checksums": "ChecksumView HistoryView ListingView",
        "log.compactions": "CompactionView ListingView",
        "files.storage": "StateView StorageView",
        "files.archived": "StorageView",
        "files.hadoop_checksums": "HadoopChecksumsView",
        "files.data_types": "FileFaultView FileSchemaView",
        "files.data_files": "AllFootersView FileFaultView FileSchemaView FootersView",
        "files.deletion_vectors": "CommitView FilesView StorageView",
        "files.vector_contents": "VectorsView",
        "files.nan_bounds": "AnswersView",
        "files.int96_times": "AnswersView",
        "actions.row_contents": "AllFootersView AnswersView ChangeFileView ChangedVersionView FootersView",
        "actions.change_data": "CommitView StorageView",
        "expressions.texts": "FilesView MetadataView TableConfigurationView",
        "expressions.row_values": "AllRowsView AnswersView",
        "actions.row_tracking": "CommitView HistoryView StateView TableConfigurationView",
        "protocol.clustering": "FilesView StateView TableConfigurationView",
        "widening": "MetadataView StateView TableConfigurationView",
        "protocol.iceberg": "FilesView StorageView TableConfigurationView",
        "log.history": "CommitView HistoryView ListingView StorageView TableConfigurationView",
    },
)

RULES_OF_ADD = (
    "protocol.metadata",
    "schema.schema_changes",
    "schema.schema",
    "mapping",
    "actions.row_tracking",
    "widening",
)
"""The modules of all rules of `BLOCKING_RULES` that stop new data files: no others are imported for them."""
