"""The facts about measured clients, and `python -m tools.clients.facts`, which measures and writes them.

Facts are in `deltacli/delta/protocol/clients.json`. What is documented there is written by hand, with its address.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.delta.protocol.clients import feature_of
from deltacli.table.version_traits import find_version_traits
from tools.clients.measure import DEPENDS, Access, measure
from tools.clients.tables import Case, cases

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "deltacli" / "delta" / "protocol" / "clients.json"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
SHARING_PYTHON = ROOT / ".venv-sharing" / "bin" / "python"
JUDGES_PYTHON = ROOT / ".venv-judges" / "bin" / "python"
ENVIRONMENTS: Mapping[str, Path] = {
    **dict.fromkeys(("deltalake", "duckdb", "polars", "chdb"), PYTHON),
    "delta-sharing": SHARING_PYTHON,
    **dict.fromkeys(("spark", "kernel"), JUDGES_PYTHON),
}
"""Measured client -> the interpreter that has it."""

ACCESSES = ("reads", "writes")
Pair = list[bool | None]
"""Whether a client reads and writes; None: unknown."""


class Measured(NamedTuple):
    """The version of a client, and its facts by trait.

    `depends` are the traits and kinds of access of which some rows were right and others wrong: the table of facts has
    to say why.
    """

    version: str
    facts: dict[str, Pair]
    depends: frozenset[tuple[str, str]] = frozenset()


def measure_client(name: str, python: Path, chosen: Sequence[Case] | None = None) -> Measured:
    """Measure a client with tables of each trait."""
    tried = cases() if chosen is None else list(chosen)
    with tempfile.TemporaryDirectory() as directory:
        root, work = Path(directory, "tables"), Path(directory, "work")
        root.mkdir()
        work.mkdir()
        paths = [one.write(root) for one in tried]
        traits = [_traits(one, path) for one, path in zip(tried, paths, strict=True)]
        version, found = measure(python, name, paths, work)
    facts: dict[str, Pair] = {}
    for place in sorted(range(len(tried)), key=lambda one: len(traits[one])):
        facts[tried[place].trait] = _attributed(tried[place].trait, traits[place], found[place], facts)
    depends = {
        (case.trait, kind)
        for case, access in zip(tried, found, strict=True)
        for kind, why in zip(ACCESSES, (access.why_not_read, access.why_not_written), strict=True)
        if (why or "").startswith(DEPENDS)
    }
    known = {name: facts[name] for name in sorted(facts) if facts[name] != [None, None]}
    return Measured(version, known, frozenset(depends))


def _traits(case: Case, path: Path) -> frozenset[str]:
    try:
        snapshot = open_table(path).snapshot()
    except DeltacliError:
        return frozenset(case.features or ())
    traits = find_version_traits(snapshot)
    return traits - {"values.kernel-unreadable"} if case.trait.startswith("widen.") else traits  # it is the same one


def _attributed(trait: str, traits: frozenset[str], found: Access, facts: Mapping[str, Pair]) -> Pair:
    """Return what a table says of a trait: nothing where another of its traits may be the reason of a refusal."""
    others = [facts[one] for one in traits - {trait} if one in facts]
    pair: Pair = []
    for place, (does, why) in enumerate(((found.reads, found.why_not_read), (found.writes, found.why_not_written))):
        is_named = feature_of(trait).lower() in (why or "").lower().replace("'", "")
        has_other = any(one[place] is False for one in others)
        if does is None and why and is_named:
            pair.append(False)
        else:
            pair.append(None if does is False and has_other and not is_named else does)
    return pair


def written(document: Any, measured: Mapping[str, Measured], day: str) -> str:  # Any: JSON values
    """Return the text of the table of facts with what was measured."""
    for client in document["clients"]:
        if client["name"] not in measured:
            continue
        newest = measured[client["name"]]
        reasons = client.get("dependsOnData", {})
        if unexplained := sorted(newest.depends - {(trait, kind) for trait in reasons for kind in reasons[trait]}):
            raise ValueError(f"{client['name']}: dependsOnData has no reason for {unexplained}")
        facts = {trait: list(pair) for trait, pair in newest.facts.items()}
        for trait in reasons:
            for kind in reasons[trait]:
                facts.setdefault(trait, [None, None])[ACCESSES.index(kind)] = None
        found = {"version": newest.version, "measuredOn": day, "facts": facts}
        if "measuredOn" in client:
            client |= found
        else:
            # Its facts are documented for its versions. The newest one was measured, too.
            client["measured"] = found
    lines = json.dumps(document, indent=1, ensure_ascii=False)
    return with_short_lists(lines) + "\n"


def with_short_lists(text: str) -> str:
    """Return JSON with each pair of a fact on one line."""
    import re

    return re.sub(r"\[\s+([^\[\]{}\s]+),\s+([^\[\]{}\s]+)\s+\]", r"[\1, \2]", text)


def main(names: Sequence[str]) -> None:
    """Measure the named clients, or all of them, and write their facts."""
    measured = {name: measure_client(name, ENVIRONMENTS[name]) for name in names or ENVIRONMENTS}
    day = datetime.now(UTC).date().isoformat()
    DATA.write_text(written(json.loads(DATA.read_text("utf-8")), measured, day), "utf-8")
    for name, one in measured.items():
        sys.stdout.write(f"{name} {one.version}: {len(one.facts)} facts\n")


if __name__ == "__main__":
    main(sys.argv[1:])
