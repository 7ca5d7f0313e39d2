"""A server that offers a table of a bucket by its directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltacli.sharing.model import AccessMode, SharedTable
from deltacli.storage.signing.delegation import Delegation
from tests.sharing.asgi import Reply
from tests.sharing.served import NOW_MS, Served
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.s3 import S3Server
from tests.support.token_services import TokenServices

ROLE = "arn:aws:iam::123456789012:role/share"
BOTH = (AccessMode.URL, AccessMode.DIR)
TABLE = "/shares/sales/schemas/main/tables/t"
CREDENTIALS = f"{TABLE}/temporary-table-credentials"


def plain_table(files: int = 1) -> TableBuilder:
    """A table of one commit."""
    return TableBuilder().commit(protocol(), metadata(), *(add(f"part-{number}", size=1) for number in range(files)))


def stored(s3: S3Server, builder: TableBuilder, bucket: str, key: str = "grid/t1", **fields: Any) -> SharedTable:
    """A table in a bucket as `Sales.Main.t`, which may be given by directory."""
    for name, file in builder.files.items():
        s3.put(bucket, f"{key}/{name}", file.data)
    given: dict[str, Any] = {
        "history_shared": True,
        "storage_options": {"endpoint_url": s3.url, "region": "us-east-1"},
        "access_modes": BOTH,
        "delegation": Delegation(ROLE, "an-external-id"),
    }
    return SharedTable("Sales", "Main", "t", f"s3://{bucket}/{key}", "id-t", **(given | fields))


def offering(table: SharedTable, services: TokenServices, **options: Any) -> Served:
    """A server of a table, whose credentials the services make."""
    services.now_ms = NOW_MS
    delegation = replace(table.delegation, sts_endpoint=services.url)
    return Served((replace(table, delegation=delegation),), options=options)


def granted(reply: Reply) -> Mapping[str, Any]:
    """The credentials of an answer."""
    assert 200 == reply.status, reply.body
    found: Mapping[str, Any] = reply.json["credentials"]
    return found
