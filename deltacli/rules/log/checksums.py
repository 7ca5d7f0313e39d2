"""Rules about version checksums: their form, and the small actions they repeat.

Other engines read the protocol and the metadata of a table from its newest checksum, so a wrong checksum is harmful.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.errors import CommitCorrupt
from deltacli.core.units import format_ranges
from deltacli.delta.log.log_path import LogFileKind
from deltacli.delta.log.state import read_metadata, read_protocol
from deltacli.delta.protocol.property_values import TRANSACTION_RETENTION
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import ChecksumView, ListingView
from deltacli.rules.log.checksum_files import DELETE, comparable, differences, differs, read_checksum, rows_of
from deltacli.rules.log.configuration_differences import metadata_differences, protocol_differences

AREA = Area("checksums", spec="Version Checksum File Schema")

_NUMBERS = ("tableSizeBytes", "numFiles", "numMetadata", "numProtocol")

BAD_JSON = AREA.warning(
    "crc.bad-json",
    "A version checksum is not a single JSON object.",
    broken="engines that read it ignore it or fail on it",
    repair=DELETE,
    example='00000000000000000004.crc holds {"tableSizeBytes":20',
)

MISSING_REQUIRED = AREA.warning(
    "crc.missing-required",
    "A version checksum lacks a required field, or has a field of the wrong type.",
    broken="engines that need the field ignore the checksum or fail on it",
    repair=DELETE,
    example='{"tableSizeBytes":2048,"numFiles":3} without protocol and metadata',
)

METADATA_DIFFERS = AREA.error(
    "crc.metadata-differs",
    "The metadata of a version checksum differs from the commits.",
    spec="State Validation",
    broken="engines that take the metadata from the checksum read and write with a wrong schema or properties",
    repair="delete the checksum at once",
    example='"metadata":{"partitionColumns":["q"],…} where the commits have ["p"]',
)

PROTOCOL_DIFFERS = AREA.error(
    "crc.protocol-differs",
    "The protocol of a version checksum differs from the commits.",
    spec="State Validation",
    broken="engines that take the protocol from the checksum miss features, and read or write wrongly",
    repair="delete the checksum at once",
    example='"protocol":{"minReaderVersion":1,…} where the commits have 3',
)

COUNTS_NOT_ONE = AREA.error(
    "crc.counts-not-one",
    "`numMetadata` or `numProtocol` of a version checksum is not 1.",
    broken="engines that verify checksums refuse the table or ignore the checksum",
    repair=DELETE,
    example='"numProtocol":2',
)

COMMIT_TIME = AREA.warning(
    "crc.ict",
    "`inCommitTimestampOpt` of a version checksum differs from the in-commit timestamp of its commit.",
    broken="engines that take the time of the version from the checksum time travel to the wrong version",
    repair=DELETE,
    example='"inCommitTimestampOpt":1768003200000 where the commit has 1768003200001',
)

TRANSACTIONS = AREA.warning(
    "crc.txns",
    "`setTransactions` of a version checksum differs from the transaction identifiers of the commits.",
    broken="a stream that reads its progress from the checksum writes batches twice or skips some",
    repair=DELETE,
    example='"setTransactions":[{"appId":"stream-1","version":41}] where the commits have 42',
)

DOMAINS = AREA.warning(
    "crc.domains",
    "`domainMetadata` of a version checksum differs from the live domains of the commits.",
    broken="engines that take domains from the checksum assign row ids twice or lose clustering",
    repair=DELETE,
    example='"domainMetadata":[] where the commits have the domain delta.rowTracking',
)

WITHOUT_COMMIT = AREA.warning(
    "crc.without-commit",
    "A version checksum has no commit.",
    spec="Version Checksum File: Writer Requirements",
    broken="nothing if the commit was cleaned up; above the newest commit it describes a version that does not exist",
    repair="delete the checksum",
    example="00000000000000000007.crc where the newest commit is 6",
)

MISSING = AREA.info(
    "crc.missing",
    "Most versions have a checksum, but some do not.",
    spec="Version Checksum File: Writer Requirements",
    broken="nothing; these versions cannot be compared with the state their writer assumed",
    repair="no repair needed",
    example="checksums of the versions 0-4 and 6-9",
)


@AREA.check(ChecksumView, BAD_JSON, MISSING_REQUIRED, COUNTS_NOT_ONE)
def a_checksum_is_complete(view: ChecksumView) -> Iterator[Finding]:
    """Spec: Version Checksum File Schema."""
    value = read_checksum(view.data)
    if value is None:
        yield BAD_JSON.at(
            view.place(),
            f"the checksum of version {view.version} is not a single JSON object",
            seen=view.data[:100].decode("utf-8", "replace"),
            expected="one JSON object",
        )
        return
    required = dict.fromkeys(_NUMBERS, int) | {"metadata": dict, "protocol": dict}
    absent = [name for name in required if value.get(name) is None]
    if absent:
        yield MISSING_REQUIRED.at(
            view.place(key=absent[0]),
            f"the checksum of version {view.version} lacks {', '.join(absent)}",
            seen=f"fields {', '.join(value)}",
            expected=", ".join(required),
        )
    for name, wanted in required.items():
        if name not in absent and type(value[name]) is not wanted:
            words = "an integer" if wanted is int else "an object"
            yield MISSING_REQUIRED.at(
                view.place(key=name),
                f"{name} of the checksum of version {view.version} is not {words}",
                seen=value[name],
                expected=words,
            )
    for name in ("numMetadata", "numProtocol"):
        if type(value.get(name)) is int and value[name] != 1:
            yield COUNTS_NOT_ONE.at(
                view.place(key=name),
                f"{name} of the checksum of version {view.version} is {value[name]}",
                seen=value[name],
                expected=1,
            )


@AREA.check(ChecksumView, METADATA_DIFFERS, PROTOCOL_DIFFERS)
def the_configuration_is_that_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Spelling of schemas and order of properties and features are ignored."""
    value, expected = comparable(view)
    if expected is None:
        return
    if isinstance(value.get("metadata"), dict) and expected.config.metadata is not None:
        try:
            metadata = read_metadata(value["metadata"], view.path)
        except CommitCorrupt as fault:
            yield METADATA_DIFFERS.at(view.place(key="metadata"), fault.message, seen=value["metadata"])
        else:
            actual, wanted = metadata.as_json(), expected.config.metadata.as_json()
            for name in metadata_differences(metadata, expected.config.metadata):
                top = name.partition(".")[0]
                yield differs(view, METADATA_DIFFERS, f"metadata.{name}", actual.get(top), wanted.get(top))
    if isinstance(value.get("protocol"), dict) and expected.config.protocol is not None:
        try:
            protocol = read_protocol(value["protocol"], view.path)
        except CommitCorrupt as fault:
            yield PROTOCOL_DIFFERS.at(view.place(key="protocol"), fault.message, seen=value["protocol"])
        else:
            actual, wanted = protocol.as_json(), expected.config.protocol.as_json()
            for name in protocol_differences(protocol, expected.config.protocol):
                yield differs(view, PROTOCOL_DIFFERS, f"protocol.{name}", actual.get(name), wanted.get(name))


@AREA.check(ChecksumView, COMMIT_TIME)
def the_time_is_that_of_the_commit(view: ChecksumView) -> Iterator[Finding]:
    """Present if and only if in-commit timestamps are on. Spec: Version Checksum File Schema."""
    value, expected = comparable(view)
    if expected is None or expected.config.protocol is None or expected.config.metadata is None:
        return
    name, actual = "inCommitTimestampOpt", value.get("inCommitTimestampOpt")
    if (actual is not None) is not expected.config.has_ict:
        yield COMMIT_TIME.at(
            view.place(key=name),
            f"the checksum of version {view.version} has {'no' if actual is None else 'an'} in-commit timestamp, and "
            f"the table {'has them' if actual is None else 'does not use them'}",
            seen="none" if actual is None else actual,
            expected=expected.in_commit_timestamp if actual is None else "none",
        )
    elif actual is not None and expected.in_commit_timestamp not in (None, actual):
        yield COMMIT_TIME.at(
            view.place(key=name),
            f"{name} of the checksum of version {view.version} differs from the timestamp of its commit",
            seen=actual,
            expected=expected.in_commit_timestamp,
        )


@AREA.check(ChecksumView, TRANSACTIONS)
def transactions_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """If transactions expire, it is unknown which ones had expired when the checksum was written, so only versions are
    compared.
    """
    value, expected = comparable(view)
    listed = value.get("setTransactions")
    if expected is None or listed is None:
        return
    rows = rows_of(listed)
    if rows is None:
        yield differs(view, TRANSACTIONS, "setTransactions", listed, "a list of transactions")
        return
    actual = {str(row.get("appId")): row.get("version") for row in rows}
    wanted = {application: version for application, (version, _) in expected.transactions.items()}
    names = actual.keys() & wanted.keys()
    if TRANSACTION_RETENTION not in expected.config.properties:
        names = actual.keys() | wanted.keys()
    yield from differences(view, TRANSACTIONS, "the transaction of", names, actual, wanted)


@AREA.check(ChecksumView, DOMAINS)
def domains_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Removed domains are ignored. Spec: Version Checksum File Schema."""
    value, expected = comparable(view)
    listed = value.get("domainMetadata")
    if expected is None or listed is None:
        return
    rows = rows_of(listed)
    if rows is None:
        yield differs(view, DOMAINS, "domainMetadata", listed, "a list of domains")
        return
    actual = {
        str(row.get("domain")): "removed: true" if row.get("removed") is True else row.get("configuration") or ""
        for row in rows
    }
    names = actual.keys() | expected.domains.keys()
    yield from differences(view, DOMAINS, "the domain", names, actual, expected.domains)


@AREA.check(ListingView, WITHOUT_COMMIT)
def checksums_have_their_commits(view: ListingView) -> Iterator[Finding]:
    """Another rule reports a missing commit between others. Spec: Version Checksum File."""
    commits = view.listing.commits
    if not commits or (view.config.protocol is not None and view.config.protocol.is_catalog_managed):
        return
    oldest, newest = min(commits), view.newest_commit
    versions = _versions_with_checksum(view)
    below = [version for version in versions if version < oldest]
    above = [version for version in versions if version > newest]
    for outside, words in ((below, f"the oldest commit is {oldest}"), (above, f"the newest commit is {newest}")):
        if outside:
            yield WITHOUT_COMMIT.at(
                view.place(f"{outside[0]:020d}.crc", outside[0]),
                f"there is no commit for the checksum of version {format_ranges(outside)}: {words}",
                seen=format_ranges(outside),
                expected=f"{oldest}-{newest}",
            )


@AREA.check(ListingView, MISSING)
def versions_have_a_checksum(view: ListingView) -> Iterator[Finding]:
    """Checked from the first checksum on, if more than half of the versions have one. The checksum of the newest commit
    may still be written.
    """
    commits = view.listing.commits
    having = {version for version in _versions_with_checksum(view) if version in commits}
    if not having:
        return
    first = min(having)
    due = [version for version in commits if first <= version]
    lacking = [version for version in due if version not in having and version != view.newest_commit]
    if lacking and 2 * len(having) > len(due):
        yield MISSING.at(
            view.place(),
            f"{len(lacking)} of {len(due)} versions have no checksum: {format_ranges(lacking)}",
            seen=format_ranges(having),
            expected="a checksum for each commit",
        )


def _versions_with_checksum(view: ListingView) -> list[int]:
    return [file.version for file in view.files if file.path.kind is LogFileKind.CHECKSUM]
