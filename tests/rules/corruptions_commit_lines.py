"""Damages of the lines of commits."""

from __future__ import annotations

import json

from tests.rules.corruptions import damage
from tests.rules.table_builder import TableBuilder

LAST = 3


def without_its_file() -> TableBuilder:
    """A table whose last commit will be torn: the file it added would be an orphan, so it is not there."""
    table = TableBuilder()
    table.drop(table.add(LAST)["path"])
    return table


@damage("commit.empty")
def last_commit_of_no_bytes() -> TableBuilder:
    table = without_its_file()
    table.edit_lines(LAST, lambda _: b"")
    return table


@damage("commit.bad-json")
def last_commit_torn() -> TableBuilder:
    table = without_its_file()
    table.edit_lines(LAST, lambda data: data[: len(data) - 40])
    return table


@damage("commit.bad-json")
def nested_deeper_than_any_reader_goes() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(
        LAST, lambda data: data.replace(b'"commitInfo":{', b'"commitInfo":{"x":' + b"[" * 300 + b"]" * 300 + b",")
    )
    return table


@damage("commit.not-utf8")
def latin_1_in_a_path() -> TableBuilder:
    table = without_its_file()
    table.edit_lines(LAST, lambda data: data.replace(b"part-00004", b"caf\xe9-00004"))
    return table


@damage("commit.not-utf8")
def byte_order_mark() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: b"\xef\xbb\xbf" + data)
    return table


@damage("commit.line-not-object")
def array_instead_of_an_action() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data + b'["add"]\n')
    return table


@damage("commit.line-not-object")
def two_actions_on_one_line() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b"}}\n{", b"},", 1))
    return table


@damage("commit.line-not-object")
def add_and_remove_on_one_line() -> TableBuilder:
    table = TableBuilder()
    both = b'{"remove":{"path":"other.parquet","deletionTimestamp":1,"dataChange":true},"add":'
    table.edit_lines(LAST, lambda data: data.replace(b'{"add":', both, 1))
    return table


@damage("commit.duplicate-key")
def size_twice() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b'"size":', b'"size":7,"size":'))
    return table


@damage("commit.unknown-field")
def field_nobody_knows() -> TableBuilder:
    table = TableBuilder()
    table.add(LAST)["rowGroups"] = 3
    return table


@damage("commit.pretty-printed")
def actions_over_several_lines() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(
        LAST, lambda data: b"\n".join(json.dumps(json.loads(line), indent=2).encode() for line in data.splitlines())
    )
    return table


@damage("commit.pretty-printed")
def two_objects_on_a_line() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b"}}\n{", b"}} {", 1))
    return table


@damage("commit.crlf-or-blank")
def lines_that_end_with_cr() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b"\n", b"\r\n"))
    return table


@damage("commit.crlf-or-blank")
def blank_line() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b"\n", b"\n\n", 1))
    return table


@damage("commit.crlf-or-blank")
def lines_that_end_with_cr_alone() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b"\n", b"\r"))
    return table


@damage("commit.line-not-object")
def object_without_an_action() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data + b'{}\n{"add":null}\n')
    return table


@damage("action.missing-required")
def add_without_modification_time() -> TableBuilder:
    table = TableBuilder()
    del table.add(LAST)["modificationTime"]
    return table


@damage("action.missing-required")
def transaction_without_version() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.commits[LAST].append({"txn": {"appId": "loader", "lastUpdated": table.time_of(LAST)}})
    return table


@damage("action.wrong-type")
def size_that_is_text() -> TableBuilder:
    table = without_its_file()
    table.add(LAST)["size"] = "1004"
    return table


@damage("action.wrong-type")
def size_beyond_64_bits() -> TableBuilder:
    table = without_its_file()
    table.add(LAST)["size"] = 2**63
    return table


@damage("action.wrong-type")
def partition_value_that_is_a_number() -> TableBuilder:
    table = without_its_file()
    table.add(LAST)["partitionValues"]["p"] = 5
    return table


@damage("domain.configuration-not-string")
def configuration_that_is_an_object() -> TableBuilder:
    table = TableBuilder(
        protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata"]}
    ).derive(checksums=False)
    table.commits[LAST].append({"domainMetadata": {"domain": "lake", "configuration": {"a": 1}, "removed": False}})
    return table


@damage("action.number-spelling")
def size_with_a_fraction() -> TableBuilder:
    table = TableBuilder()
    size = table.add(LAST)["size"]
    table.edit_lines(LAST, lambda data: data.replace(f'"size":{size}'.encode(), f'"size":{size}.0'.encode()))
    return table


@damage("commit.lone-surrogate")
def half_a_character_in_a_commit_info() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b'"commitInfo":{', b'"commitInfo":{"userMetadata":"\\ud83c",'))
    return table


@damage("commit.lone-surrogate")
def half_a_character_in_the_comment_of_a_column() -> TableBuilder:
    table = TableBuilder()
    metadata = table.action(0, "metaData")
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"]["comment"] = "caf\udce9"
    metadata["schemaString"] = json.dumps(schema)
    return table


@damage("commit.number-not-finite")
def metric_that_is_not_a_number() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data.replace(b'"commitInfo":{', b'"commitInfo":{"share":NaN,'))
    return table


@damage("commit.number-not-finite", also=("commit.unknown-action",))
def infinity_in_an_unknown_action() -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(LAST, lambda data: data + b'{"futureAction":{"bounds":[-Infinity,Infinity]}}\n')
    return table


@damage("commit.number-not-finite")
def metadata_of_a_column_that_is_not_a_number() -> TableBuilder:
    table = TableBuilder()
    metadata = table.action(0, "metaData")
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"]["share"] = float("nan")
    metadata["schemaString"] = json.dumps(schema)
    return table
