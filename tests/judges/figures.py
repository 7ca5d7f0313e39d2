"""How much a run of the judges has tried. The figures are printed at the end of the run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

FIGURES = Counter[str]()
"""What the tests of this process have counted: tables, commands, statements, comparisons, restarts, differences."""

ORDER = ("tables", "commands", "statements", "comparisons", "restarts", "differences")


class FiguresPlugin:
    """Adds up the figures of all workers of pytest-xdist and prints them in one line."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_sessionfinish(self) -> None:
        """Send the figures of a worker to the process that prints them."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["figures"] = dict(FIGURES)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # Any: a worker of xdist
        """Add the figures of a worker that has ended."""
        FIGURES.update(getattr(node, "workeroutput", {}).get("figures", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the figures below the results."""
        if FIGURES:
            names = [*ORDER, *sorted(set(FIGURES) - set(ORDER))]
            counts = ", ".join(f"{FIGURES[name]:,} {name}" for name in names if FIGURES[name] or name == "differences")
            terminalreporter.write_line(f"judged: {counts}")
