"""Which clients read and write a table, as a result: a row per client, with what stops it and the ways out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from deltacli.cli.invocation import invocation
from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import WriteItems, encode_line
from deltacli.cli.output.results import ListResult
from deltacli.cli.output.sections import NOT_THE_NEWEST, Section
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.suggested_commands import spell_tables_as_typed
from deltacli.core.documents import envelope
from deltacli.core.units import format_size, plural
from deltacli.delta.protocol.clients import OPENED_IN_TWO_WAYS, TRAIT_DESCRIPTIONS, VERSIONS, Blocker, invalid_versions
from deltacli.operations.explain import Explained, Explanation, WayOut


def explain_result(found: Explanation) -> ListResult[Explained]:
    """Return what clients do with a table as a result; its rows are the clients."""
    content = found.as_json()
    table_format = "delta" if found.paimon_traits is None else "paimon"
    fields = envelope("deltacli.explain", found.table.uri, complete=found.gap is None, table_format=table_format)
    fields |= content
    parts = _Parts(*([section for section in made(found) if section.lines] for made in (_before, _after)))
    loses: Column[Explained] = Column("loses", lambda one: _answer(one.loses), priority=2)
    return _Explained(
        fields,
        "explain",
        content["clients"],
        [
            Column("client", lambda one: one.access.client.name, priority=0, min_width=13),
            Column("version", lambda one: one.access.version, priority=3, min_width=7),
            Column("reads", _reads, style=lambda one: _style(one.access.reads), priority=1, min_width=7),
            Column("writes", lambda one: _answer(one.access.writes), style=_style_of_writes, priority=1, min_width=7),
            *([loses] if found.supposed else []),
            Column("because", _because, priority=2, min_width=22, wraps=True),
            Column("facts", _facts, priority=4, min_width=21, wraps=True),
        ],
        found.clients,
        items_name="clients",
        make_sections=lambda _: [*parts.before, *parts.after],
        parts=parts,
    )


class _Parts(NamedTuple):
    """The sections before the clients, and those after them."""

    before: Sequence[Section] = ()
    after: Sequence[Section] = ()


_NO_PARTS = _Parts()


@dataclass(eq=False, repr=False)
class _Explained(ListResult["Explained"]):
    """The clients, between what is asked and the ways out. A line has the whole document."""

    parts: _Parts = _NO_PARTS

    def lines(self, write_items: WriteItems) -> bool:
        left_out = ("kind", "schemaVersion", "tableFormat", "complete")
        write_items(
            encode_line({name: value for name, value in self.fields.items() if name not in left_out}, self.line_type)
        )
        return bool(self.fields["complete"])

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.parts.before)
        sink.write(b"\n")
        self.draw_rows(sink, terminal)
        if self.parts.after:
            sink.write(b"\n")
            write_sections(sink, terminal, self.parts.after)


def _answer(does: bool | None) -> str:
    return "unknown" if does is None else "yes" if does else "no"


def _reads(one: Explained) -> str:
    return _answer(one.access.reads)


def _style(does: bool | None) -> Style:
    return Style.QUIET if does is None else Style.GOOD if does else Style.PROBLEM


def _style_of_writes(one: Explained) -> Style:
    return _style(one.access.writes) if one.access.client.writes else Style.QUIET


def _because(one: Explained) -> str | None:
    """Return why a client does not read or write the table, or why that is not known; None if it does both."""
    parts = [_blocker(blocker, one) for blocker in one.access.blockers]
    reasons = {name: one.access.client.why_it_depends(name) for name in one.access.unknown}
    unknown = [_words(one).get(name, name) for name in reasons if not reasons[name]]
    if unknown:
        parts.append(f"unknown: {', '.join(unknown)}")
    # What stops a client in any case needs no word on what may stop it.
    open_questions = {"reads": one.access.reads, "writes": one.access.writes}
    depending: dict[str, dict[str, None]] = {}
    for name, by_kind in reasons.items():
        on_what = "how it is opened" if name in OPENED_IN_TWO_WAYS else "the data"
        for kind, why in by_kind.items():
            if open_questions.get(kind, False) is None:
                depending.setdefault(on_what, {})[why] = None
    parts += [f"depends on {on_what}: {', '.join(whys)}" for on_what, whys in depending.items()]
    return "; ".join(parts) or None


def _words(one: Explained) -> Mapping[str, str]:
    if one.counts == "version":
        return {**TRAIT_DESCRIPTIONS, **VERSIONS}
    from deltacli.paimon.traits import WORDS

    return WORDS


def _blocker(blocker: Blocker, one: Explained) -> str:
    since = one.since.get(blocker.trait)
    told = _words(one).get(blocker.feature, blocker.feature) + ("" if since is None else f" since {one.counts} {since}")
    if not blocker.stops_reading:
        told += ", stops writes"
    elif not blocker.stops_writing and one.access.client.writes:
        told += ", stops reads"
    return told + (f", supported from {blocker.needs}" if blocker.needs else "")


def _facts(one: Explained) -> str:
    client = one.access.client
    if not one.access.is_known:
        return f"none of this version, but of {client.version}"
    return f"{'measured' if client.is_measured else 'documented'} {client.day}"


def _before(found: Explanation) -> Iterator[Section]:
    is_paimon = found.paimon_traits is not None
    yield Section("table", [f"{found.table.uri}, {'schema' if is_paimon else 'version'} {found.version}"])
    if found.gap is not None:
        yield Section("incomplete", [NOT_THE_NEWEST], Style.CHANGED)
    yield Section("suppose", [one.text for one in found.supposed])
    yield Section("traits" if is_paimon else "features", [", ".join(found.features) or "none"])
    unknown = [f"not a known feature: {', '.join(found.unknown_features)}"] if found.unknown_features else []
    if found.config.protocol is not None:
        unknown += [f"no specification has {one}" for one in invalid_versions(found.config.protocol).values()]
    yield Section("unknown", unknown, Style.PROBLEM)
    yield Section("warnings", [message for _, message in found.warnings], Style.CHANGED)


def _after(found: Explanation) -> Iterator[Section]:
    lines = [line for one in found.ways_out for line in _way_out(one)]
    anew = [one for one in found.ways_out if one.command is None and one.steps]
    if anew:
        lines.append(f"otherwise write the rows into a new table{_cost(anew[0])}")
    yield Section("ways out", lines)
    yield Section("notes", [f"{one.access.client.name}: {note}" for one in found.clients for note in one.access.notes])


def _way_out(one: WayOut) -> Iterator[str]:
    if one.command is None:
        yield f"{TRAIT_DESCRIPTIONS.get(one.feature, one.feature)}: {one.why}"
        return
    yield f"{one.feature}{_cost(one)}:"
    yield spell_tables_as_typed(one.command, invocation.arguments)
    yield from (f"  {step}" for step in one.steps)


def _cost(one: WayOut) -> str:
    if one.files is None:
        return " (rewrites files with older types)"
    if not one.files:
        return " (no file is rewritten)"
    size = "" if one.size_bytes is None else f", {format_size(one.size_bytes)}"
    return f" (rewrites {plural(one.files, 'file')}{size})"
