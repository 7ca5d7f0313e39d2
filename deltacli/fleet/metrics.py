"""The status of a fleet as metrics in the OpenMetrics text format, which node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from deltacli.fleet.status import FleetStatus, TableStatus
from deltacli.fleet.thresholds import State

_PREFIX = "deltacli_fleet"
_TABLE_NUMBERS: Mapping[str, tuple[str, str]] = {
    "logBytes": ("log_bytes", "Bytes of the log of a table."),
    "logFiles": ("log_files", "Files of the log of a table."),
    "commitsBehind": ("commits_behind", "Commits since the newest checkpoint of a table."),
    "liveFiles": ("live_files", "Data files of a table."),
    "liveBytes": ("live_bytes", "Bytes of the data files of a table."),
    "rows": ("rows", "Rows of a table, where all statistics have them."),
    "smallFiles": ("small_files", "Data files of a table below 16 MiB."),
    "tombstones": ("tombstones", "Tombstones in the newest checkpoint of a table."),
    "findings": ("findings", "Findings of the last validation of a table, of any severity."),
    "errors": ("errors", "Errors that the last validation of a table found."),
}

Sample = tuple[Mapping[str, str], float]


def fleet_metrics(status: FleetStatus) -> str:
    """Return all metrics. Times are seconds since the epoch."""
    parts = [*_of_run(status), *_of_tables(status.tables), "# EOF\n"]
    return "".join(parts)


def _of_run(status: FleetStatus) -> Iterator[str]:
    yield _gauge("tables", "Tables that the journal has.", [({}, len(status.tables))])
    yield _gauge("alerts", "Tables with an alert.", [({}, status.alerted)])
    yield _gauge("status", "Exit code of fleet status.", [({}, status.exit_code)])
    newest = status.newest
    if newest is not None:
        yield _gauge("run_started_seconds", "Start of the newest run.", [({}, newest.started_ms / 1_000)])
        if newest.finished_ms is not None:
            yield _gauge("run_finished_seconds", "End of the newest run.", [({}, newest.finished_ms / 1_000)])


def _of_tables(tables: Iterable[TableStatus]) -> Iterator[str]:
    tables = list(tables)
    yield _gauge("table_alerts", "Alerts of a table.", [(_labels(table), len(table.alerts)) for table in tables])
    steps = [(table, step) for table in tables for step in table.steps.values()]
    yield _gauge(
        "step_exit_code",
        "Exit code of the last step of a kind.",
        [({**_labels(table), "step": step.kind}, step.exit_code) for table, step in steps],
    )
    yield _gauge(
        "step_succeeded_seconds",
        "Time of the last step of a kind that succeeded.",
        [
            ({**_labels(table), "step": step.kind}, step.succeeded_ms / 1_000)
            for table, step in steps
            if step.succeeded_ms is not None
        ],
    )
    judged = [(table, one) for table in tables for one in table.judgements if one.state is not State.UNKNOWN]
    yield _gauge(
        "threshold_exceeded",
        "1 where a threshold of a policy is exceeded, else 0; unknown ones are missing.",
        [({**_labels(table), "threshold": one.threshold}, one.state is State.EXCEEDED) for table, one in judged],
    )
    for series, (name, text) in _TABLE_NUMBERS.items():
        samples = [(_labels(table), table.numbers[series]) for table in tables if series in table.numbers]
        yield _gauge(name, text, samples)


def _labels(table: TableStatus) -> dict[str, str]:
    return {"table": table.shown_name, "group": table.group}


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> str:
    """Return a family of gauges; nothing where it has no samples."""
    lines = [f"{_PREFIX}_{name}{_written(labels)} {_number(value)}\n" for labels, value in samples]
    if not lines:
        return ""
    return f"# TYPE {_PREFIX}_{name} gauge\n# HELP {_PREFIX}_{name} {text}\n{''.join(lines)}"


def _written(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text.encode("utf-8", "replace").decode()


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
