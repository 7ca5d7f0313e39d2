"""Generate JSON Schemas of NDJSON lines from those of the documents, and the index of all schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from deltacli.cli.documents_of_commands import WHOLE_LINES
from deltacli.delta.evolution.requests import KINDS
from deltacli.fleet.policy_file.file_schema import make_fleet_file_schema
from deltacli.sharing.configuration.file_schema import make_shares_schema

HOME = Path(__file__).resolve().parent.parent / "docs" / "schemas"

Schema = dict[str, Any]  # Any: JSON values

_ENVELOPE = ("kind", "schemaVersion", "tableFormat", "complete")
_LINES = (
    "commit",
    "add",
    "remove",
    "snapshot",
    "field",
    "finding",
    "summary",
    "rule",
    "clone",
    "file",
    "copy",
    "log-backup",
    "log-restore",
    "log-crc",
    "log-compact",
    "log-expire",
    "lost-file",
    "undelete",
    "candidate",
    "vacuum",
    "vacuum-explain",
    "vacuum-purge",
    "checkpoint",
    "verification",
    "row",
    "row-count",
    "change",
    "scan",
    "output",
    "restore",
    "optimize",
    "stats",
    "manifest",
    "convert",
    "diff",
    "reach",
    "streams",
    "explain",
    "repair-step",
    "repair",
    "repair-undo",
    "widen-type",
    "property",
    "properties",
    "feature",
    "features",
    "catalog-table",
    "catalog-status",
    "staged-commit",
    "catalog-publish",
    "share-recipient",
    "share-token",
    "share-key",
    "profile-problem",
    "share-profile",
    "shared-table",
    "share-check",
    "fleet-init-table",
    "fleet-init",
    "fleet-group",
    "fleet-check",
    "share-entry",
    "share-pull",
    "suite",
    "fleet-table",
    "fleet-plan",
    "fleet-run-table",
    "fleet-run",
    "fleet-status-table",
    "fleet-status",
    "schema-version",
    "paimon-snapshot",
    "paimon-state",
    "paimon-field",
    "schema-file",
    "schema-vacuum",
    "alter",
    "alteration",
    "feature-drop",
    "schema-change",
    "schema-conversion",
    "doctor-command",
    "doctor-access",
    "doctor-probe",
    "doctor-storage",
    "advice",
    "doctor-table",
)


def render_schemas() -> dict[str, str]:
    """Return each generated file of docs/schemas by its name."""
    documents = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in HOME.glob("deltacli.*.json")}
    lines = {
        **{
            whole.line: _whole_line(documents[f"deltacli.{whole.document}"], whole.line, whole.meaning)
            for whole in WHOLE_LINES
        },
        "commit": _item_line(documents["deltacli.history"], "commit"),
        "add": _item_line(documents["deltacli.files"], "add"),
        "remove": _item_line(documents["deltacli.files"], "remove"),
        "snapshot": _snapshot_line(documents["deltacli.snapshot"]),
        "field": _field_line(documents["deltacli.schema"]),
        "finding": _part_line(documents["deltacli.validate"], "finding", ("table",)),
        "summary": _summary_line(documents["deltacli.validate"]),
        "rule": _part_line(documents["deltacli.rules"], "rule", ()),
        "property": _part_line(documents["deltacli.properties"], "property", ()),
        "properties": _change_line(documents["deltacli.properties"], "properties", "properties that change"),
        "feature": _part_line(documents["deltacli.features"], "feature", ()),
        "features": _change_line(documents["deltacli.features"], "features", "features that are added"),
        "feature-drop": _drop_line(documents["deltacli.features"]),
        "file": _file_line(
            documents["deltacli.log-backup"], documents["deltacli.log-restore"], documents["deltacli.scan-files"]
        ),
        "lost-file": _part_line(documents["deltacli.undelete"], "lost-file", ()),
        "candidate": _of_several(_candidate_line(documents["deltacli.log-expire"], documents["deltacli.vacuum"])),
        "verification": _of_several(_part_line(documents["deltacli.checkpoint-verification"], "verification", ())),
        "row": _row_line(documents["deltacli.read"], "row", "a row of a table"),
        "change": _row_line(documents["deltacli.changes"], "change", "a changed row of a table"),
        "schema-version": _part_line(documents["deltacli.history.paimon"], "schema-version", ()),
        "paimon-snapshot": _part_line(documents["deltacli.history.paimon"], "paimon-snapshot", ()),
        "paimon-field": _part_line(documents["deltacli.schema.paimon"], "paimon-field", ()),
        "schema-change": _part_line(documents["deltacli.schema-diff"], "schema-change", ()),
        "schema-file": _of_several(_part_line(documents["deltacli.vacuum.paimon"], "schema-file", ())),
        "repair-step": _part_line(documents["deltacli.repair"], "repair-step", ()),
        "repair": _last_line(documents["deltacli.repair"], "repair", "steps", "a repair, after its steps"),
        "staged-commit": _part_line(documents["deltacli.catalog-staged"], "staged-commit", ()),
        "catalog-table": _table_line(documents["deltacli.catalog-ls"]),
        **_sharing_lines(documents),
        **_fleet_lines(documents),
        **_doctor_lines(documents),
        "fleet-file": make_fleet_file_schema(),
        "shares-file": make_shares_schema(),
        "alter-file": _alter_file_schema(documents["deltacli.alter.delta"]),
        "deltacli.alter": _of_either_format(documents, "deltacli.alter"),
    }
    written = [path for path in HOME.glob("*.json") if path.stem not in lines]
    others = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in written}
    files = {f"{name}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in lines.items()}
    return {**files, "README.md": _index({**others, **lines})}


def _of_either_format(documents: Mapping[str, Schema], kind: str) -> Schema:
    """Return the schema of a document that has one kind for tables of both formats; each part has its own `$defs`."""
    formats = [documents[f"{kind}.{name}"] | {"$id": f"urn:{kind}.{name}"} for name in ("delta", "paimon")]
    title = f"{kind.replace('.', ' ')} --format json of a table of either format"
    return {"$schema": formats[0]["$schema"], "title": title, "oneOf": formats}


def _alter_file_schema(document: Schema) -> Schema:
    """Return the schema of a file of `alter --apply` for Delta tables, from the fields of the changes."""
    known = document["$defs"]["requested"]["properties"]

    def described(kind: str) -> Schema:
        declared = fields(KINDS[kind])
        properties = {one.name: known[one.name] for one in declared}
        for one in declared:
            if "None" not in str(one.type) and one.name == "name":
                properties["name"] = {"type": "string"}
        required = ["change", *(one.name for one in declared if one.default is MISSING)]
        return {
            "type": "object",
            "additionalProperties": False,
            "required": required,
            "properties": {"change": {"const": kind}, **properties},
        }

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a file of deltacli alter --apply FILE for Delta tables: several changes as one commit",
        "type": "array",
        "minItems": 1,
        "items": {"oneOf": [described(kind) for kind in KINDS]},
    }


def _sharing_lines(documents: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the lines of `share`. The last one has what a document says besides its list."""
    recipients, tokens = documents["deltacli.share-recipients"], documents["deltacli.share-tokens"]
    keys = documents["deltacli.share-keys"]
    profile, check = documents["deltacli.share-profile"], documents["deltacli.share-check"]
    return {
        "share-recipient": _part_line(recipients, "share-recipient", ()),
        "share-token": _part_line(tokens, "share-token", ()),
        "share-key": _part_line(keys, "share-key", ()),
        "profile-problem": _part_line(profile, "profile-problem", ()),
        "share-profile": _last_line(profile, "share-profile", "problems", "a profile file, after its problems"),
        "shared-table": _part_line(check, "shared-table", ()),
        "share-entry": _part_line(documents["deltacli.share-ls"], "share-entry", ()),
        "share-init-table": _part_line(documents["deltacli.share-init"], "share-init-table", ()),
        "share-init": _last_line(
            documents["deltacli.share-init"], "share-init", "tables", "a new sharing configuration, after its tables"
        ),
        "suite": _suite_line(documents["deltacli.share-test"]),
        "share-check": _last_line(check, "share-check", "tables", "a sharing configuration, after its tables"),
    }


def _fleet_lines(documents: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the lines of `fleet`."""
    check, plan = documents["deltacli.fleet-check"], documents["deltacli.fleet-plan"]
    run, status = documents["deltacli.fleet-run"], documents["deltacli.fleet-status"]
    init = documents["deltacli.fleet-init"]
    return {
        "fleet-init-table": _part_line(init, "fleet-init-table", ()),
        "fleet-init": _last_line(init, "fleet-init", "tables", "a new policy file, after its tables"),
        "fleet-status-table": _part_line(status, "fleet-status-table", ()),
        "fleet-status": _last_line(status, "fleet-status", "tables", "a status of a fleet, after its tables"),
        "fleet-run-table": _part_line(run, "fleet-run-table", ()),
        "fleet-run": _last_line(run, "fleet-run", "tables", "a run of a fleet, after its tables"),
        "fleet-table": _part_line(plan, "fleet-table", ()),
        "fleet-plan": _last_line(plan, "fleet-plan", "tables", "a plan of a fleet, after its tables"),
        "fleet-group": _part_line(check, "fleet-group", ()),
        "fleet-check": _last_line(check, "fleet-check", "groups", "a policy file, after its groups"),
    }


def _doctor_lines(documents: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the lines of `doctor`."""
    access, storage = documents["deltacli.doctor-access"], documents["deltacli.doctor-storage"]
    table = documents["deltacli.doctor-table"]
    return {
        "doctor-command": _part_line(access, "doctor-command", ()),
        "doctor-access": _last_line(access, "doctor-access", "commands", "the access to a table, after its commands"),
        "doctor-probe": _part_line(storage, "doctor-probe", ()),
        "doctor-storage": _last_line(storage, "doctor-storage", "probes", "what a store guarantees, after its probes"),
        "advice": _part_line(table, "advice", ()),
        "doctor-table": _last_line(table, "doctor-table", "advice", "the state of a table, after the advice"),
    }


def _suite_line(document: Schema) -> Schema:
    suite = document["$defs"]["suite"]
    properties = {"level": document["properties"]["level"]}
    properties |= {name: schema for name, schema in suite["properties"].items() if name != "findings"}
    properties |= {name: document["$defs"][name] for name in ("summary", "verdict")}
    required = [name for name in properties if name == "level" or name in suite["required"]]
    return _line("suite", "what follows the findings of a suite", properties, required, additionalProperties=False)


def _last_line(document: Schema, kind: str, items: str, title: str) -> Schema:
    """Return the line for a document without its envelope and its list. Its field `type` is `credentialsType`."""
    left_out = (*_ENVELOPE, items)
    properties = {_renamed(name): schema for name, schema in document["properties"].items() if name not in left_out}
    required = [_renamed(name) for name in document["required"] if name not in left_out]
    return _with_parts(_line(kind, title, properties, required, additionalProperties=False), document)


def _renamed(name: str) -> str:
    return "credentialsType" if name == "type" else name


def _line(kind: str, title: str, properties: Schema, required: list[str], **others: object) -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"an NDJSON line: {title}",
        "$comment": "generated from the schema of the document, do not edit",
        "type": "object",
        **others,
        "required": ["type", *required],
        "properties": {"type": {"const": kind}, **properties},
    }


def _item_line(document: Schema, kind: str) -> Schema:
    """Return the line for an item of a list. Its `required` is that of the document for a list with all columns."""
    item = document["$defs"][kind]
    whole = document["then"]["properties"]["items"]["items"]
    if "if" in whole:
        whole = whole["then" if whole["if"]["properties"]["type"]["const"] == kind else "else"]
    properties = {name: schema for name, schema in item["properties"].items() if name != "type"}
    rules = {"additionalProperties": item["additionalProperties"]}
    if "dependentRequired" in whole:
        rules["dependentRequired"] = whole["dependentRequired"]
    return _line(kind, item["description"], properties, whole["required"], **rules)


def _part_line(document: Schema, kind: str, of_table: tuple[str, ...]) -> Schema:
    """Return the line for a part of a document. `of_table` are fields of its table that the line has as well."""
    part, table = document["$defs"][kind], document["$defs"].get("table", {"properties": {}})
    properties = {name: table["properties"][name] for name in of_table} | part["properties"]
    rules = {"additionalProperties": part["additionalProperties"]}
    required = [*of_table, *part["required"]]
    return _with_parts(_line(kind, part["description"], properties, required, **rules), document)


def _of_several(line: Schema) -> Schema:
    """Return a line that has its table where the command has several."""
    kind, *others = line["properties"].items()
    table = {"type": "string", "description": "absolute URI of the table directory, of a command with several tables"}
    return {**line, "properties": dict([kind, ("table", table), *others])}


def _summary_line(document: Schema) -> Schema:
    table = document["$defs"]["table"]
    properties = {"level": document["properties"]["level"]}
    properties |= {name: schema for name, schema in table["properties"].items() if name != "findings"}
    properties |= {name: document["$defs"][name] for name in ("summary", "verdict")}
    required = [name for name in properties if name == "level" or name in table["required"]]
    return _line("summary", "what follows the findings of a table", properties, required, additionalProperties=False)


def _snapshot_line(document: Schema) -> Schema:
    properties = {name: schema for name, schema in document["properties"].items() if name not in _ENVELOPE}
    required = [name for name in document["required"] if name not in _ENVELOPE]
    rules = {name: document[name] for name in ("additionalProperties", "if", "then", "else")}
    return _line("snapshot", "the state at a version", properties, required, **rules)


def _whole_line(document: Schema, kind: str, title: str) -> Schema:
    """Return the line for a document without its envelope and its items, which have lines of their own."""
    left_out = (*_ENVELOPE, "items")
    properties = {name: schema for name, schema in document["properties"].items() if name not in left_out}
    required = [name for name in document["required"] if name not in left_out]
    return _with_parts(_line(kind, title, properties, required, additionalProperties=False), document)


def _with_parts(line: Schema, document: Schema) -> Schema:
    """Return a line with the definitions of its document that it refers to."""
    parts = _parts_in(line, document.get("$defs", {}))
    return line | ({"$defs": parts} if parts else {})


def _parts_in(schema: Schema, defined: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the definitions that a schema refers to, directly or through others."""
    found: dict[str, Schema] = {}
    waiting = [schema]
    while waiting:
        text = json.dumps(waiting.pop())
        named = [name for name in defined if f'"#/$defs/{name}"' in text and name not in found]
        found |= {name: defined[name] for name in named}
        waiting += [defined[name] for name in named]
    return found


def _change_line(document: Schema, kind: str, title: str) -> Schema:
    """Return the line for a document of a change. Without a change, the items have lines of their own."""
    required = next(one["required"] for one in document["oneOf"] if "changes" in one["required"])
    names = ("table", "version", *(name for name in document["properties"] if name in required))
    properties = {name: document["properties"][name] for name in dict.fromkeys((*names, "cautions", "replanned"))}
    return _with_parts(_line(kind, title, properties, list(names), additionalProperties=False), document)


def _drop_line(document: Schema) -> Schema:
    """Return the line for a feature that is dropped."""
    required = next(one["required"] for one in document["oneOf"] if "dropped" in one["required"])
    names = ("table", "version", *required)
    properties = {name: document["properties"][name] for name in dict.fromkeys((*names, "cautions", "replanned"))}
    title = "a feature that is dropped"
    return _with_parts(_line("feature-drop", title, properties, list(names), additionalProperties=False), document)


def _row_line(document: Schema, kind: str, title: str) -> Schema:
    """Return the line for a row, which is in a field of its own because a column may be named `type`."""
    return _line(kind, title, {kind: document["$defs"][kind]}, [kind], additionalProperties=False)


def _file_line(backup: Schema, restore: Schema, scan: Schema) -> Schema:
    """Return the line for a file of a backup or restore, or for a file of a scan."""
    copied, restored = backup["$defs"]["file"], restore["$defs"]["file"]
    actions = [*copied["properties"]["action"]["enum"], *restored["properties"]["action"]["enum"]]
    properties = {**copied["properties"], "action": {**copied["properties"]["action"], "enum": actions}}
    scanned = scan["$defs"]["file"]
    one_of = [{"required": copied["required"]}, {"required": scanned["required"]}]
    both = properties | {name: schema for name, schema in scanned["properties"].items() if name not in properties}
    return _line("file", "a file of a backup, or of a scan", both, [], additionalProperties=False, oneOf=one_of)


def _candidate_line(expire: Schema, vacuum: Schema) -> Schema:
    """Return the line for a file to delete, of the log or of the table. The latter has the version that removed it."""
    of_log, of_table = expire["$defs"]["candidate"], vacuum["$defs"]["candidate"]
    reason = of_log["properties"]["reason"]
    reasons = [*reason["enum"], *of_table["properties"]["reason"]["enum"]]
    properties = {**of_table["properties"], "reason": {**reason, "enum": reasons, "description": "what it is, or why"}}
    one_of = [
        {"required": ["removedAtVersion"], "properties": {"reason": {"enum": part}}}
        if "removedAtVersion" in one["required"]
        else {"not": {"required": ["removedAtVersion"]}, "properties": {"reason": {"enum": part}}}
        for one, part in ((of_log, reason["enum"]), (of_table, of_table["properties"]["reason"]["enum"]))
    ]
    required = of_log["required"]
    return _line("candidate", of_log["description"], properties, required, additionalProperties=False, oneOf=one_of)


def _field_line(document: Schema) -> Schema:
    field = document["$defs"]["field"]
    properties = {{"type": "dataType"}.get(name, name): schema for name, schema in field["properties"].items()}
    required = [{"type": "dataType"}.get(name, name) for name in field["required"]]
    title = "a column of the schema; the type of the column is dataType"
    return {**_line("field", title, properties, required), "$defs": document["$defs"]}


def _table_line(document: Schema) -> Schema:
    table = document["$defs"]["catalog-table"]
    properties = {{"type": "tableType"}.get(name, name): schema for name, schema in table["properties"].items()}
    return _line("catalog-table", table["description"], properties, [*properties], additionalProperties=False)


def _index(schemas: Mapping[str, Schema]) -> str:
    documents = sorted(name for name in schemas if name.startswith("deltacli."))
    objects = sorted(set(schemas) - set(documents) - set(_LINES))
    rows = ["| schema | describes |", "|---|---|"]
    rows += [f"| [{name}]({name}.json) | {schemas[name]['title']} |" for name in [*documents, *_LINES, *objects]]
    return "\n".join(
        [
            "# Schemas",
            "",
            "JSON Schemas (draft 2020-12) of everything that is written as JSON, tested against real output. Those of",
            "`fleet.toml` and `shares.yaml` are draft-07, which editors support.",
            "Later versions may add fields and remove none. Ignore fields that you do not recognize.",
            "",
            *rows,
            "",
            "The `kind` of a document and the `type` of a line are the names of their schemas. With `--columns` a",
            "document lists the selected `columns`, and its items have only these. An NDJSON line may then lack",
            "required fields. Documents of a command for both formats have a schema of their own for Paimon tables,",
            "whose name ends in `.paimon`, unless they are the same. This index is generated.",
            "",
        ]
    )
