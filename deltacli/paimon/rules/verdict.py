"""Whether a table may get a new schema, by the rules for schema files: those that `validate` checks."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.rules.framework.base import Finding, Severity
from deltacli.paimon.rules import fields
from deltacli.paimon.rules.catalogue import paimon_catalogue
from deltacli.paimon.rules.views import SchemaFileView
from deltacli.paimon.schema import Schema
from deltacli.paimon.types import walk_fields

_UNNOTICED = (fields.HIGHEST_ID, fields.DEFAULT_VALUE, fields.DIRECTIVE)
"""Errors that Paimon does not look for, so that a table can have them and still be altered."""

_UNNOTICED_IDS = (fields.ID_DUPLICATE, fields.ID_RANGE)
"""The same, but no field gets a new name while old files are read into the wrong column."""


def faults_of_new(schema: Schema, before: Schema) -> Iterator[Finding]:
    """Yield the errors of a new schema, without those that the schema before has and that Paimon does not notice."""
    tolerated = _UNNOTICED if _names(schema) - _names(before) else (*_UNNOTICED, *_UNNOTICED_IDS)
    known = {_key(finding) for finding in _errors(before)}
    for finding in _errors(schema):
        if finding.rule not in tolerated or _key(finding) not in known:
            yield finding


def _names(schema: Schema) -> set[tuple[str, ...]]:
    return {path for path, _ in walk_fields(schema.fields)}


def _errors(schema: Schema) -> Iterator[Finding]:
    view = SchemaFileView(schema.id, schema)
    for check in paimon_catalogue().checks:
        if check.view is SchemaFileView:
            for finding in check.run(view):
                if finding.severity is Severity.ERROR:
                    yield finding


def _key(finding: Finding) -> tuple[str, str | None, str]:
    return finding.rule.id, finding.place.key, finding.message
