"""A protocol with more features.

Spec: Table Features for New and Existing Tables. Version numbers imply features. Once features are listed, all implied
ones are listed too. Whether a table uses them is known only from its whole history, so none is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltacli.core.errors import Refused
from deltacli.core.hints import command
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.delta.protocol.protocol_action import (
    NEWEST_READER_VERSION,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
)


def way_to_mapping(raw_protocol: Action | None) -> str:
    """Return the command that enables column mapping, with the upgrade that this protocol needs for it; empty where the
    caller has none.
    """
    if not raw_protocol or upgraded(raw_protocol, ["columnMapping"]) is None:
        return command("alter", "mapping", "name")
    return command("alter", "mapping", "name", upgrade_protocol=True)


def upgraded(raw_protocol: Action, names: Iterable[str]) -> Action | None:
    """Return the protocol action with some more features, or None if this one has them.

    Names keep their order. Raises Refused for an invalid protocol.
    """
    protocol = read_protocol(raw_protocol, "the protocol")
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    _require_legal(reader, writer)
    wanted = list(names)
    of_readers, of_writers = _listed(raw_protocol, "readerFeatures"), _listed(raw_protocol, "writerFeatures")
    if not wanted:
        return None
    is_complete = all(name in of_writers and (name in of_readers or not _concerns_readers(name)) for name in wanted)
    needs_reader = any(_concerns_readers(name) for name in wanted)
    if is_complete and writer == WRITER_FEATURES_VERSION and (reader == READER_FEATURES_VERSION or not needs_reader):
        return None
    of_writers += [*(name for name in FEATURES if name in protocol.supported_features), *of_readers]
    action = {**raw_protocol, "minWriterVersion": WRITER_FEATURES_VERSION}
    if needs_reader:
        if reader < READER_FEATURES_VERSION:
            # Writers that could list features before readers could left column mapping to the reader's version.
            of_readers += [name for name in of_writers if _concerns_readers(name)]
        of_readers += [name for name in wanted if _concerns_readers(name)]
        action |= {"minReaderVersion": READER_FEATURES_VERSION, "readerFeatures": _once(of_readers)}
    action["writerFeatures"] = _once([*of_writers, *wanted])
    return action


def added_features(before: Action, after: Action) -> tuple[str, ...]:
    """Return the features that one protocol supports and the other did not, in the order of their list."""
    known = read_protocol(before, "the protocol").supported_features
    return tuple(name for name in _listed(after, "writerFeatures") if name not in known)


def _require_legal(reader: int, writer: int) -> None:
    facts = {"protocol": f"reader {reader}, writer {writer}"}
    if not (1 <= reader <= NEWEST_READER_VERSION and 1 <= writer <= WRITER_FEATURES_VERSION):
        raise Refused(
            f"the protocol cannot be upgraded: deltacli supports readers 1 to {NEWEST_READER_VERSION} and writers 1 "
            f"to {WRITER_FEATURES_VERSION}",
            code="protocol.version-out-of-range",
            facts=facts,
            hint=command("snapshot"),
        )
    if reader == READER_FEATURES_VERSION and writer < WRITER_FEATURES_VERSION:
        raise Refused(
            f"the protocol cannot be upgraded: reader version {reader} needs writer version "
            f"{WRITER_FEATURES_VERSION}, and the table has {writer}",
            code="protocol.reader3-needs-writer7",
            facts=facts,
            hint=command("validate", select=["protocol.*"]),
        )


def _concerns_readers(name: str) -> bool:
    feature = FEATURES.get(name)
    return feature is not None and feature.kind is FeatureKind.READER_WRITER


def _listed(action: Action, key: str) -> list[str]:
    """Return the names in their original order, which reading sorts."""
    return [str(name) for name in action.get(key) or ()]


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
