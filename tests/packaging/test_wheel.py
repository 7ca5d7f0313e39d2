"""What an installation puts in place."""

from __future__ import annotations

import zipfile
from pathlib import Path

from deltacli import __version__
from deltacli.cli.described_commands import describe_commands
from deltacli.cli.documentation import PAGES
from tests.cli.support import ROOT

PLACES = {
    "completions/deltacli.bash": "share/bash-completion/completions/deltacli",
    "completions/_deltacli": "share/zsh/site-functions/_deltacli",
    "completions/deltacli.fish": "share/fish/vendor_completions.d/deltacli.fish",
}
HELP = {
    **{f"docs/{page}": f"deltacli/docs/{page}" for page in PAGES},
    **{f"docs/schemas/{path.name}": f"deltacli/docs/schemas/{path.name}" for path in (ROOT / "docs/schemas").iterdir()},
}


def test_the_wheel_brings_completions_help_and_manual_pages(wheel: Path) -> None:
    pages = ["deltacli", *(f"deltacli-{command.name.replace(' ', '-')}" for command in describe_commands())]
    expected = PLACES | {f"docs/man/{page}.1": f"share/man/man1/{page}.1" for page in pages}

    data = f"deltacli-{__version__}.data/data/"
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.removeprefix(data): archive.read(name) for name in archive.namelist() if name.startswith(data)}
        documentation = {name for name in archive.namelist() if name.startswith("deltacli/docs/")}
        helped = {place: archive.read(place) for place in HELP.values()}
        scripts = {source: archive.read(f"deltacli/cli/{source}") for source in PLACES}

    assert {place: (ROOT / source).read_bytes() for source, place in expected.items()} == packed
    assert {source: (ROOT / source).read_bytes() for source in PLACES} == scripts
    assert {place: (ROOT / source).read_bytes() for source, place in HELP.items()} == helped
    assert {*HELP.values()} == documentation
