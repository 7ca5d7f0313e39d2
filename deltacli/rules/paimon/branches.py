"""Rules about the files of a branch: every schema that something names exists, and nothing else is among them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from deltacli.delta.log.log_path import Place
from deltacli.paimon.table_paths import SCHEMA_DIRECTORY, branch_root, schema_path
from deltacli.rules.framework.base import Area, Finding, ReadFault
from deltacli.rules.paimon.catalogue import BranchView

AREA = Area("References", spec="Update Schema")


SCHEMA_MISSING = AREA.error(
    "paimon.schema-missing",
    "Each schema that a snapshot, tag, changelog, manifest or data file names exists.",
    broken="readers fail on the snapshots and files that name it",
    repair="restore the schema file from a backup, or from a branch that has a copy",
    example="no schema-3, which a live data file was written with",
)
STRAY_FILE = AREA.warning(
    "paimon.stray-file",
    "The directory of the schemas contains files named schema-N only.",
    broken="readers ignore the file; a writer may have died",
    repair="delete it if it is older than a day",
    example=".schema-8.4f1c.tmp",
)
BAD_SNAPSHOT = AREA.error(
    "paimon.bad-snapshot",
    "Snapshots, tags and changelogs are JSON objects with an id and a schemaId.",
    broken="the snapshot cannot be read",
    repair="restore the file from a backup",
    example="an empty snapshot-4",
)
BAD_MANIFEST = AREA.error(
    "paimon.bad-manifest",
    "Manifests can be read.",
    broken="the snapshots that name it cannot be read",
    repair="restore the file from a backup",
    example="a truncated manifest",
)
MANIFEST_MISSING = AREA.error(
    "paimon.manifest-missing",
    "Manifests that snapshots name exist.",
    broken="the snapshots that name it cannot be read",
    repair="restore the file from a backup",
    example="a manifest list that was deleted",
)
NO_PERMISSION = AREA.error(
    "paimon.no-permission",
    "Schemas, snapshots, tags, changelogs and manifests can be read with the permissions of this user.",
    broken="the checks of the file are left out",
    repair="grant read access, or run as another user",
    example="a schema-2 with mode 000",
)
BAD_STATISTICS = AREA.warning(
    "paimon.bad-statistics",
    "Statistics that snapshots name are JSON objects with a schemaId.",
    broken="engines plan without the statistics, or fail",
    repair="run ANALYZE again",
    example="a snapshot that names statistics that do not exist",
)
BAD_CONSUMER = AREA.warning(
    "paimon.bad-consumer",
    "Consumers are JSON objects with a nextSnapshot.",
    broken="the consumer cannot continue, and snapshots are not expired",
    repair="reset the consumer",
    example="an empty consumer-a",
)
GAP = AREA.info(
    "paimon.schema-gap",
    "Schemas are numbered without gaps.",
    broken="nothing: unused schemas can be deleted",
    repair="none needed",
    example="schema-0 and schema-2 without schema-1",
)
BROKEN = (BAD_SNAPSHOT, BAD_MANIFEST, MANIFEST_MISSING, NO_PERMISSION, BAD_STATISTICS, BAD_CONSUMER)


@AREA.check(BranchView, SCHEMA_MISSING)
def check_references(view: BranchView) -> Iterator[Finding]:
    """Report schemas that are named and have no file."""
    present = set(view.ids)
    for schema_id, users in sorted(view.users.items()):
        if schema_id not in present:
            place = Place(schema_path(schema_id, view.branch), version=schema_id)
            yield SCHEMA_MISSING.at(place, f"schema {schema_id} does not exist; used by {users}", seen=users)


@AREA.check(BranchView, STRAY_FILE, GAP)
def check_listing(view: BranchView) -> Iterator[Finding]:
    """Report other files among the schemas, and gaps."""
    directory = f"{branch_root(view.branch)}{SCHEMA_DIRECTORY}"
    for name in view.strays:
        yield STRAY_FILE.at(Place(f"{directory}/{name}"), "not a schema file")
    for before, after in pairwise(view.ids):
        if after > before + 1:
            text = f"schema {before + 1}" if after == before + 2 else f"schemas {before + 1} to {after - 1}"
            yield GAP.at(Place(schema_path(after, view.branch), version=after), f"{text} missing before it")


@AREA.check_faults(BranchView, *BROKEN)
def check_broken_files(view: BranchView) -> Iterator[ReadFault]:
    """Report snapshots, tags, changelogs and manifests that cannot be read."""
    return (ReadFault(code, Place(path), reason) for path, code, reason in view.broken)
