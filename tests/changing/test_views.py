"""What other engines keep beside the log: each plan that commits says that it is not updated, and a vacuum keeps what a
manifest names.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.changing.change import plan_change
from deltacli.changing.views import read_paths_in_manifests
from deltacli.cli.app import run
from deltacli.core.errors import PermissionRefused
from deltacli.operations.change.append import Append
from deltacli.operations.change.properties_and_features import PropertiesChange, PropertyEdits
from deltacli.operations.vacuum.explain import explain_file
from deltacli.operations.vacuum.full_plan import VacuumChange
from deltacli.operations.vacuum.plan import Mode, VacuumRequest
from deltacli.storage import open_storage
from tests.docs.test_schemas import faults, line_faults
from tests.support.in_memory import MemoryStorage
from tests.support.optimizing import Ids
from tests.support.paimon_builder import ID, PaimonBuilder
from tests.support.reading import open_at

Capture = pytest.CaptureFixture[bytes]
MANIFEST = "_symlink_format_manifest/p=0/manifest"
UNIFORM = {"delta.universalFormat.enabledFormats": "iceberg"}
DAY_SECONDS = 86_400


def with_manifest(place: Path, *names: str, root: str | None = None) -> Path:
    """A table whose manifest names these files."""
    path = place / MANIFEST
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{root or place.as_uri()}/{name}\n" for name in names))
    return place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two versions of one file each, with a manifest of both."""
    table = Ids().append("a").append("b").builder.write(tmp_path / "t")
    return with_manifest(table, "a", "b")


def said(capture: Capture, *words: str) -> tuple[int, Any, list[str]]:
    """The exit code, the document and the notes of a command; Any: JSON."""
    code = run([*words, "--json"])
    out, err = (stream.decode() for stream in capture.readouterr())
    lines = [json.loads(line) for line in err.splitlines()]
    return code, json.loads(out), [line["message"] for line in lines if line["type"] == "note"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("optimize T --dry-run", "cautions"),
        ("optimize T --yes", "cautions"),
        ("optimize T --check", "cautions"),
        ("restore T --version 1 --dry-run", "notes"),
        ("restore T --version 1 --yes", "notes"),
        ("properties T set delta.dataSkippingNumIndexedCols=4 --yes", "cautions"),
        ("features T add changeDataFeed --yes", "cautions"),
        ("features T drop deletionVectors --dry-run", "cautions"),
        ("alter T add x int --dry-run", "warnings"),
        ("alter T add x int --yes", "warnings"),
    ],
)
def test_a_plan_that_commits_names_the_manifests(words: str, field: str, place: Path, capsysbinary: Capture) -> None:
    code, document, notes = said(capsysbinary, *words.replace("T", str(place), 1).split())

    texts = [one if isinstance(one, str) else one["message"] for one in document[field]]
    assert 1 == sum("Athena" in text for text in texts) == sum("Athena" in note for note in notes)
    assert ("--check" in words, []) == (code == 1, faults(document, document["kind"]))


def test_the_plan_of_an_append_names_the_manifests(place: Path) -> None:
    table = open_table(place)

    plan = plan_change(Append(table.snapshot().scan(limit=1).to_arrow().schema), table)

    assert ["Athena" in text for text in plan.base_version.warnings] == [True]


@pytest.mark.parametrize("words", ["optimize T --yes", "features T add changeDataFeed --dry-run"])
def test_lines_with_cautions_have_the_schema(words: str, place: Path, capsysbinary: Capture) -> None:
    run([*words.replace("T", str(place), 1).split(), "--format", "ndjson"])

    assert [] == [
        fault for line in capsysbinary.readouterr().out.splitlines() for fault in line_faults(json.loads(line))
    ]


def test_what_commits_nothing_says_nothing(place: Path, capsysbinary: Capture) -> None:
    _, document, notes = said(capsysbinary, "restore", str(place), "--version", "2", "--dry-run")
    assert ([], []) == (document["notes"], notes)

    assert [] == said(capsysbinary, "checkpoint", str(place))[2]


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        (UNIFORM, "Iceberg metadata"),
        ({"delta.universalFormat.enabledFormats": "hudi,iceberg"}, "Hudi and Iceberg"),
    ],
)
def test_a_property_is_enough(properties: dict[str, str], word: str) -> None:
    table = Ids(configuration=properties).append("a").table()

    (caution,) = plan_change(
        PropertiesChange(PropertyEdits({"delta.dataSkippingNumIndexedCols": "4"})), table
    ).base_version.warnings

    assert word in caution


def test_paimon_names_its_iceberg_metadata(tmp_path: Path, capsysbinary: Capture) -> None:
    place = PaimonBuilder(tmp_path / "t").schema(ID, options={"metadata.iceberg.storage": "table-location"}).root

    _, document, _ = said(capsysbinary, "alter", str(place), "add", "x", "int", "--dry-run")

    assert 1 == sum("Iceberg" in one["message"] for one in document["warnings"])


class Counted(MemoryStorage):
    """Counts what is asked of directories, and refuses to list the manifests."""

    def __init__(self, files: dict[str, tuple[bytes, int]]) -> None:
        super().__init__()
        self._files, self.asked = files, Counter[str]()

    def walk(self, directory: str, enter: Any) -> Any:  # noqa: ARG002  (Any: as the port)
        self.asked[directory] += 1
        raise PermissionRefused("denied")


def test_one_directory_is_asked_for_and_may_be_refused() -> None:
    storage = Counted(Ids().append("a").builder.in_memory()._files)

    plan = plan_change(PropertiesChange(PropertyEdits({"delta.dataSkippingNumIndexedCols": "4"})), open_at(storage))

    assert ([], {"_symlink_format_manifest": 1}) == (plan.base_version.warnings, storage.asked)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("root", [None, "dbfs:/mnt/lake/t"])
def test_a_vacuum_keeps_what_a_manifest_names(mode: Mode, root: str | None, place: Path, capsysbinary: Capture) -> None:
    assert 0 == run(["optimize", str(place), "--yes"])
    for path in (*place.rglob("*"), place):
        os.utime(path, (0, 0))
    with_manifest(place, "a", root=root)
    capsysbinary.readouterr()
    table = open_table(str(place))
    request = VacuumRequest(retention_ms=0, allow_retention_below_ms=7 * DAY_SECONDS * 1000, mode=mode)

    plan = plan_change(VacuumChange(request), table)

    assert [b"b"] == plan.candidates.column("path").to_pylist()
    assert "manifest" in explain_file(table, request, "a").why
    assert ("1 file kept" in " ".join(plan.notes)) == (mode is Mode.FULL)


def test_lines_are_read_decoded_and_encoded(tmp_path: Path) -> None:
    place = with_manifest(tmp_path / "t", "p=a b/f", "p=a%20b/g", "p=ü%/h")
    table = Table(open_storage(str(place)))

    assert {"p=a b/f", "p=a b/g", "p=a%20b/g", "p=ü%/h"} == read_paths_in_manifests(table)


def stale_manifests(place: Path) -> list[str]:
    found = open_table(place).validate(level="storage").findings
    return [finding.place.path for finding in found if finding.rule.id == "data.manifest-stale"]


@pytest.mark.parametrize("name", ["manifest", "p=0/manifest", "_p=0/manifest", ".p=0/q=1/manifest"])
def test_hidden_files_beside_manifests_are_none(name: str, tmp_path: Path) -> None:
    place = Ids(partitioned=False).append("a").builder.write(tmp_path / "t")
    path = place / "_symlink_format_manifest" / name
    path.parent.mkdir(parents=True)
    path.write_text(f"{place.as_uri()}/a\n")
    for hidden in (".manifest.crc", "_manifest", ".DS_Store"):
        (path.parent / hidden).write_bytes(b"crc\0\0\0\2\0" + f"\n{place.as_uri()}/gone\n".encode())

    assert [] == stale_manifests(place)
    assert {"a"} == read_paths_in_manifests(open_table(place))

    path.write_text(f"{place.as_uri()}/b\n")
    assert [f"_symlink_format_manifest/{name}"] == stale_manifests(place)


@pytest.mark.parametrize(
    ("names", "is_named"),
    [
        ((), False),
        ((".manifest.crc",), False),
        ((".manifest.crc", "_SUCCESS", ".DS_Store"), False),
        (("manifest",), True),
        ((".manifest.crc", "manifest"), True),
        (("p=0/manifest",), True),
        (("_p=0/.manifest.crc", "_p=0/manifest"), True),
    ],
)
def test_a_plan_names_manifests_only_if_there_may_be_some(names: tuple[str, ...], is_named: bool) -> None:
    storage = Ids().append("a").builder.in_memory()
    for name in names:
        storage.write(f"_symlink_format_manifest/{name}", b"", modified_ms=0)

    plan = plan_change(PropertiesChange(PropertyEdits({"delta.dataSkippingNumIndexedCols": "4"})), open_at(storage))

    assert is_named is any("Athena" in caution for caution in plan.base_version.warnings)


@pytest.mark.parametrize("names", [(".manifest.crc",), ("manifest",)])
def test_a_plan_on_a_disk_names_manifests_only_if_there_are_some(names: tuple[str, ...], tmp_path: Path) -> None:
    place = Ids().append("a").builder.write(tmp_path / "t")
    for name in (*names, "_SUCCESS"):
        path = place / "_symlink_format_manifest" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()

    plan = plan_change(PropertiesChange(PropertyEdits({"delta.dataSkippingNumIndexedCols": "4"})), open_table(place))

    assert ("manifest" in names) is any("Athena" in caution for caution in plan.base_version.warnings)
