"""Which errors of a log concern readers of the newest version: `explain` asks them before it says that a client reads.

A reader begins with the newest checkpoint. What is wrong in a commit before it, or in an older checkpoint, does not
reach the reader, unless the checkpoint repeats it: a live file with a bad path, or the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.log.segment import HINT_NAME, LOG_DIRECTORY, LogFileKind, LogListing, Place, parse_log_path
from deltacli.delta.log.state import TableConfiguration, drop_null_fields
from deltacli.operations.validate.findings import Collector
from deltacli.operations.validate.inspect_log import LogInspector
from deltacli.rules.framework.base import CATALOGUE, Finding, Severity
from deltacli.rules.framework.views import MetadataView, ProtocolView, TableConfigurationView

_CHECKPOINTS = (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT)
_VIEWS_OF_CONFIGURATIONS = (MetadataView, ProtocolView, TableConfigurationView)
_TOMBSTONE = "tombstone"
"""The case of a file that is removed before the checkpoint, and is in it: what engines do was not measured."""


def find_errors_for_readers(
    errors: Sequence[Finding], inspector: LogInspector, collector: Collector, listing: LogListing
) -> tuple[Finding, ...]:
    """Return the errors that readers of the newest version meet, in their order.

    Args:
        errors: Findings of the level log that may stop readers.
        inspector: Has walked through the log.
        collector: Runs the checks of the newest protocol and metadata again. Nothing is collected.
        listing: The log as it was listed.
    """
    rules_of_configurations = {
        rule.id for view in _VIEWS_OF_CONFIGURATIONS for check in CATALOGUE.find_checks(view) for rule in check.rules
    }
    violated = _find_rules_of_newest(inspector.last_known, inspector.version, collector)
    first_read = max((checkpoint.version for checkpoint in listing.checkpoints), default=-1)

    met = list[Finding]()
    covered = list[Finding]()
    for error in errors:
        if error.rule.id in rules_of_configurations:
            # A rule may report through other views as well, about the place where the newest version has it.
            if error.rule.id in violated or not _is_covered(error.place, first_read, listing):
                met.append(error)
        elif _is_covered(error.place, first_read, listing):
            covered.append(error)
        else:
            met.append(error)
    met.extend(_find_in_checkpoint(covered, inspector))
    return tuple(met)


def _find_rules_of_newest(config: TableConfiguration, version: int, collector: Collector) -> frozenset[str]:
    """Return the rules whose errors the newest protocol and metadata have."""
    place = Place(LOG_DIRECTORY, None, version)
    views: list[object] = [TableConfigurationView(place, version, config)]
    if config.raw_metadata is not None:
        metadata = drop_null_fields(config.raw_metadata)
        views.append(MetadataView(place, version, metadata, config, None, None, {}))
    if config.raw_protocol is not None:
        views.append(ProtocolView(place, version, drop_null_fields(config.raw_protocol), config, None, None))
    found = (finding for view in views for finding in collector.findings_of(view, place))
    return frozenset(finding.rule.id for finding in found if finding.severity is Severity.ERROR)


def _is_covered(place: Place, first_read: int, listing: LogListing) -> bool:
    """Return whether readers that begin with the checkpoint of the version `first_read` do not open a file."""
    name = place.path.rsplit("/", 1)[-1]
    if name == HINT_NAME:
        return False
    path = parse_log_path(name)
    if path.kind is LogFileKind.COMMIT:
        return path.version <= first_read
    if path.kind is LogFileKind.COMPACTED_COMMIT:
        return path.last_version <= first_read
    if path.kind is LogFileKind.CHECKSUM:
        return path.version < listing.newest_version
    if path.kind in _CHECKPOINTS:
        return path.version < first_read
    return False


def _find_in_checkpoint(covered: list[Finding], inspector: LogInspector) -> Iterator[Finding]:
    """Yield errors about files of covered commits that the checkpoint repeats, because they are live or tombstones."""
    by_path = [finding for finding in covered if finding.place.key]
    if not by_path:
        return
    keys = pa.array(sorted({finding.place.key for finding in by_path if finding.place.key}), pa.string())
    live_paths = inspector.files.live_columns().column("path")
    live = set(pc.filter(live_paths, pc.is_in(live_paths, value_set=keys)).to_pylist())
    tombstones = {remove.get("path") for remove in inspector.files.tombstones()}
    for finding in by_path:
        if finding.place.key in live:
            yield finding
        elif finding.place.key in tombstones:
            yield finding._replace(cases=(_TOMBSTONE,))
