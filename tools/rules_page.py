"""Generate docs/rules.md: every rule of `validate`, by area."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib import import_module

from deltacli.cli.render.validate.report import LEVEL_NAMES
from deltacli.delta.rules.framework.base import Area, Rule
from deltacli.delta.rules.framework.catalogue import AREAS, catalogue
from deltacli.paimon.rules.catalogue import areas as paimon_areas

_HEAD = """\
# Rules

What `deltacli validate` checks. Generated from the catalogue; `deltacli validate --list-rules` prints the same list.

An **error** violates a MUST, loses or duplicates rows, or makes some engine fail; a **warning** violates a SHOULD, or
engines disagree about it; an **info** is an observation. `--level` is the least one that checks the rule. The old draft
is the one that `--profile draft` asks for; a rule without a paragraph there is not checked with it.
"""


_PAIMON_HEAD = """\
# Rules for Paimon tables

What `deltacli validate` checks on a Paimon table. Generated from the catalogue;
`deltacli validate --list-rules --table-format paimon` prints the same list.

An **error** makes Paimon refuse the table or read wrong rows; a **warning** is something that readers disagree about;
an **info** is an observation. All rules are checked at every `--level`.
"""


def render_rules_page() -> str:
    """Return the page in Markdown."""
    areas: list[Area] = [import_module(f"deltacli.delta.rules.{name}").AREA for name in AREAS]
    rules = list(catalogue().rules.values())
    levels = Counter(LEVEL_NAMES[rule.level] for rule in rules)
    return _page(_HEAD, areas, f"; by level: {_counted(levels)}")


def render_paimon_rules_page() -> str:
    """Return the page of the rules for Paimon tables in Markdown."""
    return _page(_PAIMON_HEAD, paimon_areas(), "")


def _page(head: str, areas: Sequence[Area], more: str) -> str:
    rules = [rule for area in areas for rule in area.rules]
    severities = Counter(rule.severity.value for rule in rules)
    lines = [head, f"{len(rules)} rules: {_counted(severities)}{more}.", ""]
    lines += [f"- [{area.name}](#{_anchor(area.name)}): {len(area.rules)}" for area in areas if area.rules]
    for area in areas:
        if area.rules:
            lines += ["", f"## {area.name}"]
            lines += [line for rule in area.rules for line in _rule(rule)]
    return "\n".join([*lines, ""])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _anchor(title: str) -> str:
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


def _rule(rule: Rule) -> list[str]:
    is_paimon = rule.id.startswith("paimon.")
    rows = [
        ("severity", f"{rule.severity}, level `{LEVEL_NAMES[rule.level]}`"),
        *([] if is_paimon else [("old draft", _text(rule.seed) or "not covered")]),
        ("specification" if is_paimon else "current text", _text(rule.spec)),
        ("broken", _text(rule.fix.broken)),
        ("repair", _text(rule.fix.repair)),
        ("lost by the repair", _text(rule.fix.loss)),
        ("example", _code(rule.example) if rule.example else ""),
    ]
    table = [f"| {name} | {text} |" for name, text in rows if text]
    return ["", f"### `{rule.id}`", "", _text(rule.checks), "", "| | |", "|---|---|", *table]


def _text(text: str) -> str:
    """Return a text for a table cell, in which only code is markup."""
    escaped = text.replace("|", "\\|").replace("\n", " ")
    parts = re.split(r"(`[^`]*`)", escaped)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts)


def _code(text: str) -> str:
    """Return a text as code, enclosed in more backticks than it contains, with bars escaped for table cells."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    shown = text.replace("|", "\\|").replace("\n", " ")
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"
