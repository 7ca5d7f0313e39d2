"""The rules that OpenSharing adds to those of Delta Sharing, as far as they concern tables."""

from __future__ import annotations

from deltacli.rules.framework.base import Level
from deltacli.sharing.conformance.lines import version_of
from deltacli.sharing.conformance.lists import UNKNOWN, Tester, schema_path, share_path
from deltacli.sharing.conformance.versions import SharedTableTest
from deltacli.sharing.conformance.wire import Rules, Suite, WireRequest

ASSETS_AREA = Rules("OpenSharing assets", Level.API)
OPENSHARING_AREA = Rules("OpenSharing tables", Level.API)

ASSET_ROUTE = ASSETS_AREA.row("""warning share.asset-route | The routes of volumes, models, skills and of the Iceberg
    view are answered with 200 and an object of their form, or with 4xx and JSON. | OpenSharing: VOLUMES.md; TABLES.md
    (Iceberg REST) | clients of other assets repeat the request, or show an error of their parser | answer 404 with
    RESOURCE_DOES_NOT_EXIST where the server has no such assets | 501 for the volumes of a schema""")
GET_TABLE = OPENSHARING_AREA.row("""error share.get-table | GET of a table is an object with its name, schema, share and
    format, which is delta, iceberg, or both with a comma; an unknown table is 404. | OpenSharing: TABLES.md (Get Table)
    | clients cannot find out how to read the table | answer {"name", "schema", "share", "format"} without a wrapper |
    405 for GET of a listed table""")
HEAD_TABLE = OPENSHARING_AREA.row("""warning share.head-table | HEAD of a table keeps the header Delta-Table-Version,
    also where GET of it is Get Table. | Query Table Version (HEAD, deprecated); OpenSharing: TABLES.md (Get Table) |
    older clients do not find the version | send the header for HEAD | HEAD without the header""")

_FORMATS = {"delta", "iceberg"}


def check_assets(tester: Tester, suite: Suite, share: str, schema: str) -> None:
    """Ask for assets that are not tables."""
    inside = schema_path(share, schema)
    paths = [*(f"{inside}/{kind}" for kind in ("volumes", "models", "skills")), f"{share_path(share)}/all-volumes"]
    for path in (*paths, "iceberg/v1/config"):
        query = {"warehouse": share} if path.startswith("iceberg") else {}
        answer = tester.wire.send(WireRequest(path, query))
        content = answer.json
        items = content.get("items", []) if isinstance(content, dict) else None
        is_right = isinstance(content, dict) and (
            400 <= answer.status < 500 or (answer.is_ok and isinstance(items, list))
        )
        message = f"the route of an asset is answered with {answer.status} and {answer.media_type or 'no type'}"
        suite.require(ASSET_ROUTE, is_right, answer, message, expected="200 or 4xx, with JSON")


def check_table_object(table: SharedTableTest) -> None:
    """Ask for the table itself."""
    answer, name = table.ask(""), table.named
    fields = answer.json if answer.is_ok and isinstance(answer.json, dict) else {}
    wanted = {"name": name.name, "schema": name.schema, "share": name.share}
    wrong = [key for key, value in wanted.items() if str(fields.get(key)).lower() != value.lower()]
    formats = fields.get("format")
    is_known = isinstance(formats, str) and {part.strip() for part in formats.split(",")} <= _FORMATS
    wrong += [] if is_known else ["format"]
    message = f"the table is answered with {answer.status}, without {', '.join(wrong)}"
    table.require(GET_TABLE, not wrong, answer, message, seen=str(formats)[:80], expected="delta, iceberg")
    unknown = table.tester.ask(table, f"{table.base.rpartition('/')[0]}/{UNKNOWN}")
    is_refused = unknown.status in (403, 404) or unknown.status >= 500
    table.require_status(GET_TABLE, is_refused, unknown, "a table that does not exist", expected=404)
    head = table.ask("", method="HEAD")
    is_kept, message = version_of(head) is not None, f"HEAD is answered with {head.status}, and without the version"
    table.require(HEAD_TABLE, head.is_ok and is_kept, head, message, seen=head.status)
