"""The stores and tables of `fleet`: opened by several threads, with one limit of requests per second and host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from deltacli.cli.options.run import Run

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.options.stores import Stores
    from deltacli.fleet.running.cluster import FleetCluster
    from deltacli.storage import Storage


@dataclass(frozen=True, slots=True)
class FleetStores:
    """Opens stores with the options of a run, and tables without progress of their own."""

    run: Run
    stores: Stores

    @classmethod
    def of(cls, run: Run, calls_per_second: int | None) -> Self:
        """Return the stores of a run. Their requests to each host are limited to a rate, if one is given."""
        return cls(run, run.make_stores(calls_per_second))

    def open(self, uri: str) -> Storage:
        """Open the store of anything. Raises what `Stores.open` raises."""
        return self.stores.open(uri)

    def open_table(self, name: str) -> Table:
        """Open a table. Raises UsageError."""
        from deltacli.api.table import Table
        from deltacli.operations.table.find_log import require_delta

        storage = self.stores.open(name)
        if self.run.table_format is None:
            require_delta(storage)
        return Table(
            storage,
            engine=self.run.engine,
            clock=self.run.clock,
            open_other=self.stores.open,
            allowed=self.run.allowed,
            name=name,
            location=self.run.location_of(storage) if self.run.engine.may_repeat else None,
        )

    def cluster(self, jobs: int) -> FleetCluster | None:
        """Return how the engine of the run works on many tables; None for an engine of this process."""
        if not self.run.engine.may_repeat:
            return None
        from deltacli.fleet.running.cluster import FleetCluster

        return FleetCluster(
            self.run.engine, lambda name: self.open_table(name).stores, self.is_sent, self.run.clock, jobs
        )

    def is_sent(self, name: str) -> bool:
        """Return True for a table that executors may open: their requests cannot be limited to a rate."""
        return self.stores.calls_per_second is None or "://" not in name
