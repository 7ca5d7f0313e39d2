"""What a schema must fulfil before deltacli writes it: the rules of `validate`, and that all engines can open it."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core import errors
from deltacli.paimon.engines import MIN_PAIMON_OPTION
from deltacli.paimon.schema import Schema
from deltacli.paimon.types import walk_fields
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE, SchemaFileView
from deltacli.rules.paimon.engine_support import FORMAT_TYPE, VERSION_2_ONLY
from deltacli.rules.paimon.schema_files import BLANK_NAME, DEFAULT_VALUE, DIRECTIVE, HIGHEST_ID, ID_DUPLICATE, ID_RANGE

_CODES = {BLANK_NAME: "alter.name", DEFAULT_VALUE: "alter.default", DIRECTIVE: "alter.directive"}
"""Refusals by a rule that have a code of their own."""

_UNNOTICED = (HIGHEST_ID, DEFAULT_VALUE, DIRECTIVE, FORMAT_TYPE)
"""Errors that a table can have and still be altered: Paimon does not look for them, or not before it writes a file."""

_UNNOTICED_IDS = (ID_DUPLICATE, ID_RANGE)
"""The same, but no field gets a new name while old files are read into the wrong column."""


def require_valid_schema(schema: Schema, before: Schema) -> None:
    """Raise Refused for an error of a new schema that the schema before does not have, or that Paimon notices."""
    tolerated = _UNNOTICED if _names(schema) - _names(before) else (*_UNNOTICED, *_UNNOTICED_IDS)
    known = {_identify(finding) for finding in _find(before, Severity.ERROR)}
    for finding in _find(schema, Severity.ERROR):
        if finding.rule not in tolerated or _identify(finding) not in known:
            code = _CODES.get(finding.rule)
            message = finding.message if code else f"the new schema is not valid: {finding.message}"
            raise errors.Refused(message, code=code or finding.rule.id, facts=_facts(finding))


def require_engine_support(schema: Schema, before: Schema | None, *, min_paimon: int | None, operation: str) -> None:
    """Raise Refused for something in a new schema that Paimon 1.x cannot open, write or read.

    What the schema before has already is no reason: its engines have to be new enough as it is.

    Args:
        schema: The new schema.
        before: The schema that it follows; None for the first one of a table.
        min_paimon: The oldest major version of Paimon among the engines, if the caller states it. The option of the
            table decides otherwise.
        operation: The operation whose parameter `min_paimon` is, for the hint.
    """
    if min_paimon is not None and min_paimon >= 2:
        return
    known = set() if before is None else {_identify(finding) for finding in _find_version_2(before)}
    for finding in _find_version_2(schema):
        if _identify(finding) not in known:
            raise errors.Refused(
                f"the new schema needs Paimon 2: {finding.message}",
                code=VERSION_2_ONLY.id,
                facts=_facts(finding) | {"for all changes": f"set the option {MIN_PAIMON_OPTION}=2 of the table"},
                hint=errors.suggest_parameters(
                    errors.parameter(f"{operation}.min_paimon", 2), also=" if no engine is older than Paimon 2"
                ),
            )


def require_supported_types(schema: Schema) -> None:
    """Raise Refused for a type of a new table that the format of its files lacks."""
    for finding in _find(schema, Severity.ERROR):
        if finding.rule is FORMAT_TYPE:
            raise errors.Refused(
                f"the new schema is not valid: {finding.message}", code=FORMAT_TYPE.id, facts=_facts(finding)
            )


def _facts(finding: Finding) -> dict[str, str]:
    place = {} if finding.place.key is None else {"at": finding.place.key}
    return place | {"rule": finding.rule.checks}


def _find_version_2(schema: Schema) -> Iterator[Finding]:
    return (finding for finding in _find(schema, VERSION_2_ONLY.severity) if finding.rule is VERSION_2_ONLY)


def _find(schema: Schema, severity: Severity) -> Iterator[Finding]:
    view = SchemaFileView(schema.id, schema)
    for check in PAIMON_CATALOGUE.find_checks(SchemaFileView):
        for finding in check.run(view):
            if finding.severity is severity:
                yield finding


def _names(schema: Schema) -> set[tuple[str, ...]]:
    return {path for path, _ in walk_fields(schema.fields)}


def _identify(finding: Finding) -> tuple[str, str | None, str]:
    return finding.rule.id, finding.place.key, finding.message
