"""What writes to a table gets its store from a gate, and few modules decide about a change besides its own. The places
that do so otherwise are counted and named here.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import deltacli

ROOT = Path(deltacli.__file__).parent
BESIDE_GATES = {
    "operations/clone.py": 1,
    "operations/checkpoint": 3,
    "operations/paimon": 2,
    "operations/recover": 4,
    "operations/repair": 1,
    "operations/restore": 1,
    "operations/vacuum": 2,
}
CONSENT, STALENESS, FAILURE, EXIT = "consent", "staleness", "partial failure", "exit code"
DECIDES = {
    CONSENT: {
        "changing/change.py": "what a consent is, also to a plan made again; without one, the command was agreed to",
        "cli/running/changing.py": "how it is asked: the question, its answer and --yes",
        "cli/commands/doctor/access_and_storage.py": "a question without a table",
        "cli/commands/schema.py": "a question without a table",
    },
    STALENESS: {
        "changing/basis.py": "what a plan was made from, and whether the table still is that",
        "changing/commit.py": "the version before each attempt",
        "changing/derived.py": "the commit that a file of the log follows from",
        "changing/change.py": "before the first act",
        "operations/change/append.py": "a log that may have been cleaned past the plan of a query",
        "operations/checkpoint/checkpoint.py": "before each file of a checkpoint",
        "operations/log/expire.py": "before each batch, with the proof",
        "operations/log/log_restore.py": "a log that may be damaged, or not there",
        "operations/paimon/vacuum_schemas.py": "schemas, which are no log",
        "operations/recover/undelete.py": "a log that may be damaged",
        "operations/repair/repair.py": "before each pass",
        "operations/vacuum/rechecking.py": "before each batch, with newer commits and protected tables",
    },
    FAILURE: {
        "catalogs/publishing.py": "copies that the catalog was not told of, or that others should have followed",
        "changing/change.py": "an error after the first act, and what an outcome says was left undone",
    },
    EXIT: {
        "cli/running/changing.py": "1 where --check finds a change that is due; what the same command continues",
        "cli/errors.py": "how an error and its cause are told",
        "core/errors.py": "that of each error, and of its cause",
    },
}
"""What modules decide about changes. A new command is in none of these lists but that of what it left undone."""
_NAMES = {
    CONSENT: {"standing", "for_plan", "Standing", "ForPlan", "require_confirmation"},
    STALENESS: {"require_same", "require_past", "require_listed", "require_clock", "look_again", "require_unchanged"},
}


@cache
def _modules() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}


def test_few_places_besides_the_gate_write_to_a_table() -> None:
    found: dict[str, int] = {}
    for name, text in _modules().items():
        if name.startswith("changing/") or name == "table/handle.py":
            continue
        if count := len(re.findall(r"(?<!require_)writable\(\)", text)):
            room = "/".join(name.split("/")[: 2 if name.startswith("operations/") else 1])
            found[room] = found.get(room, 0) + count

    assert found == BESIDE_GATES


def test_only_named_modules_decide_about_consent_staleness_partial_failure_and_exit_codes() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    words = re.compile("|".join({"PartlyDone", "cause_exit"}.union(*_NAMES.values())))
    for name, text in _modules().items():
        for what in _decided(ast.parse(text)) if words.search(text) else ():  # parsing all takes seconds
            found[what].add(name)

    assert {what: sorted(names) for what, names in DECIDES.items()} == {what: sorted(found[what]) for what in DECIDES}


def _decided(module: ast.Module) -> Iterator[str]:
    """What a module decides, or has others decide: by the names that it defines, imports, calls or reads."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from (what for what in (CONSENT, STALENESS) if node.name in _NAMES[what])
    for part in ast.walk(module):
        match part:
            case ast.ImportFrom(str() as room, names) if room.startswith(
                ("deltacli.changing", "deltacli.cli.running.changing")
            ):
                used = {one.name for one in names}
                yield from (what for what in (CONSENT, STALENESS) if used & _NAMES[what])
            case ast.Call(ast.Name("PartlyDone") | ast.Attribute(ast.Name("PartlyDone"))):
                yield FAILURE
            case ast.Attribute(attr="cause_exit") | ast.AnnAssign(ast.Name("cause_exit")):
                yield EXIT
