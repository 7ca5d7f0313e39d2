"""Checkpoints as checks see them, made without a file."""

from __future__ import annotations

from typing import Any

from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import CheckpointInstance, make_log_file
from deltacli.delta.log.state import TableConfiguration
from deltacli.operations.validate.log_reader import next_config
from deltacli.rules.framework.base import CATALOGUE, Finding
from deltacli.rules.framework.views import CheckpointView, ExpectedState, LocatedAction, Totals
from tests.rules.table_builder import NOW_MS, TableBuilder

LEGACY: Action = {"minReaderVersion": 1, "minWriterVersion": 2}
NAME = "00000000000000000002.checkpoint.parquet"
UUID_NAME = "00000000000000000002.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
PATH = f"_delta_log/{NAME}"
SIDECAR = "_delta_log/_sidecars/s.parquet"


def features(*names: str) -> Action:
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(names),
        "writerFeatures": list(names),
    }


def config_of(protocol: Action = LEGACY, schema: Action | None = None, **properties: Any) -> TableConfiguration:
    """A regime; properties are those of `delta.`, with `_` for a point."""
    table = TableBuilder(protocol=protocol, schema=schema)
    table.metadata["configuration"] = {f"delta.{name.replace('_', '.')}": text for name, text in properties.items()}
    return next_config(
        TableConfiguration(),
        [LocatedAction("protocol", table.protocol, 1), LocatedAction("metaData", table.metadata, 2)],
        0,
    )


def state(config: TableConfiguration, **fields: Any) -> ExpectedState:
    others: dict[str, Any] = {"transactions": {}, "domains": {}} | fields
    return ExpectedState(
        2, config, totals=Totals(0, 0, 0, 0), live=lambda: iter(()), tombstones=lambda _: iter(()), **others
    )


def opened(
    *small: tuple[str, Action], config: TableConfiguration | None = None, name: str = NAME, **fields: Any
) -> CheckpointView:
    """A checkpoint with these small actions besides its protocol and metadata; those of a sidecar have its path as
    `file`.
    """
    config = config or config_of()
    rows = [
        (kind, {key: value for key, value in row.items() if key != "file"}, row.get("file", PATH))
        for kind, row in small
    ]
    both = [("protocol", config.raw_protocol or {}, PATH), ("metaData", config.raw_metadata or {}, PATH)]
    instance = CheckpointInstance(2, make_log_file(name, 1, 0).path.kind, (make_log_file(name, 1, 0),))
    others: dict[str, Any] = {
        "schemas": {},
        "file_sizes": {},
        "rows": {},
        "counts": {},
        "inline_file_actions": 0,
        "missing_sidecars": [],
        "expected": None,
        "modified_ms": NOW_MS,
        "now_ms": NOW_MS,
    }
    return CheckpointView(instance, 2, small=[*both, *rows], config=config, **others | fields)


def found_in(view: CheckpointView) -> list[Finding]:
    return [
        finding
        for check in CATALOGUE.find_checks(CheckpointView)
        if check.rules[0].id.startswith(("checkpoint.", "sidecar."))
        for finding in check.run(view)
    ]


def told(view: CheckpointView) -> list[tuple[str, str | None, str | None]]:
    return [(finding.rule.id.partition(".")[2], finding.seen, finding.expected) for finding in found_in(view)]


def rules(view: CheckpointView) -> list[str]:
    return [rule for rule, _, _ in told(view)]
