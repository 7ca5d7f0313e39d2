"""Write the tables of docs/corruptions.md: how deltacli and other tools behave on 27 damaged tables, measured.

`python -m tools.corruptions_page` measures deltacli and writes the page with the recorded answers of the other tools.
`--peer-python .venv-peers/bin/python` measures these again. `--check` writes nothing and exits with 1 if the page is
different.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deltacli.core.errors import ShellSyntax, use_hint_syntax
from deltacli.rules.framework.base import CATALOGUE
from tests.support.damage_outcomes import (
    LEVELS,
    PEERS,
    Outcome,
    Outcomes,
    Told,
    Verdict,
    ask_deltacli,
    ask_peer,
    ask_validate,
    outcomes_of,
    write_tables,
)
from tests.support.damaged_tables import TABLE_DAMAGES
from tools.generate import fill

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "corruptions.md"
ANSWERS = ROOT / "tests" / "differential" / "corruptions.json"
ROWS = ("read", "filtered", "count", "snapshot")
"""The questions for which a wrong answer means wrong data."""

Answers = Mapping[str, Any]  # Any: JSON values, by peer


@use_hint_syntax(ShellSyntax())
def render_page(root: Path, peers: Answers) -> str:
    """Return the page. `root` has the damaged tables."""
    ours = {damage.name: ask_deltacli(root / damage.name) for damage in TABLE_DAMAGES}
    told = {damage.name: ask_validate(root / damage.name, damage) for damage in TABLE_DAMAGES}
    others = {
        f"{peer} {found['version']}": {name: outcomes_of(answers) for name, answers in found["answers"].items()}
        for peer, found in peers.items()
    }
    tools = {**others, "deltacli": ours}
    generated = {
        "counts": _counts(tools, told),
        "matrix": _matrix(tools, told),
        "deltacli": _details("deltacli", ours),
        "mending": _mending(told),
    }
    for title, outcomes in others.items():
        generated[title.partition(" ")[0]] = _details(title, outcomes)
    return fill(PAGE.read_text(encoding="utf-8"), generated)


def _matrix(tools: Mapping[str, Mapping[str, Outcomes]], told: Mapping[str, Told | None]) -> list[str]:
    rows = [
        [damage.title, *(_cell(outcomes[damage.name]) for outcomes in tools.values()), _finding(told[damage.name])]
        for damage in TABLE_DAMAGES
    ]
    return _table(["damage", *tools, "`deltacli validate`"], rows)


def _cell(outcomes: Outcomes) -> str:
    """Return the answers of a tool in short: the wrong ones with their questions, else whether it printed a note."""
    groups: dict[str, list[str]] = {}
    for question, outcome in outcomes.items():
        if question != "repair":
            groups.setdefault(_short(outcome), []).append(question)
    if len(groups) == 1:
        return next(iter(groups))
    shown = {label: names for label, names in groups.items() if label != "right"}
    return "; ".join(f"{label}: {', '.join(names)}" for label, names in shown.items())


def _short(outcome: Outcome) -> str:
    match outcome.verdict:
        case Verdict.REFUSED:
            return "error"
        case Verdict.WRONG:
            return "incomplete, with a note" if outcome.notice else "**silently wrong**"
    return "right, with a note" if outcome.notice else "right"


def _finding(told: Told | None) -> str:
    if told is None:
        return "**nothing**"
    rules = ", ".join(f"{severity} {_link(rule)}" for rule, severity in told.rules)
    return f"`{told.level}`: {rules}"


def _link(rule: str) -> str:
    return f"[`{rule}`](rules.md#{_anchor(rule)})"


def _anchor(rule: str) -> str:
    return re.sub(r"[^\w-]", "", rule)


def _details(title: str, outcomes: Mapping[str, Outcomes]) -> list[str]:
    questions = list(next(iter(outcomes.values())))
    rows = [
        [damage.title, *(_long(outcomes[damage.name][question]) for question in questions)] for damage in TABLE_DAMAGES
    ]
    return _table([title, *questions], rows)


def _long(outcome: Outcome) -> str:
    match outcome.verdict:
        case Verdict.REFUSED:
            return " ".join(filter(None, ["error,", outcome.detail])).rstrip(",")
        case Verdict.WRONG:
            return f"{outcome.detail}; note {outcome.notice}" if outcome.notice else f"**{outcome.detail}**"
    if outcome.detail:
        return outcome.detail
    return f"right, note {outcome.notice}" if outcome.notice else "right"


def _mending(told: Mapping[str, Told | None]) -> list[str]:
    """Return the fix of the first rule that is reported for each damaged table."""
    fixes = {found.rules[0][0]: CATALOGUE.rules[found.rules[0][0]].fix for found in told.values() if found}
    rows = [[_link(rule), *map(_text, (fix.broken, fix.repair, fix.loss))] for rule, fix in fixes.items()]
    return _table(["rule", "effect on readers", "fix", "what the fix loses"], rows)


def _text(text: str) -> str:
    """Return a text in which nothing is markup."""
    return re.sub(r"([*_<\[\]])", r"\\\1", text)


def _counts(tools: Mapping[str, Mapping[str, Outcomes]], told: Mapping[str, Told | None]) -> list[str]:
    kinds: dict[str, Callable[[Outcomes], bool]] = {
        "rows or counts silently wrong": lambda found: _any_wrong(found, ROWS),
        "an error": lambda found: any(one.verdict == Verdict.REFUSED for one in found.values()),
        "only the history silently incomplete": lambda found: _any_wrong(found, ("history",)),
        "a note": lambda found: any(one.notice for one in found.values()),
    }
    silent = "nothing reported, answers right"
    rows = []
    for tool, outcomes in tools.items():
        counted = Counter(
            next((kind for kind, holds in kinds.items() if holds(found)), silent) for found in outcomes.values()
        )
        rows.append([tool, *(str(counted[kind]) for kind in (*kinds, silent))])
    levels = Counter(found.level for found in told.values() if found)
    missed = sum(found is None for found in told.values())
    noticed = ", ".join(f"{levels[level]} at `{level}`" for level in LEVELS if levels[level])
    line = f"`deltacli validate` reports {len(told) - missed} of {len(told)}: {noticed}."
    return [*_table(["reading with", *kinds, silent], rows), "", line]


def _any_wrong(found: Outcomes, questions: tuple[str, ...]) -> bool:
    return any(found[one].verdict == Verdict.WRONG and not found[one].notice for one in questions if one in found)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def main(arguments: list[str]) -> int:
    """Measure and write the page, or with `--check` compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="measure the other tools again, in this environment")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_tables(root)
        peers = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
        if chosen.peer_python:
            peers = {peer: ask_peer(chosen.peer_python, peer, root) for peer in PEERS}
            if not chosen.check:
                ANSWERS.write_text(json.dumps(peers, indent=1) + "\n", encoding="utf-8")
        page = render_page(root, peers)
    if page == PAGE.read_text(encoding="utf-8"):
        return 0
    if chosen.check:
        sys.stdout.write("differs  docs/corruptions.md\nrun: python -m tools.corruptions_page\n")
        return 1
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write("wrote  docs/corruptions.md\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
