"""A repair as text and documents: what is done, what it gives up, what is left and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

from deltacli.cli.output.columns import Column, make_item_columns
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.documents import envelope
from deltacli.core.units import format_size, plural
from deltacli.operations.repair.plan import RepairPlan, Step, StepState
from deltacli.rules.framework.base import Severity

if TYPE_CHECKING:
    from deltacli.changing.file_totals import FileTotals
    from deltacli.core.typing import JsonObject
    from deltacli.operations.repair.backup import PutBack
    from deltacli.operations.repair.repair import RepairOutcome

_NAMED = 10
_COLUMNS = make_item_columns(
    [
        "rule",
        Column("path", lambda step: step["location"].get("path")),
        "action",
        "what",
        "source",
        Column("rows", lambda step: (step["loses"] or {}).get("rows")),
        "state",
        "reason",
        "committedVersion",
    ]
)
"""The columns of a step, as it is in the document."""


def repair_result(
    plan: RepairPlan, outcome: RepairOutcome | None, name: str, *, is_plan: bool = False
) -> ListResult[JsonObject]:
    """Return a plan, or what became of it, as a result. `name` is the table as the user wrote it."""
    content = plan.as_json(dry_run=is_plan) if outcome is None else outcome.as_json()
    steps: list[JsonObject] = content.pop("steps")
    last = {"type": "repair", "table": plan.table.uri, **content}
    fields = envelope("deltacli.repair", plan.table.uri, complete=True) | content
    said = list(_sections(plan, outcome, name))
    return ListResult(
        fields,
        "repair-step",
        steps,
        _COLUMNS,
        steps,
        items_name="steps",
        last_line=last,
        make_sections=lambda _: said,
        has_requested_rows=False,
    )


def put_back_result(uri: str, backup: str, found: PutBack, *, dry_run: bool) -> SingleResult:
    """Return what was put back of a backup, or would be."""
    content: JsonObject = {
        "backup": backup,
        "files": found.files,
        "sizeBytes": found.size_bytes,
        "unchanged": found.unchanged,
        "kept": found.kept,
        "dryRun": dry_run,
    }
    verb = "would put back" if dry_run else "put back"
    said = [
        Section("table", [uri]),
        Section("backup", [backup]),
        Section(verb, [format_file_totals(found.files, found.size_bytes)], Style.GOOD),
        Section("kept", [found.kept] if found.kept else []),
        Section("unchanged", [plural(found.unchanged, "file")] if found.unchanged else []),
    ]
    return SingleResult("repair-undo", uri, content, lambda: said, [content], tuple(content))


def below_table(uri: str, table: str, name: str) -> str:
    """Return a URI, below the table as the user wrote it where it is in the table."""
    below = uri.removeprefix(f"{table}/")
    return uri if below == uri else f"{name.rstrip('/')}/{below}"


def _sections(plan: RepairPlan, outcome: RepairOutcome | None, name: str) -> Iterator[Section]:
    version = "unknown" if plan.version is None else str(plan.version)
    if outcome is None and not plan.steps:
        table = f"{plan.table.uri}, version {version}"
        if plan.errors:
            yield Section("cannot repair", [f"{table}: the errors below are left as they are"], Style.PROBLEM)
        else:
            yield Section("nothing to do", [f"{table}: no finding that a repair acts on"])
    else:
        yield Section("table", [plan.table.uri])
        yield Section("version", [version])
    if outcome is None:
        yield Section("would repair", _changes(plan.planned), Style.GOOD)
        yield Section("gives up", _loss(plan.loss), Style.PROBLEM)
        later = ["the data files, once the newest version can be rebuilt"] if plan.is_partial else []
        yield Section("planned later", later)
    else:
        done = [plural(len(outcome.done), "finding"), *_changes(outcome.done)] if outcome.done else ["nothing"]
        yield Section("repaired", done, Style.GOOD)
        yield Section("gave up", _loss(outcome.loss), Style.PROBLEM)
        yield Section("committed", [", ".join(map(str, outcome.versions))] if outcome.versions else [])
        yield Section("failed", [f"{step.what}: {step.reason}" for step in outcome.failed[:_NAMED]], Style.PROBLEM)
        skipped = [step for step in outcome.steps if step.state is StepState.SKIPPED]
        yield Section("not needed", [f"{step.what}: {step.reason}" for step in skipped[:_NAMED]])
        if outcome.backup_uri is not None and outcome.backup is not None:
            place = below_table(outcome.backup_uri, outcome.plan.table.uri, name)
            yield Section("backup", [f"{plural(len(outcome.backup.kept), 'file')} in {place}"])
        meanwhile = [step for step in plan.steps if step.state is StepState.SKIPPED]
        yield Section("found meanwhile", _changes(meanwhile), Style.WARNING)
    stopped = [step for step in plan.steps if step.state is StepState.REFUSED]
    yield Section("not done", _changes(stopped), Style.WARNING)
    yield Section("not repaired", _told_apart(list(_unrepaired(plan))), Style.WARNING)
    yield Section("note", plan.notes, Style.WARNING)
    yield make_refusal_section(f"{one.message} [{one.code}]" for one in plan.refusals)


def _changes(steps: Sequence[Step]) -> list[str]:
    """Return what is done, each once, with its rules."""
    rules: dict[str, dict[str, None]] = {}
    for step in steps:
        what = step.what if step.source is None else f"{step.what}, from {step.source}"
        rules.setdefault(what, {})[step.rule] = None
    lines = [f"{what} [{', '.join(found)}]" for what, found in list(rules.items())[:_NAMED]]
    more = [f"and {len(rules) - _NAMED:,} more: --json names all"] if len(rules) > _NAMED else []
    return [*_told_apart(lines), *more]


def _told_apart(lines: Sequence[str]) -> Sequence[str]:
    """Return lines with combining characters as escapes in words that differ in their Unicode form only."""
    if all(line.isascii() for line in lines):
        return lines
    forms: dict[str, set[str]] = {}
    for word in re.findall(r"[^\s,;]+", "\n".join(lines)):
        forms.setdefault(normalize("NFC", word), set()).add(word)
    alike = {word for words in forms.values() if len(words) > 1 for word in words}
    return [
        re.sub(r"[^\s,;]+", lambda word: _escaped(word[0]) if word[0] in alike else word[0], line) for line in lines
    ]


def _escaped(word: str) -> str:
    return "".join(f"\\u{ord(one):04x}" if combining(one) else one for one in word)


def _loss(loss: FileTotals) -> list[str]:
    if not loss.files:
        return []
    rows = "an unknown number of rows" if loss.rows is None else plural(loss.rows, "row")
    return [f"{plural(loss.files, 'file')}, {rows}, {format_size(loss.size_bytes)}"]


def _unrepaired(plan: RepairPlan) -> Iterator[str]:
    left = sorted(plan.unrepaired, key=lambda one: one.severity is not Severity.ERROR)
    for one in left[:_NAMED]:
        yield f"{one.severity} {one.rule}, {one.place.key or one.place.path}: {one.reason}"
    if len(left) > _NAMED:
        yield f"and {len(left) - _NAMED:,} more: --json names all"
