"""The engine that does the work of a command: threads of this process, or executors of a Spark cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deltacli.cli.terminal.signals import before_exit

if TYPE_CHECKING:
    from deltacli.core.progress import Progress
    from deltacli.engine.base import Engine
    from deltacli.engine.spark.session import SparkSettings


@dataclass(frozen=True)
class EngineSource:
    """Opens the engine of a run on first use.

    Attributes:
        can_use_cluster: Whether the command can run on a cluster. If an operation takes long, it suggests one.
        cluster: The cluster that does the work. None: this process does the work.
    """

    can_use_cluster: bool = False
    cluster: SparkSettings | None = None
    _opened: list[Engine] = field(default_factory=list)

    def get(self, progress: Progress) -> Engine:
        """Return the engine. The first call opens it.

        Args:
            progress: Receives the progress of opening a cluster.

        Raises:
            DeltacliError: If the cluster cannot be opened.
        """
        if not self._opened:
            engine = self._open(progress)
            self._opened.append(engine)
            before_exit.append(engine.abandon)
        return self._opened[0]

    def _open(self, progress: Progress) -> Engine:
        if self.cluster is not None:
            from deltacli.engine.spark.engine import open_engine

            return open_engine(self.cluster, progress)
        from deltacli.engine.embedded import EmbeddedEngine

        return EmbeddedEngine()

    def disable_cluster_advice(self) -> EngineSource:
        """Return a copy that never suggests a cluster, for work on many small tables."""
        return replace(self, can_use_cluster=False)

    def close(self) -> None:
        """Close the engine, such as the session of a cluster."""
        while self._opened:
            engine = self._opened.pop()
            before_exit.remove(engine.abandon)
            engine.close()
