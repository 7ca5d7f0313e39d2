"""Nothing is put back without a proof that it belongs there: a copy may have gone its own way."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.core.errors import PartlyDone, Refused, Unreadable, UsageError
from deltacli.operations.recover.plan import UndeletePlan
from tests.support.effort import in_turn

LOG = "_delta_log"


def commit(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


@dataclass
class Branch:
    """A table, or a copy that has gone its own way. It shares no code with deltacli."""

    root: Path
    name: str
    live: set[str] = field(default_factory=set)
    gone: list[str] = field(default_factory=list)
    newest: int = -1

    def write(self, *actions: Mapping[str, Any]) -> None:
        self.newest += 1
        lines = [{"commitInfo": {"timestamp": 1_700_000_000_000 + 1_000 * self.newest}}, *actions]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.root / LOG).mkdir(parents=True, exist_ok=True)
        (self.root / commit(self.newest)).write_text(text)

    def create(self) -> Branch:
        schema = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
        metadata = {
            "id": "one", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema),
            "partitionColumns": [], "configuration": {},
        }  # fmt: skip
        self.write({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata})
        return self

    def added(self) -> Mapping[str, Any]:
        path = f"part-{self.name}-{self.newest + 1:05d}.parquet"
        pq.write_table(pa.table({"n": pa.array([self.newest], pa.int64())}), self.root / path)
        self.live.add(path)
        return self._add(path)

    def _add(self, path: str) -> Mapping[str, Any]:
        size = (self.root / path).stat().st_size
        return {"add": {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}}

    def removed(self, path: str) -> Mapping[str, Any]:
        self.live.discard(path)
        self.gone.append(path)
        return {"remove": {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}}

    def append(self) -> None:
        self.write(self.added())

    def delete(self) -> None:
        self.write(*([self.removed(min(self.live))] if self.live else []), {"txn": {"appId": "a", "version": 1}})

    def rewrite(self) -> None:
        self.write(*([self.removed(max(self.live))] if self.live else []), self.added())

    def bring_back(self) -> None:
        """Add a file again that was removed, as a restore does."""
        path = next((path for path in self.gone if (self.root / path).exists()), None)
        self.write(*([self._add(path)] if path else []), {"txn": {"appId": "b", "version": self.newest}})

    def touch(self) -> None:
        self.write({"txn": {"appId": "c", "version": 1}})

    def copied(self, root: Path, name: str) -> Branch:
        shutil.copytree(self.root, root)
        return Branch(root, name, set(self.live), list(self.gone), self.newest)

    def step(self, chance: random.Random) -> None:
        chance.choice([self.append, self.append, self.delete, self.rewrite, self.bring_back, self.touch])()

    def commits(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.root / LOG).glob("*.json")}


def grown(root: Path, commits: int, name: str = "a") -> Branch:
    found = Branch(root, name).create()
    for _ in range(commits):
        found.append()
    return found


def planned(root: Path, copy: Path, **request: Any) -> UndeletePlan:
    return open_table(root).plan_undelete(sources=[str(copy)], **request)


def test_a_table_that_lost_nothing_gets_no_commit_of_a_copy(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    copy = table.copied(tmp_path / "copy", "b")
    copy.append()
    copy.append()

    plan = planned(table.root, copy.root)

    assert (0, 0, ()) == (plan.found.files, plan.missing.files, plan.refusals)
    assert plan.notes[0].startswith("commits 5-6 of")
    assert plan.notes[0].endswith("--accept-commits 5-6")


def test_nor_where_a_commit_in_the_middle_is_lost(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    copy = table.copied(tmp_path / "copy", "b")
    copy.delete()
    before = table.commits()
    (table.root / commit(2)).unlink()

    open_table(table.root).repair(sources=[str(copy.root)], level="log", allow_in_use=True)

    assert before == table.commits()


@pytest.mark.parametrize("change", ["append", "delete", "rewrite", "bring_back", "touch"])
def test_a_gap_is_not_filled_by_a_copy_that_went_its_own_way(change: str, tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    table.delete()
    copy = table.copied(tmp_path / "copy", "b")
    for _ in range(3):
        table.append()
    getattr(copy, change)()
    (table.root / commit(6)).unlink()

    plan = planned(table.root, copy.root)

    assert ["recover.unproven"] == [one.code for one in plan.refusals]
    assert "version 6 of" in plan.refusals[0].message
    assert "up to version 4" in plan.refusals[0].facts["compared"]
    with pytest.raises(Refused) as error:
        open_table(table.root).repair(sources=[str(copy.root)], level="log", allow_in_use=True)
    assert "recover.unproven" == error.value.code
    assert not (table.root / commit(6)).exists()


def test_a_common_commit_that_only_brings_an_old_file_back_proves_nothing(tmp_path: Path) -> None:
    """Found by the property below: both branches restore the same file at the same time."""
    table = grown(tmp_path / "t", 3)
    table.delete()
    copy = table.copied(tmp_path / "copy", "b")
    table.touch()
    copy.append()
    for branch in (table, copy):
        branch.bring_back()
    assert (table.root / commit(6)).read_bytes() == (copy.root / commit(6)).read_bytes()
    (table.root / commit(5)).unlink()

    assert ["recover.unproven"] == [one.code for one in planned(table.root, copy.root).refusals]


def test_a_common_commit_above_the_gap_proves_it(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 8)
    before = table.commits()
    copy = table.copied(tmp_path / "copy", "b")
    for version in (3, 4, 5):
        (table.root / commit(version)).unlink()

    open_table(table.root).undelete(sources=[str(copy.root)])

    assert before == table.commits()


def test_a_file_in_the_table_that_nothing_names_proves_the_commits_up_to_it(tmp_path: Path) -> None:
    """The copy ends in the gap, with a commit whose file the table has; the one before it only deletes."""
    table = grown(tmp_path / "t", 4)
    table.delete()
    table.append()
    before = table.commits()
    copy = table.copied(tmp_path / "copy", "b")
    for version in (5, 6):
        (table.root / commit(version)).unlink()

    open_table(table.root).undelete(sources=[str(copy.root)])

    assert before == table.commits()


def test_commits_above_proven_ones_are_refused_until_they_are_accepted(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 6)
    copy = table.copied(tmp_path / "copy", "b")
    copy.delete()
    for version in (5, 6):
        (table.root / commit(version)).unlink()

    refused = planned(table.root, copy.root)
    without = planned(table.root, copy.root, version=6)
    accepted = planned(table.root, copy.root, accept_commits=[7])

    assert ("recover.unproven", "--version 6") == (refused.refusals[0].code, refused.refusals[0].facts["to do without"])
    assert "lost commits 5-6" in refused.refusals[0].message
    assert ((), 6, 2) == (without.refusals, without.version, without.found.files)
    assert ((), 7, 3) == (accepted.refusals, accepted.version, accepted.found.files)


def test_an_unnamed_file_that_is_newer_than_the_table_indicates_a_loss(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    copy = table.copied(tmp_path / "copy", "b")
    table.append()
    copy.append()
    (table.root / commit(5)).unlink()

    plan = planned(table.root, copy.root)

    assert ["recover.unproven"] == [one.code for one in plan.refusals]
    assert "part-a-00005.parquet" in plan.refusals[0].message


def test_a_commit_that_is_cut_off_is_completed_by_a_copy_with_its_beginning(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    table.write(table.added(), table.added())
    before = table.commits()
    copy = table.copied(tmp_path / "copy", "b")
    newest = table.root / commit(5)
    newest.write_bytes(before[newest.name][:-20])
    for path in table.root.glob("part-a-00005*"):
        path.unlink()

    open_table(table.root).undelete(sources=[str(copy.root)])

    assert before == table.commits()


def test_a_version_that_is_asked_for_is_refused_without_a_proof(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    copy = table.copied(tmp_path / "copy", "b")
    copy.append()

    assert ["recover.unproven"] == [one.code for one in planned(table.root, copy.root, version=5).refusals]


def test_the_list_of_a_backup_of_this_table_proves_its_commits(tmp_path: Path) -> None:
    """Not that of a copy of the table, which has its id."""
    table = grown(tmp_path / "t", 4)
    copy = table.copied(tmp_path / "copy", "b")
    for one in (table, copy):
        one.delete()
        open_table(one.root).backup_log(str(tmp_path / f"backup of {one.name}"))
    (table.root / commit(5)).unlink()

    of_table, of_copy = (planned(table.root, tmp_path / f"backup of {name}") for name in ("a", "b"))

    assert (1, 0) == (of_table.found.files, of_copy.found.files)


def test_the_backup_of_a_copy_is_restored_up_to_the_newest_common_commit_only(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    copy = table.copied(tmp_path / "copy", "b")
    copy.append()
    open_table(copy.root).backup_log(str(tmp_path / "backup"))
    before = table.commits()

    with pytest.raises(Refused) as error:
        open_table(table.root).restore_log(str(tmp_path / "backup"))

    assert ("recover.unproven", "commit 4 is the newest that both have") == (
        error.value.code,
        error.value.facts["compared"],
    )
    assert before == table.commits()


def test_the_log_of_a_table_that_was_moved_gets_its_gap_back(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 4)
    open_table(table.root).backup_log(str(tmp_path / "backup"))
    before = table.commits()
    moved = table.copied(tmp_path / "moved", "a")
    (moved.root / commit(2)).unlink()

    open_table(moved.root).restore_log(str(tmp_path / "backup"))

    assert before == moved.commits()


def test_what_a_proof_compared_is_looked_at_again_before_the_first_file(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 6)
    copy = table.copied(tmp_path / "copy", "b")
    (table.root / commit(3)).unlink()
    handle = open_table(table.root)
    plan = handle.plan_undelete(sources=[str(copy.root)])
    (table.root / commit(6)).write_text('{"add":{"path":"other","partitionValues":{},"size":1}}\n')

    with pytest.raises(Refused) as error:
        handle.execute_undelete(plan)

    assert "recover.unproven" == error.value.code
    assert not (table.root / commit(3)).exists()


def test_a_source_that_changed_since_the_plan_is_not_copied(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 6)
    copy = table.copied(tmp_path / "copy", "b")
    for version in (2, 3):
        (table.root / commit(version)).unlink()
    handle = open_table(table.root)
    plan = handle.plan_undelete(sources=[str(copy.root)])
    changed = copy.root / commit(3)
    changed.write_bytes(changed.read_bytes().replace(b"1700000003000", b"1700000003001"))

    with pytest.raises(PartlyDone) as error:
        handle.execute_undelete(plan)

    facts = error.value.facts
    assert ("undelete.source-changed", "1 file put back", 7) == (
        error.value.code,
        facts["so far"],
        error.value.cause_exit_code,
    )
    assert not (table.root / commit(3)).exists()


def test_accepted_versions_are_numbers() -> None:
    with pytest.raises(UsageError, match="accept_commits"):
        open_table("t").plan_undelete(accept_commits="5")  # type: ignore[arg-type]


def lose_middle(table: Branch, chance: random.Random) -> None:
    for version in chance.sample(range(1, table.newest), min(chance.randint(1, 3), table.newest - 1)):
        (table.root / commit(version)).unlink()


def lose_tip(table: Branch, chance: random.Random) -> None:
    for version in range(chance.randint(max(1, table.newest - 3), table.newest), table.newest + 1):
        (table.root / commit(version)).unlink()


def lose_nothing(table: Branch, chance: random.Random) -> None:
    pass


def files_of(commit: bytes) -> list[tuple[str, str]]:
    """What a commit does to files. One that a repair rebuilt from the rest of the log has other lines beside them."""
    lines = map(json.loads, commit.splitlines())
    return sorted((kind, line[kind]["path"]) for line in lines for kind in ("add", "remove") if kind in line)


def live_by_replay(commits: Mapping[str, bytes], version: int) -> set[str]:
    live: set[str] = set()
    for name in sorted(commits)[: version + 1]:
        for line in map(json.loads, commits[name].splitlines()):
            live |= {line["add"]["path"]} if "add" in line else set()
            live -= {line["remove"]["path"]} if "remove" in line else set()
    return live


@pytest.mark.parametrize("seed", in_turn(range(200), 5))
def test_every_version_is_as_it_was_or_the_plan_is_refused(seed: int, tmp_path: Path) -> None:
    """The copy goes its own way from any point on; the table loses commits in the middle, at its tip, or none."""
    chance = random.Random(seed)
    table = Branch(tmp_path / "t", "a").create()
    for _ in range(chance.randint(2, 6)):
        table.step(chance)
    copy = table.copied(tmp_path / "copy", "b")
    for branch in (table, copy):
        for _ in range(chance.randint(0, 3)):
            branch.step(chance)
        if chance.random() < 0.3:
            open_table(branch.root).checkpoint()
    before = table.commits()
    lose: Callable[[Branch, random.Random], None] = chance.choice([lose_nothing, lose_middle, lose_tip])
    lose(table, chance)

    with suppress(Refused, Unreadable, PartlyDone):
        if chance.random() < 0.5:
            open_table(table.root).undelete(sources=[str(copy.root)])
        else:
            open_table(table.root).repair(sources=[str(copy.root)], level="log", allow_in_use=True)

    after = table.commits()
    assert after.keys() <= before.keys()
    assert {name: files_of(before[name]) for name in after} == {name: files_of(after[name]) for name in after}
    for path in (table.root / LOG).glob("*.checkpoint.parquet"):
        rows = pq.read_table(path, columns=["add"])["add"].to_pylist()
        live = {row["path"] for row in rows if row is not None}
        assert live_by_replay(before, int(path.name.split(".")[0])) == live
