"""`diff` on the command line; the sample table has 15 versions."""

from __future__ import annotations

import json
import shutil
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.cli.terminal.characters import count_cells
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.operations import diff as files
from tests.cli.support import Result, deltacli
from tests.cli.test_terminal import ESCAPE, on_terminal
from tests.docs.test_schemas import faults, line_faults
from tests.support.actions import add, deletion_vector, domain, metadata, protocol, remove
from tests.support.builder import TableBuilder

Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def diff(home: Path, *arguments: str) -> Result:
    return deltacli("diff", *arguments, cwd=home)


def column(name: str, kind: object, **more: object) -> Json:
    return {"name": name, "type": kind, "nullable": True, "metadata": more}


def schema(*columns: Json) -> str:
    return json.dumps({"type": "struct", "fields": columns})


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A table of which version 1 changes everything that `diff` compares."""
    features = {"reader_features": ["deletionVectors"], "writer_features": ["deletionVectors", "domainMetadata"]}
    before = schema(column("a", "integer"), column("b", "string"), column("g", "long"))
    made = {"delta.generationExpression": "a + 1"}
    after = schema(column("a", "long"), column("g", "long", **made), column("c", "date", comment="new"))
    vectors = (deletion_vector(rows=2), deletion_vector("zb^-aqEH.-t@S}K{vb[*k^", rows=5))
    builder = TableBuilder()
    builder.commit(
        protocol(),
        metadata(schema_string=before, configuration={"k": "1", "gone": "x"}),
        add("same.parquet", size=5, records=5),
        add("vector.parquet", size=10, records=10, vector=vectors[0]),
        add("gone.parquet", size=100, records=7),
    )
    builder.commit(
        protocol(3, 7, **features),
        metadata(schema_string=after, configuration={"k": "2", "new": "y"}, name="named", partition_columns=["c"]),
        domain("app", '{"x":1}'),
        remove("gone.parquet"),
        remove("vector.parquet", vector=vectors[0]),
        add("vector.parquet", size=10, records=10, vector=vectors[1]),
        add("new.parquet", size=1000),
    )
    return builder.write(tmp_path / "changed")


def test_everything_that_differs_is_shown(changed: Path) -> None:
    done = diff(changed.parent, "changed", "0", "1")

    assert (1, "") == (done.code, done.err)
    assert [
        "schema      - b STRING",
        "            ~ type a INT -> BIGINT",
        "            + c DATE",
        "            ~ g delta.generationExpression: (not set) -> a + 1",
        "partitions  ~ none -> c",
        "properties  - gone = x",
        "            ~ k: 1 -> 2",
        "            + new = y",
        "protocol    ~ minReaderVersion: 1 -> 3",
        "            ~ minWriterVersion: 2 -> 7",
        "            - appendOnly",
        "            + deletionVectors",
        "            + domainMetadata",
        "            - invariants",
        'domains     + app = {"x":1}',
        "metadata    + name = named",
        "files       + 1 file added, 1,000 B, unknown rows",
        "            - 1 file removed, 100 B, 7 rows",
        "            ~ 1 file with another deletion vector, 10 B, 5 rows",
        "size        115 B -> 1,015 B (+900 B)",
        "rows        unknown: files without a record count",
    ] == done.out.splitlines()[3:]


def test_the_document_and_the_line_match_their_schemas(changed: Path) -> None:
    done = diff(changed.parent, "changed", "0", "1", "--json")
    line, end = map(json.loads, diff(changed.parent, "changed", "0", "1", "--format", "ndjson").out.splitlines())

    found = done.document
    assert [] == faults(found, "deltacli.diff") + line_faults(line)
    assert {"type": "end", "complete": True, "count": 1} == end
    assert {"from": 3, "to": 3, "added": 1, "removed": 1, "changed": 1} == found["files"]
    assert {"from": 20, "to": None, "added": None, "removed": 7, "deletedByVectors": 3} == found["rows"]
    backwards = diff(changed.parent, "changed", "1", "0", "--json").document
    assert (1, -3) == (backwards["files"]["removed"], backwards["rows"]["deletedByVectors"])


def test_csv_lists_the_files_that_differ(changed: Path) -> None:
    done = diff(changed.parent, "changed", "0", "--format", "csv")

    assert [
        "path,change,kind,sizeBytes",
        "new.parquet,add,data,1000",
        "gone.parquet,remove,data,100",
        "vector.parquet,change,data,10",
    ] == done.out.splitlines()


def test_rows_are_compared_by_key(home: Path) -> None:
    done = diff(home, "tbl", "3", "7", "--rows", "--key", "trip", "--json")
    listed = diff(home, "tbl", "3", "7", "--rows", "--key", "trip", "--format", "csv").out.splitlines()
    lines = diff(home, "tbl", "3", "7", "--rows", "--key", "trip").out.splitlines()
    same = diff(home, "tbl", "tbl", "--from", "4", "--to", "4", "--rows", "--key", "trip,day")

    found = done.document
    assert [] == faults(found, "deltacli.diff")
    by_key = {"key": ["trip"], "added": 240, "removed": 0, "changed": 1, "unchanged": 779, "repeatedKeys": 0}
    assert {**by_key, "columns": {"ride": 1}, "notCompared": []} == found["byKey"]
    assert ("change,rowsFrom,rowsTo,columns,trip", 242) == (listed[0], len(listed))
    assert "by trip     + 240 keys added" in lines
    assert (0, True) == (same.code, "780 keys with the same values" in same.out)


def test_points_are_numbers_times_dates_and_other_tables(home: Path) -> None:
    shutil.copytree(home / "tbl", home / "3")
    by_time = diff(home, "tbl", "2026-01-02", "2026-01-02T13:00:00Z", "--json").document
    copies = [diff(home, "tbl", "./3"), diff(home, "tbl", "./3", "--from", "4", "--to", "version:4")]
    other = diff(home, "tbl", "./3", "--from", "3", "--json").document

    assert (3, 7) == (by_time["from"]["version"], by_time["to"]["version"])
    assert [0, 0] == [one.code for one in copies]
    assert ((3, 14), 18) == ((other["from"]["version"], other["to"]["version"]), other["files"]["added"])
    with pytest.raises(UsageError, match="compared with itself"):
        open_table(home / "tbl").diff()
    same = diff(home, "tbl", "3", "3", "--json")
    assert (0, {"added": 0, "removed": 0, "changed": 0}) == (
        same.code,
        {name: same.document["files"][name] for name in ("added", "removed", "changed")},
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("99",), 3, "version 99 does not exist; the newest is 14"),
        (("3", "x"), 2, "V2 'x' is not a version"),
        (("x", "3"), 2, "V1 'x' is not a version"),
        (("9" * 19,), 2, "is not a version"),
        (("2026-13-01",), 2, "'2026-13-01' is not a timestamp"),
        (("3", "--to", "4"), 2, "--from and --to are versions of two tables"),
        (("3", "--rows"), 2, "--rows compares rows by a key"),
        (("3", "--key", "trip"), 2, "--key is for --rows"),
        (("3", "--rows", "--key", "trp"), 2, "did you mean  trip"),
        (("3", "--rows", "--key", "ride"), 2, "column ride cannot be a key"),
        (("nothing",), 3, "no such file or directory"),
        ((), 2, "V1|OTHER"),
    ],
)
def test_bad_input_is_named(home: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = diff(home, "tbl", *words)

    assert code == done.code, done.err
    assert said in done.err


@pytest.mark.parametrize(
    ("lost", "rows", "hint"),
    [
        ("_delta_log/*0.*", (), "undelete other --from COPY"),
        ("day=*/*.parquet", ("--rows", "--key", "trip"), "validate other --level storage"),
    ],
)
def test_errors_name_the_table_that_lacks_files(home: Path, lost: str, rows: tuple[str, ...], hint: str) -> None:
    other = home / "other"
    shutil.copytree(home / "tbl", other)
    for file in other.glob(lost):
        file.unlink()

    lines = diff(home, "tbl", "other", *rows).err.splitlines()
    document = json.loads(diff(home, "tbl", "other", *rows, "--json").err)
    with pytest.raises(DeltacliError) as fault:
        open_table(home / "tbl").diff(other=open_table(other), rows=bool(rows), key=rows[2:]).as_json()

    assert ("error: other: ", f"hint: deltacli {hint}") == (lines[0][:14], lines[-1])
    assert ("other", f"deltacli {hint}") == (document["table"], document["hint"])
    assert (str(other), True) == (fault.value.table, str(other) in str(fault.value.hint))


def test_a_clone_has_the_files_of_its_origin(home: Path) -> None:
    log = home / "clone" / "_delta_log"
    log.mkdir(parents=True)
    table = open_table(home / "tbl")
    found = table.snapshot()
    adds = [row for batch in found.files() for row in batch.select(["path", "size", "stats"]).to_pylist()]
    lines = [{"protocol": found.raw_protocol}, {"metaData": found.raw_metadata}]
    lines += [
        {"add": {**one, "path": f"{table.uri}/{one['path']}", "partitionValues": {}, "dataChange": True}}
        for one in adds
    ]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert 0 == diff(home, "tbl", "clone").code


def test_it_fits_a_narrow_screen(changed: Path) -> None:
    for width in (80, 40):
        code, lines = on_terminal(width, "diff", changed, "0")

        assert 1 == code
        assert any("BIGINT" in line for line in lines)
        shown = [ESCAPE.sub("", line) for line in lines]
        result = takewhile(lambda line: not line.startswith("next: "), shown)  # a command is not broken within words
        assert all(count_cells(line) <= width for line in result)


def test_a_checkpoint_with_sidecars_is_not_read_where_the_commits_are_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    v2 = {"reader_features": ["v2Checkpoint"], "writer_features": ["v2Checkpoint"]}
    builder = TableBuilder().commit(
        protocol(3, 7, **v2),
        metadata(configuration={"delta.checkpointPolicy": "v2"}),
        *(add(f"{number}.parquet", size=1, records=1) for number in range(5_000)),
    )
    table = open_table(builder.write(tmp_path / "tbl"))
    table.checkpoint()
    actions = [
        one for number in range(300) for one in (add(f"new-{number}.parquet", size=2), remove(f"{number}.parquet"))
    ]
    table = open_table(builder.commit(*actions).write(tmp_path / "tbl"))
    table.checkpoint()
    compared, by_commits = list[Any](), files._compare_commits  # Any: what was compared

    def spy(*sides: Any) -> Any:
        compared.append(sides)
        return by_commits(*sides)

    monkeypatch.setattr(files, "_compare_commits", spy)

    found = table.diff(from_version=0, to_version=1).as_json()["files"]

    assert table.snapshot().sidecars > 0
    assert (1, {"from": 5_000, "to": 5_000, "added": 300, "removed": 300, "changed": 0}) == (len(compared), found)


def test_a_paimon_table_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "p" / "schema").mkdir(parents=True)
    (tmp_path / "p" / "schema" / "schema-0").write_text("{}")

    done = diff(tmp_path, "p", "0")

    assert 3 >= done.code >= 2
    assert "deltacli schema diff p --from schema:N" in done.err


STRING, GENERATED = column("a", "string"), column("a", "string", **{"delta.generationExpression": "b + 1"})
NESTED = {"type": "struct", "fields": [column("x", "interval day to second")]}


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (STRING, column("a", "void"), "type a STRING -> VOID"),
        (STRING, column("a", "interval year to month"), "type a STRING -> INTERVAL YEAR TO MONTH"),
        (STRING, column("a", "geometry(OGC:CRS84)"), "type a STRING -> GEOMETRY(OGC:CRS84)"),
        (column("a", "timestamp"), column("a", "timestamp_nanos"), "type a TIMESTAMP -> TIMESTAMP_NANOS"),
        (column("a", "binary"), column("a", "unheard_of"), "type a BINARY -> UNHEARD_OF"),
        (column("a", "decimal(3,1)"), column("a", "decimal(4,1)"), "type a DECIMAL(3,1) -> DECIMAL(4,1)"),
        (
            STRING,
            column("a", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(5)"),
            "type a STRING -> VARCHAR(5)",
        ),
        (column("a", NESTED), column("a", {**NESTED, "fields": [STRING]}), "drop a.x INTERVAL DAY TO SECOND"),
        (
            column("a", {"type": "array", "elementType": "void", "containsNull": True}),
            column("a", {"type": "array", "elementType": "string", "containsNull": True}),
            "type a.element VOID -> STRING",
        ),
        (
            column("a", {"type": "array", "elementType": "date", "containsNull": True}),
            column("a", {"type": "array", "elementType": "date", "containsNull": False}),
            "not null a.element",
        ),
        (STRING, GENERATED, "a delta.generationExpression: (not set) -> b + 1"),
        (
            STRING,
            column("a", "string", **{"delta.invariants": '{"expression":{"expression":"a > 1"}}'}),
            'a delta.invariants: (not set) -> {"expression":{"expression":"a > 1"}}',
        ),
        (
            column("a", "string", __COLLATIONS={"a": "ICU.en_US"}),
            column("a", "string", __COLLATIONS={"a": "ICU.de_DE"}),
            'a __COLLATIONS: {"a":"ICU.en_US"} -> {"a":"ICU.de_DE"}',
        ),
        (
            column("a", "string", CURRENT_DEFAULT="f(1)"),
            column("a", "string", CURRENT_DEFAULT="f(2)"),
            "default a = f(2)",
        ),
        (column("a", "string", **{"delta.identity.step": 1}), STRING, "a delta.identity.step: 1 -> (not set)"),
    ],
)
def test_delta_schemas_are_compared_in_deltas_own_types(old: Json, new: Json, shown: str, tmp_path: Path) -> None:
    builder = TableBuilder().commit(protocol(), metadata(schema_string=schema(old, column("b", "long"))))
    builder.commit(metadata(schema_string=schema(new, column("b", "long"))))
    table = builder.write(tmp_path / "t")
    other = TableBuilder().commit(protocol(), metadata(schema_string=schema(new, column("b", "long"))))
    other.write(tmp_path / "other")

    versions = deltacli("schema", "diff", table, "--from", "version:0")
    tables = deltacli("schema", "diff", "t", "other", "--from", "version:0", "--json", cwd=tmp_path)
    both = diff(tmp_path, "t", "0", "1")
    equal = deltacli("schema", "diff", "t", "other", cwd=tmp_path)

    assert (1, 1, 1, 0) == (versions.code, tables.code, both.code, equal.code)
    assert shown in versions.out
    assert [] == faults(tables.document, "deltacli.schema-diff")
    assert shown.partition(" ")[2] in both.out
