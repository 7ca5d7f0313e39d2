"""Fresh environments that have deltacli and one of its extras, and nothing that only developers install."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.cli.support import ROOT, Result

_IMPORT_ALL = """
import ast, sys
from importlib import import_module
from pathlib import Path
import deltacli

root, count = Path(deltacli.__file__).parent, 0
chosen, left_out = (tuple(f"deltacli.{name}" for name in text.split(",")) for text in sys.argv[1:3])

def bring(module, names):
    found = import_module(module)
    for name in names:
        if not hasattr(found, name) and name != "*":
            import_module(f"{module}.{name}")

for path in sorted(root.rglob("*.py")):
    module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
    if not module.startswith(chosen) or (sys.argv[2] and module.startswith(left_out)):
        continue
    for node in ast.walk(ast.parse(path.read_text())):
        try:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bring(alias.name, [])
            elif isinstance(node, ast.ImportFrom):
                bring(node.module, [alias.name for alias in node.names])
            else:
                continue
        except ImportError as fault:
            print(f"{module}:{node.lineno}: {fault}", file=sys.stderr)
        count += 1
print(count)
"""
"""Executes each import statement of modules, those in functions too, and prints how many there were. Arguments:
prefixes of the names of modules below `deltacli`, and those to leave out, separated by commas.
"""


@dataclass(frozen=True)
class Installed:
    """An environment, and an empty home directory for the commands that are run in it."""

    home: Path

    def deltacli(self, *arguments: str | Path, **environment: str) -> Result:
        """Run the installed command with no other variables than the given ones."""
        return self._run("deltacli", *map(str, arguments), **environment)

    def import_all(self, prefixes: tuple[str, ...], left_out: tuple[str, ...] = ()) -> Result:
        """Execute every import of the modules whose names begin with a prefix."""
        return self._run("python", "-c", _IMPORT_ALL, ",".join(prefixes), ",".join(left_out))

    def _run(self, program: str, *arguments: str, **environment: str) -> Result:
        user = self.home / "home"
        user.mkdir(exist_ok=True)
        variables = {"HOME": str(user), "PATH": f"{self.home / 'bin'}:/usr/bin:/bin", **environment}
        command = [str(self.home / "bin" / program), *arguments]
        done = subprocess.run(command, cwd=user, env=variables, capture_output=True, text=True, check=False)
        return Result(done.returncode, done.stdout, done.stderr)


def build_wheel(place: Path) -> Path:
    """Return the wheel that `dev.py release` built, or one of this tree, built at `place`."""
    if directory := os.environ.get("DELTACLI_DIST"):
        place = Path(directory)
    else:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def install(
    wheel: Path,
    extra: str,
    home: Path,
    *others: str,
    python: str = sys.executable,
    without_index: bool = "DELTACLI_WHEELS" in os.environ,
) -> Installed:
    """Install a wheel with one extra, or with none for an empty name, and other requirements.

    Without an index, the packages that it needs are those of the directory `DELTACLI_WHEELS`, else those of the
    environment of the tests. With one, the cache of uv comes first: the index would have PySpark, which has no wheel,
    built again.
    """
    uv = str(
        Path(os.environ.get("DELTACLI_SERVER_PYTHON", sys.executable)).with_name("uv")
    )  # of the environment of dev
    subprocess.run([uv, "venv", "-q", "--no-project", "--python", python, str(home)], check=True)
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    command = [uv, "pip", "install", "-q", "--python", str(home / "bin" / "python")]
    if without_index:
        wheels = os.environ.get("DELTACLI_WHEELS")
        command += ["--no-index", "--find-links", str(wheel.parent)]
        command += ["--find-links", wheels] if wheels else ["--no-deps"]
        version = wheel.name.split("-")[1]
        subprocess.run([*command, f"deltacli[{extra}]=={version}", *others], check=True)
        if not wheels:
            (site,) = home.glob("lib/python*/site-packages")
            (site / "tests.pth").write_text(sysconfig.get_path("purelib"))
    elif subprocess.run([*command, wanted, *others, "--offline"], stderr=subprocess.DEVNULL, check=False).returncode:
        subprocess.run([*command, wanted, *others], check=True)
    return Installed(home)
