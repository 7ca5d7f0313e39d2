"""`doctor storage`: what the store of a table guarantees, by probes on scratch files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deltacli.clock import Clock
from deltacli.errors import NotATable, StorageFailed
from deltacli.operations.doctor import findings as found
from deltacli.operations.doctor.findings import Severity, StoreFinding, fails
from deltacli.operations.doctor.probes import PROBES, Bench, Outcome, Probe, ProbeResult
from deltacli.operations.doctor.scratch import PREFIX
from deltacli.progress import SILENT, Progress, reported
from deltacli.storage import PathKind, Storage
from deltacli.storage.probing.subject import Subject
from deltacli.typing import Json


@dataclass
class StorageReport:
    """The results of the probes, in their order."""

    table: str
    store: str
    endpoint: str
    results: list[tuple[Probe, ProbeResult]] = field(default_factory=list)
    findings: list[StoreFinding] = field(default_factory=list)
    scratch: str = PREFIX
    left: list[str] = field(default_factory=list)
    clock_skew_ms: int | None = None
    dry_run: bool = False

    @property
    def has_failed(self) -> bool:
        """Return True where the exit code is that of findings."""
        return fails(self.findings)

    @property
    def is_complete(self) -> bool:
        """Return True where every probe had a usable answer."""
        return all(result.outcome is not Outcome.INCONCLUSIVE for _, result in self.results)

    def as_json(self) -> dict[str, Json]:
        fields: dict[str, Any] = {"store": self.store}
        fields |= {"endpoint": self.endpoint} if self.endpoint else {}
        skew = {} if self.dry_run else {"clockSkewMs": self.clock_skew_ms}
        return {
            **fields,
            "scratch": {"prefix": self.scratch, "left": self.left},
            **skew,
            "findings": [finding.as_json() for finding in self.findings],
            "dryRun": self.dry_run,
        }

    def probes(self) -> list[dict[str, str]]:
        """Return the probes as JSON objects."""
        return [
            {
                "probe": probe.name,
                "what": probe.what,
                "expected": probe.expected,
                "outcome": result.outcome,
                **({"seen": result.seen} if result.seen else {}),
                **({"finding": result.finding.code} if result.finding else {}),
            }
            for probe, result in self.results
        ]


def plan_probes(table: str, subject: Subject) -> StorageReport:
    """Return the probes that would be run."""
    planned = [(probe, ProbeResult(Outcome.PLANNED, "")) for probe in PROBES]
    return StorageReport(table, subject.kind, subject.endpoint, planned, dry_run=True)


def probe_storage(table: str, subject: Subject, clock: Clock, progress: Progress = SILENT) -> StorageReport:
    """Run the probes on scratch files, and delete these, also where a probe raises.

    Raises StorageFailed where the store cannot be reached.
    """
    bench = Bench(subject, clock)
    report = StorageReport(table, subject.kind, subject.endpoint, scratch=bench.scratch.prefix)
    try:
        for probe in reported(iter(PROBES), progress, "probing the store", unit="probes", every=1):
            result = _run(probe, bench)
            report.results.append((probe, result))
            if probe.name == "create" and result.outcome is Outcome.FAILED:
                break  # nothing else can be probed where nothing can be written
    finally:
        report.left = bench.scratch.clear(subject)
    report.clock_skew_ms = bench.clock_skew_ms
    by_code = {result.finding.code: result.finding for _, result in reversed(report.results) if result.finding}
    report.findings = sorted(by_code.values(), key=lambda finding: list(Severity).index(finding.severity))
    if report.left:
        message = f"{len(report.left)} scratch files may be left: {report.left[0]}"
        next_step = f"delete the files whose names begin with {bench.scratch.prefix}"
        report.findings.append(StoreFinding(found.LEFT, Severity.WARNING, message, next_step))
    return report


def _run(probe: Probe, bench: Bench) -> ProbeResult:
    """Return the result of a probe. A fault after the first probe is one of this probe only."""
    try:
        return probe.run(bench)
    except StorageFailed as fault:
        if probe.name == "create":
            raise
        return ProbeResult(Outcome.INCONCLUSIVE, fault.facts.get("store says", fault.message))


def require_directory(storage: Storage) -> None:
    """Raise NotATable where nothing is there, because scratch files are written only next to other files."""
    if storage.kind_of("") is not PathKind.DIRECTORY:
        raise NotATable("no such directory", code="table.path-missing", facts={"path": storage.uri})
