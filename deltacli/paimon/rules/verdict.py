"""Whether Paimon would open a table with a new schema, by the rules for schema files."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.rules.framework.base import Finding, Severity
from deltacli.paimon.rules import fields
from deltacli.paimon.rules.catalogue import paimon_catalogue
from deltacli.paimon.rules.views import SchemaFileView
from deltacli.paimon.schema import Schema

_UNNOTICED = (fields.ID_DUPLICATE, fields.ID_RANGE, fields.HIGHEST_ID)
"""Errors that Paimon does not look for, so that a table can have them and still be altered."""


def faults_of_new(schema: Schema, before: Schema) -> Iterator[Finding]:
    """Yield the errors of a new schema, without those that the schema before has and that Paimon does not notice."""
    known = {_key(finding) for finding in _errors(before)}
    for finding in _errors(schema):
        if finding.rule not in _UNNOTICED or _key(finding) not in known:
            yield finding


def _errors(schema: Schema) -> Iterator[Finding]:
    view = SchemaFileView(schema.id, schema)
    for check in paimon_catalogue().checks:
        if check.view is SchemaFileView:
            for finding in check.run(view):
                if finding.severity is Severity.ERROR:
                    yield finding


def _key(finding: Finding) -> tuple[str, str | None, str]:
    return finding.rule.id, finding.place.key, finding.message
