"""What operators measure: counters and times of requests, in the text form of Prometheus.

With several workers, the variable PROMETHEUS_MULTIPROC_DIR names a directory in which all of them count; it must be set
before this module is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SHARED = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """All measurements of one server. Labels have bounded values: routes, status codes, names of recipients."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Answered requests.", ("route", "code", "recipient"))
        self.seconds = self._histogram("request_seconds", "the last byte of the answer")
        self.first_byte_seconds = self._histogram("first_byte_seconds", "the first byte of the answer")
        self.sent_bytes = self._counter("sent_bytes", "Bytes of answers.", ("route",))
        self.broken = self._counter("broken_answers", "Answers that ended before they were complete.", ("route",))
        self.refused = self._counter("refused_requests", "Requests that were refused, by status.", ("code",))
        self.files_listed = self._counter("files_listed", "Files of tables that were considered for an answer.")
        self.files_pruned = self._counter("files_pruned", "Files that predicate hints excluded.")
        self.cache_hits = self._counter("snapshot_cache_hits", "Snapshots that were in the cache.")
        self.cache_misses = self._counter("snapshot_cache_misses", "Snapshots that had to be read.")
        self.audit_failures = self._counter("audit_failures", "Requests that could not be recorded.")
        self.reloads = self._counter("reloads", "Reloads of the configuration or the recipients.", ("outcome",))
        self.cache_bytes = self._gauge("snapshot_cache_bytes", "Size of the snapshot cache.", mode="livesum")
        self.running = self._gauge("running_requests", "Requests that are being answered.", mode="livesum")
        self.connections = self._gauge("connections", "Open connections.", mode="livesum")
        self.closed_connections = self._counter(
            "closed_connections", "Connections that were closed or refused because of a limit.", ("reason",)
        )
        self.configuration_is_current = self._gauge(
            "configuration_current", "1 if the last reload succeeded, 0 if an older configuration is in use.", "livemin"
        )
        self.configuration_is_current.set(1)
        self._cache_seen = 0, 0

    def text(self) -> bytes:
        """Return the measurements of all workers."""
        if _SHARED not in os.environ:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

    def count_reload(self, *, is_good: bool) -> None:
        """Count a reload; after a bad one an older configuration is in use."""
        self.reloads.labels("done" if is_good else "refused").inc()
        self.configuration_is_current.set(1 if is_good else 0)

    def count_files(self, returned: int, considered: int) -> None:
        """Count the files of an answer."""
        self.files_listed.inc(considered)
        self.files_pruned.inc(max(considered - returned, 0))

    def note_cache(self, hits: int, misses: int, size_bytes: int) -> None:
        """Note how the cache of snapshots was used since the server began."""
        self.cache_hits.inc(hits - self._cache_seen[0])
        self.cache_misses.inc(misses - self._cache_seen[1])
        self._cache_seen = hits, misses
        self.cache_bytes.set(size_bytes)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a request while it is answered."""
        self.running.inc()
        try:
            yield
        finally:
            self.running.dec()

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"deltacli_share_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, end: str) -> Histogram:
        text = f"Time from the first byte of a request to {end}."
        return Histogram(f"deltacli_share_{name}", text, ("route",), buckets=_SECONDS, registry=self.registry)

    def _gauge(self, name: str, text: str, mode: str) -> Gauge:
        return Gauge(f"deltacli_share_{name}", text, registry=self.registry, multiprocess_mode=mode)  # type: ignore[arg-type]  # one of its words
