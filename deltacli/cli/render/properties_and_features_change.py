"""A change of properties or features, in sections."""

from __future__ import annotations

from deltacli.cli.render.sections import Section
from deltacli.typing import JsonObject


def change_sections(table: str, content: JsonObject, *, is_done: bool) -> list[Section]:
    """Return the sections of a change of properties or features, without those that are empty."""
    changes = content["changes"]
    if not changes:
        said = "none of the keys is set" if content.get("cautions") else "already set"
        return [Section("nothing to do", [f"{table}, version {content['version']}: {said}"])]
    before, after = content["protocolBefore"], content["protocolAfter"]
    now, committed = protocol_line(after), content["committedVersion"]
    version = f"{committed}, committed" if is_done else f"{content['version'] + 1}, unless another writer commits first"
    sections = [
        Section("table", [table]),
        Section("version", [version]),
        Section("changed" if is_done else "would change", [_change(change) for change in changes], is_cut=False),
        Section("protocol", [now if before == after else f"{protocol_line(before)} -> {now}"]),
        Section("readers", [content["readers"]] if "readers" in content else [], is_cut=False),
        Section("writers", [content["writers"]] if "writers" in content else [], is_cut=False),
    ]
    return [section for section in sections if section.lines]


def _change(change: JsonObject) -> str:
    if "feature" in change:
        return (
            f"{change['feature']}, which {change['neededBy']} needs" if "neededBy" in change else str(change["feature"])
        )
    before = change.get("before", "(not set)")
    return f"{change['key']}: {before} -> {change.get('after', '(not set)')}"


def protocol_line(action: JsonObject) -> str:
    """Return the versions and the features of a protocol action."""
    versions = f"reader {action['minReaderVersion']}, writer {action['minWriterVersion']}"
    named = sorted({*(action.get("readerFeatures") or ()), *(action.get("writerFeatures") or ())})
    return f"{versions} with {', '.join(named)}" if named else versions
