"""No decision depends on the wording of a message: what is known of an error is a value of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import deltacli

ROOT = Path(deltacli.__file__).parent
TEXTS = {"hint", "message", "reason", "said"}
FAULTS = {"absent", "cause", "corrupt", "error", "fault", "refused", "unreadable"}
CUTTING = {"endswith", "find", "index", "partition", "removeprefix", "removesuffix", "rpartition", "startswith"}
PATTERNS = {"findall", "fullmatch", "match", "search"}
OF_OTHERS = {
    "cli/usage.py": {"_meant", "_value_for"},  # click
    "core/request_fields.py": {"call"},  # Python, of a call with an unknown field
    "delta/log/actions.py": {"is_cut_off"},  # Python's decoder
    "engine/spark/cluster.py": {"explain", "is_too_large"},
    "fleet/policy_file/reading.py": {"_parse"},  # tomllib, the line
    "paimon/schema.py": {"read_json"},  # Python, of a number with too many digits
    "sharing/client/transport.py": {"_unreachable", "fault_of_status"},  # urllib3, OpenSSL, servers of others
    "sharing/conformance/wire.py": {"_reason"},  # urllib3, the address before the reason
    "storage/fsspec_storage.py": {"_lacks_credentials", "unloadable_library"},
    "storage/gcs/store.py": {"gcs_fault", "page"},
    "storage/objects/http.py": {"_broken", "passing_cause"},  # urllib3, the address before the reason; OpenSSL
    "storage/s3/faults.py": {"is_broken_off", "renewal"},  # OpenSSL, botocore
    "work/rows/row_conditions.py": {"evaluate"},
}
"""Where a message of a library or a server is read, because it has no other value that says the same."""
OF_NAMES = {
    "cli/errors.py": {"_as_asked", "report_error"},
    "cli/render/log_files.py": {"_refusal"},
    "cli/render/optimize.py": {"_refused"},
    "cli/render/terminal/findings.py": {"_places"},
    "cli/render/plans.py": {"_make_override_rows"},
    "cli/commands/repair.py": {"_stays_refused"},
    "core/errors.py": {"__str__", "fill"},
    "fleet/status.py": {"_brief"},
    "operations/validate/inspect_log.py": {"_report_unread"},
    "work/file_facts.py": {"reading_fault"},
}
"""Where a text is laid out: a name or a code that it has already is not written twice, or it is shortened."""


def decisions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the function and the line where a message is searched, cut, or compared with a sentence."""
    left = [(tree, "")]
    while left:
        node, inner = left.pop()
        for part in ast.iter_child_nodes(node):
            left.append((part, part.name if isinstance(part, ast.FunctionDef) else inner))
        if not isinstance(node, ast.Call | ast.Compare):
            continue
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=text)) if name in CUTTING and is_message(text):
                yield inner, node.lineno
            case ast.Call(func=ast.Attribute(attr=name), args=[*_, text]) if name in PATTERNS and is_message(text):
                yield inner, node.lineno
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[text]) if is_message(text):
                if not (isinstance(node.left, ast.Constant) and node.left.value == "{"):  # a place for the table
                    yield inner, node.lineno
            case ast.Compare(left=text, ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str(words))]):
                if " " in words and is_message(text):
                    yield inner, node.lineno


def is_message(node: ast.expr) -> bool:
    """Return whether an expression is a text that an error or a refusal says, or the error as a text."""
    match node:
        case ast.Attribute(attr=name):
            return name in TEXTS
        case ast.Name(id=name):
            return name in TEXTS - {"said"}
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in FAULTS
        case ast.Call(func=ast.Attribute(attr="lower" | "casefold", value=text)):
            return is_message(text)
    return False


@pytest.mark.halved
def test_no_decision_depends_on_the_wording_of_a_message() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        if functions := {where for where, _ in decisions(ast.parse(path.read_text()))}:
            found[str(path.relative_to(ROOT))] = functions

    assert OF_OTHERS | OF_NAMES == found


@pytest.mark.parametrize(
    "line",
    [
        'fault.message.startswith("the log")',
        're.search(r"--version (.*)", error.hint)',
        '"missing" in str(fault).lower()',
        'refusal.reason == "no source was named"',
    ],
)
def test_a_decision_by_wording_is_seen(line: str) -> None:
    assert [("chosen", 2)] == [*decisions(ast.parse(f"def chosen():\n    return {line}"))]
