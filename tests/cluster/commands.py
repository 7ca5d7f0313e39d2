"""Commands of deltacli in processes of their own, in the environment of the cluster."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.cluster.gates import SITE
from tests.support.material import REPOSITORY

_SECONDS = 300


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run deltacli from another directory than the sources."""
    return subprocess.run(
        _command(arguments),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=_settings(environment),
        timeout=_SECONDS,
    )


def run_changed(change: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run deltacli after some lines of Python have changed it, where executors find nothing but what is sent."""
    program = (
        f"import sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n{change}\nfrom deltacli.__main__ import main\nmain()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=_settings({"PYTHONPATH": str(SITE), **environment}),
        timeout=_SECONDS,
    )


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start deltacli in a session of its own, to which all its processes belong."""
    return subprocess.Popen(
        _command(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env=_settings(environment),
        start_new_session=True,
    )


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "deltacli", *arguments]


def _settings(environment: dict[str, str]) -> dict[str, str]:
    path = os.pathsep.join(map(str, (SITE, REPOSITORY)))
    return {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", **environment}
