"""What happens to the files of a table before a command sets it right.

Each function gets the directory of the table. Beside it, under the name that `backup_of` returns, lies a copy of the
table as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path


def backup_of(table: Path) -> Path:
    """Return the directory in which a test keeps a copy of the table as it was before the accident."""
    return table.with_name(f"{table.name}-backup")


def lose_data_files(table: Path) -> None:
    """Delete half of the data files and all deletion vectors, as a careless clean-up does.

    Change data stays, because `undelete` brings back the files of the newest version only. Change data is recognized by
    its file name: in a table with column mapping, Spark writes it to a directory with a random name.
    """
    data = [path for path in _data_files(table) if not path.name.startswith("cdc-")]
    for path in data[::2] + sorted(table.rglob("deletion_vector_*.bin")):
        _delete(path)


def cut_data_files(table: Path) -> None:
    """Cut every second data file in half, as a full disk does."""
    for path in _data_files(table)[::2]:
        _overwrite(path, path.read_bytes()[: path.stat().st_size // 2])


def lose_log(table: Path) -> None:
    """Delete the directory of the log."""
    shutil.rmtree(table / "_delta_log")


def lose_commits(table: Path) -> None:
    """Delete the commits after the first one, and every checkpoint."""
    log = table / "_delta_log"
    for path in _commits(table)[1:] + sorted(log.glob("*.checkpoint*")) + sorted(log.glob("_sidecars/*.parquet")):
        _delete(path)
    _delete(log / "_last_checkpoint")


def cut_commit(table: Path) -> None:
    """Cut the last commit off in the middle of its last line."""
    path = _commits(table)[-1]
    _overwrite(path, path.read_bytes().rstrip()[:-20])


def cut_checkpoints(table: Path) -> None:
    """Cut the newest checkpoint, its sidecars excepted, in half."""
    path = sorted((table / "_delta_log").glob("*.checkpoint*"))[-1]
    _overwrite(path, path.read_bytes()[: path.stat().st_size // 2])


def cut_hint(table: Path) -> None:
    """Leave `_last_checkpoint` with half of its text."""
    path = table / "_delta_log" / "_last_checkpoint"
    _overwrite(path, path.read_bytes()[: path.stat().st_size // 2])


def lose_version_checksums(table: Path) -> None:
    """Delete the version checksums, as a writer does that writes none."""
    for path in (table / "_delta_log").glob("[0-9]*.crc"):
        _delete(path)


def change_version_checksum(table: Path) -> None:
    """Let the newest version checksum claim another number of files."""
    path = sorted((table / "_delta_log").glob("[0-9]*.crc"))[-1]
    checksum = json.loads(path.read_text())
    checksum["numFiles"] += 1
    _overwrite(path, json.dumps(checksum).encode())


def lose_statistics(table: Path) -> None:
    """Take the statistics out of all commits, as a writer does that writes none.

    Deletion vectors need the number of rows, so this one is kept.
    """
    for path in _commits(table):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            statistics = json.loads(action.get("add", {}).get("stats") or "{}")
            if statistics:
                action["add"]["stats"] = json.dumps({"numRecords": statistics["numRecords"]})
        _overwrite(path, "".join(f"{json.dumps(action)}\n" for action in actions).encode())
    # Checksums of versions repeat the statistics of all files.
    lose_version_checksums(table)


def make_old(table: Path) -> None:
    """Let every file but the newest commit be forty days old, so that a clean-up may delete it."""
    newest = _commits(table)[-1]
    begin = time.time() - 40 * 86400
    for path in sorted(table.rglob("*")):
        if path.is_file() and path != newest:
            number = int(path.name[:20]) if path.name[:20].isdigit() else 0
            os.utime(path, (begin + number, begin + number))


def become_parquet(table: Path) -> None:
    """Leave the live data files under names that no Delta writer uses, without a log."""
    live = dict[str, None]()
    for path in _commits(table):
        for line in path.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                live[action["add"]["path"]] = None
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
    for number, name in enumerate(live):
        (table / name).rename(table / f"rows-{number}.parquet")
    for path in _data_files(table):
        if not path.name.startswith("rows-"):
            _delete(path)
    lose_log(table)


def _data_files(table: Path) -> list[Path]:
    log = table / "_delta_log"
    return [path for path in sorted(table.rglob("*.parquet")) if log not in path.parents]


def _commits(table: Path) -> list[Path]:
    return [path for path in sorted((table / "_delta_log").glob("*.json")) if path.stem.isdigit()]


def _delete(path: Path) -> None:
    """Delete a file together with the checksum file that Hadoop keeps beside it."""
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _overwrite(path: Path, content: bytes) -> None:
    """Write other content with the old time, and delete the checksum file that Hadoop keeps beside the file.

    Otherwise Spark would refuse the file for its checksum whatever a repair writes later.
    """
    modified_ns = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(modified_ns, modified_ns))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
