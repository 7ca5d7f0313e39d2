"""What `validate` calls an error is not trusted by a change of the table.

Judged is the version that a change would leave: metadata that it replaces stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from deltacli.delta.evolution.draft import Draft
from deltacli.delta.log.log_path import LOG_DIRECTORY, Place, commit_name
from deltacli.errors import Refusal

_AMBIGUOUS = ("mapping.id-duplicate", "mapping.physical-path-duplicate")


def broken_rules(version: int, before: Draft, after: Draft) -> Iterator[Refusal]:
    """Yield the errors that `validate` would report for new metadata and not for that of a version, and of both those
    after which it is not known which column is meant.
    """
    from deltacli.delta.rules.framework.base import Severity
    from deltacli.delta.rules.framework.catalogue import CATALOGUE
    from deltacli.delta.rules.framework.views import MetadataView, TableConfigurationView

    checks = [*CATALOGUE.checks_of(MetadataView), *CATALOGUE.checks_of(TableConfigurationView)]
    memory: dict[str, Any] = {}  # Any: each check keeps its own data, by name
    known: set[tuple[str, str]] = set()
    previous = None
    for draft, number in ((before, version), (after, version + 1)):
        place = Place(f"{LOG_DIRECTORY}/{commit_name(number)}", None, number)
        config = replace(draft.config, metadata_place=place, metadata_version=number, protocol_version=number)
        views = {
            MetadataView: MetadataView(place, number, draft.metadata, config, previous, None, memory),
            TableConfigurationView: TableConfigurationView(place, number, config, memory),
        }
        for check in checks:
            for finding in check.run(views[check.view]):
                key = (finding.rule.id, finding.message)
                is_new = previous is not None and key not in known
                if finding.severity is Severity.ERROR and (is_new or key[0] in _AMBIGUOUS):
                    yield Refusal(finding.rule.id, f"the table would break a rule: {finding.message}", "")
                known.add(key)
        previous = config
