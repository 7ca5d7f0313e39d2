"""`optimize` as a command: columns as they are written in a shell, what is shown, exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.support import deltacli
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder

NAMES = ("a b,c", "x.y", "plain")
NANOSECONDS = {"id": "long", "at": "timestamp"}


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    """A table clustered by columns whose names need quotes."""
    fields = [
        {"name": name, "type": "long", "nullable": True}
        | {"metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}}
        for number, name in enumerate(NAMES, 1)
    ]
    names = ["columnMapping", "clustering", "domainMetadata"]
    text = json.dumps({"clusteringColumns": [["col-2"], ["col-1"]], "domainName": "delta.clustering"})
    builder = TableBuilder().commit(
        commit_info("CREATE TABLE"),
        protocol(3, 7, reader_features=names[:1], writer_features=names),
        metadata(
            configuration={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"},
            schema_string=json.dumps({"type": "struct", "fields": fields}),
        ),
        {"domainMetadata": {"domain": "delta.clustering", "configuration": text, "removed": False}},
    )
    for name in ("one", "two"):
        out = io.BytesIO()
        pq.write_table(pa.table({f"col-{number}": [3, 1, 2] for number in (1, 2, 3)}), out)
        builder.file(name, out.getvalue())
        builder.commit(commit_info("WRITE"), add(name, size=len(out.getvalue()), records=3))
    return builder.write(tmp_path / "t")


def test_columns_are_clustered_under_their_logical_names(mapped: Path) -> None:
    done = deltacli("optimize", mapped, "--cluster", "--yes", "--json")
    again = deltacli("optimize", mapped, "--cluster", "--check")

    assert 0 == done.code
    found = json.loads(done.out)
    assert (["`x.y`", "a b,c"], [], 2) == (found["clusterBy"], found["zOrderBy"], found["files"]["removed"])
    assert (0, "all files are in this order") == (again.code, again.out.splitlines()[0].rpartition(": ")[2])


def test_files_that_were_refused_are_not_said_to_be_in_order(tmp_path: Path) -> None:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in NANOSECONDS.items()]
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [2, 1], "at": pa.array([1, 2], pa.timestamp("ns", "UTC"))}), out)
    builder = TableBuilder().file("one", out.getvalue())
    builder.commit(protocol(1, 2), metadata(schema_string=json.dumps({"type": "struct", "fields": fields})))
    builder.commit(add("one", size=len(out.getvalue()), records=2))

    done = deltacli("optimize", builder.write(tmp_path / "t"), "--zorder", "id", "--yes")

    expected = "all files are in this order, apart from files that were refused"
    assert (0, expected) == (done.code, done.out.splitlines()[0].rpartition(": ")[2])
    assert "1 file: optimize.value-not-exact" in done.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--zorder", "plain"), "--cluster"),
        (("--zorder", ","), "--zorder is empty"),
        (("--zorder", "plain", "--cluster"), "--zorder cannot be used with --cluster"),
        (("--cluster", "--purge"), "--purge cannot be used with --cluster"),
        (("--where", "plain = 1"), "supports clustering"),
        (("--temp-dir", "/tmp"), "--temp-dir is for sorting: use it with --zorder or --cluster"),
    ],
)
def test_what_does_not_go_together_ends_with_2(mapped: Path, arguments: tuple[str, ...], expected: str) -> None:
    result = deltacli("optimize", mapped, *arguments, "--yes")

    assert (2, True) == (result.code, expected in result.err)


@pytest.mark.halved
def test_names_with_commas_are_quoted(mapped: Path) -> None:
    log = mapped / "_delta_log" / f"{0:020}.json"
    kept = [line for line in log.read_text().splitlines() if "clusteringColumns" not in line]
    log.write_text("\n".join(kept).replace('"clustering", ', "").replace('"clustering",', "") + "\n")

    done = deltacli("optimize", mapped, "--zorder", "`a b,c`, PLAIN,`x.y`", "--yes", "--json")

    assert (0, ["a b,c", "plain", "`x.y`"]) == (done.code, json.loads(done.out)["zOrderBy"])
