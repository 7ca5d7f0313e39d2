"""What tests read that is not in the repository: directories of `shared` next to it, or of a variable each.

Whoever needs one asks it for its directory. Where that does not exist, the test that asks is skipped, or the module
that asks while it is imported, and the run says so at its end. A variable that names no directory hides the material.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]


class Material(NamedTuple):
    """A directory with something that tests read."""

    title: str
    folder: str
    variable: str

    @property
    def home(self) -> Path:
        """The directory, which need not exist."""
        named = os.environ.get(self.variable)
        return Path(named) if named else REPOSITORY.parent / "shared" / self.folder

    @property
    def absence(self) -> str:
        """Why tests are skipped where the directory does not exist."""
        return f"no {self.title} at {self.home} ({self.variable} can name another directory)"

    def require(self) -> Path:
        """Return the directory, or skip the test, or the module that is being imported."""
        if not self.home.is_dir():
            pytest.skip(self.absence, allow_module_level=True)
        return self.home


CORPUS = Material("corpus of Delta tables", "corpus", "DELTACLI_CORPUS")
PAIMON_CORPUS = Material("corpus of Paimon tables", "corpus-paimon", "DELTACLI_PAIMON_CORPUS")
REFERENCE = Material("reference of the protocol", "reference", "DELTACLI_REFERENCE")
FIELD = Material("builders of reported tables", "field", "DELTACLI_FIELD")
MATERIALS = (CORPUS, PAIMON_CORPUS, REFERENCE, FIELD)


class Skips:
    """A plugin of pytest that prints at the end of a run what was skipped for lack of material."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: set[tuple[str, str]] = set()  # an id of a test or a file, and why it was skipped

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._record(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._record(report)

    def _record(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._found.add((report.nodeid, report.longrepr[2].removeprefix("Skipped: ")))

    def pytest_sessionfinish(self) -> None:
        """Let a worker of xdist send what it has found: no other message has the files that it did not import."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["skips"] = sorted(self._found)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # Any: a worker of xdist
        self._found |= set(map(tuple, getattr(node, "workeroutput", {}).get("skips", ())))

    @pytest.hookimpl(trylast=True)  # below the slowest tests
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for material in MATERIALS:
            names = [name for name, reason in self._found if reason == material.absence]
            tests = sum("::" in name for name in names)
            if names:
                files = f"{len(names) - tests} files and " if tests < len(names) else ""
                terminalreporter.write_line(f"skipped {files}{tests} tests: {material.absence}")
