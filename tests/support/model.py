"""A model of a table's state: dictionaries, one commit after the other, oldest first. It shares no code with deltacli.

It is slow and short on purpose. What a snapshot document must say follows from it by `State.document`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from tests.support.actions import Action, Line

FileKey = tuple[bytes, str]

WEEK_MS = 7 * 24 * 3_600_000


def identity(path: str) -> bytes:
    """The file that a spelling names: `file:` dropped, percent-decoded once, no `.` and no empty segments."""
    rest = path
    if rest.lower().startswith("file:"):
        rest = rest[len("file:") :]
        if rest.lower().startswith("//localhost/"):
            rest = rest[len("//localhost") :]
    segments = [unquote_to_bytes(segment) for segment in rest.split("/") if segment not in ("", ".")]
    return (b"/" if rest.startswith("/") else b"") + b"/".join(segments)


def vector_id(action: Action) -> str:
    """The unique id of a file action's deletion vector, empty without one."""
    vector = action.get("deletionVector")
    if not vector:
        return ""
    offset = f"@{vector['offset']}" if "offset" in vector else ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def key_of(action: Action) -> FileKey:
    """The logical file that an add or a remove speaks of."""
    return identity(action["path"]), vector_id(action)


def num_records(add: Action) -> int | None:
    """What the statistics of an add say about its number of records; None where they say nothing."""
    try:
        found = json.loads(add.get("stats") or "null")
    except (ValueError, RecursionError):
        return None
    value = found.get("numRecords") if isinstance(found, dict) else None
    return value if type(value) is int else None


@dataclass(frozen=True)
class State:
    """What a version holds: actions as written, by their keys."""

    protocol: Action | None = None
    metadata: Action | None = None
    live: Mapping[FileKey, Action] = field(default_factory=dict)
    tombstones: Mapping[FileKey, Action] = field(default_factory=dict)
    transactions: Mapping[str, Action] = field(default_factory=dict)
    domains: Mapping[str, Action] = field(default_factory=dict)

    def after(self, lines: Iterable[Line]) -> State:
        """The state after one more commit. Of two adds of a key the last counts; an add beats a remove."""
        adds: dict[FileKey, Action] = {}
        removes: dict[FileKey, Action] = {}
        others: dict[str, Any] = {}  # Any: fields of a state
        for line in lines:
            for kind, action in line.items():
                if action is None:
                    continue
                match kind:
                    case "add":
                        adds[key_of(action)] = action
                    case "remove":
                        removes[key_of(action)] = action
                    case "protocol":
                        others["protocol"] = action
                    case "metaData":
                        others["metadata"] = action
                    case "txn":
                        known = others.get("transactions", self.transactions)
                        others["transactions"] = {**known, action["appId"]: action}
                    case "domainMetadata":
                        others["domains"] = {**others.get("domains", self.domains), action["domain"]: action}
        removes = {key: action for key, action in removes.items() if key not in adds}
        if adds or removes:
            touched = adds.keys() | removes.keys()
            others["live"] = {key: action for key, action in self.live.items() if key not in touched} | adds
            rest = {key: action for key, action in self.tombstones.items() if key not in touched}
            others["tombstones"] = rest | removes
        return State(**(vars(self) | others))

    @property
    def live_domains(self) -> dict[str, Action]:
        return {name: action for name, action in self.domains.items() if not action.get("removed")}

    @property
    def is_readable(self) -> bool:
        """True if it has what every version needs, and asks for no feature that only the future knows."""
        if self.protocol is None or self.metadata is None:
            return False
        return not any(name.startswith("future") for name in self.protocol.get("readerFeatures") or ())

    def actions(self) -> list[Line]:
        """Everything a checkpoint of this state holds, one action a line."""
        lines: list[Line] = [{"protocol": self.protocol}, {"metaData": self.metadata}]
        lines += [{"txn": action} for action in self.transactions.values()]
        lines += [{"domainMetadata": action} for action in self.live_domains.values()]
        lines += [{"remove": action | {"dataChange": False}} for action in self.tombstones.values()]
        lines += [{"add": action | {"dataChange": False}} for action in self.live.values()]
        return [line for line in lines if None not in line.values()]

    def document(self, *, now_ms: int) -> dict[str, object]:
        """What a snapshot document says about this state: every fact that does not depend on how it was rebuilt."""
        adds, removes = list(self.live.values()), list(self.tombstones.values())
        records = [num_records(add) for add in adds]
        known = [count for count in records if count is not None]
        vectors = [add["deletionVector"] for add in adds if add.get("deletionVector")]
        deleted_rows = sum(vector["cardinality"] for vector in vectors)
        protocol, metadata = dict(self.protocol or {}), dict(self.metadata or {})
        for name in ("readerFeatures", "writerFeatures"):
            if name in protocol:
                protocol[name] = sorted(protocol[name])
        return {
            "protocol": protocol,
            "metadata": metadata,
            "files": {
                "count": len(adds),
                "sizeBytes": sum(add["size"] for add in adds),
                "records": sum(known),
                "filesWithoutRecords": len(adds) - len(known),
                "rows": sum(known) - deleted_rows if len(known) == len(adds) else None,
                "deletionVectors": {"count": len(vectors), "deletedRows": deleted_rows},
                "pathsSha256": digest(unquote_to_bytes(add["path"]) for add in adds),
                "rawPathsSha256": digest(add["path"].encode() for add in adds),
                "keysSha256": digest(_key_line(add) for add in adds),
            },
            "tombstones": {
                "count": len(removes),
                "expired": sum(1 for remove in removes if (remove.get("deletionTimestamp") or 0) <= now_ms - WEEK_MS),
                "keysSha256": digest(_key_line(remove) for remove in removes),
            },
            "transactions": [self.transactions[app_id] for app_id in sorted(self.transactions)],
            "domains": [
                {"domain": name, "configuration": action["configuration"]}
                for name, action in sorted(self.live_domains.items())
            ],
        }


def replay(commits: Sequence[Iterable[Line]]) -> list[State]:
    """The state of every version, from version 0 on."""
    states: list[State] = []
    for lines in commits:
        states.append((states[-1] if states else State()).after(lines))
    return states


def digest(lines: Iterable[bytes]) -> str:
    """SHA-256 of lines sorted bytewise and joined by LF."""
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()


def _key_line(action: Action) -> bytes:
    return f"{action['path']}\t{vector_id(action)}".encode()
