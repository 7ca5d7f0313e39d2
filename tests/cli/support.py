"""Running the real command line."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # Any: JSON
        return json.loads(self.out)

    @property
    def error(self) -> Any:  # Any: JSON
        return json.loads(self.err.splitlines()[-1])


def deltacli(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Result:
    """Run the command line in a process of its own, stdout and stderr through pipes."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DELTACLI_")}
    done = subprocess.run(
        [sys.executable, "-m", "deltacli", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        env={**settings, "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def make_sample(root: Path, *, damaged: bool = False) -> Path:
    """Make the sample table of examples/ in `root` and return it."""
    spec = importlib.util.spec_from_file_location("make_sample", ROOT / "examples" / "make_sample.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(root)
    if damaged:
        module.damage(root)
    return root
