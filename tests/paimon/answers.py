"""Asking the command line in this process, and checking its documents against their schemas."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from deltacli.cli.app import run
from tests.cli.support import ROOT

SCHEMAS = {
    path.stem: Draft202012Validator(json.loads(path.read_text("utf-8")))
    for path in (ROOT / "docs" / "schemas").glob("*.json")
}
Capture = pytest.CaptureFixture[str]


def ask(capture: Capture, *arguments: object) -> tuple[int, str, str]:
    """Run a command line in this process."""
    code = run([str(argument) for argument in arguments])
    out, err = capture.readouterr()
    return code, out, err


def document(capture: Capture, *arguments: object) -> Any:  # Any: JSON values
    """Return the JSON document of a command, which matches its schema."""
    code, out, err = ask(capture, *arguments, "--json")
    assert (0, True) == (code, all('"type":"note"' in line for line in err.splitlines())), err
    found = json.loads(out)
    assert [] == [fault.message for fault in SCHEMAS[f"{found['kind']}.paimon"].iter_errors(found)]
    return found


def lines(capture: Capture, *arguments: object) -> list[Any]:  # Any: JSON values
    """Return the lines of a command, which match their schemas, without the last one."""
    _, out, _ = ask(capture, *arguments, "--format", "ndjson")
    *found, end = map(json.loads, out.splitlines())
    assert {"type": "end", "complete": True, "count": len(found)} == end
    assert [] == [fault.message for line in found for fault in SCHEMAS[line["type"]].iter_errors(line)]
    return found


def rows(capture: Capture, *arguments: object) -> list[dict[str, str]]:
    """Return the rows of a command as CSV."""
    _, out, _ = ask(capture, *arguments, "--format", "csv")
    return list(csv.DictReader(io.StringIO(out)))
