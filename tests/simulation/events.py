"""What happens to a table from outside while others work on it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.simulation.quiet import Quiet, QuietTree
from tests.simulation.reading import Kind, commits_of, name_of
from tests.simulation.store import Tree, World
from tests.simulation.writers import Writer
from tests.support.builder import HINT, LOG, Files, StoredFile, commit_path


@dataclass
class Scene:
    """Where it happens."""

    world: World
    uri: str
    chance: random.Random
    lost: dict[tuple[Tree, str], StoredFile]
    """What directories have lost."""

    @property
    def tree(self) -> Tree:
        return self.world.places[self.uri]

    def beside(self, name: str) -> str:
        return f"{self.uri.rpartition('/')[0]}/{name}"

    @property
    def newest(self) -> int:
        return max(commits_of(self.tree.files), default=-1)


Event = Callable[[Scene], None]


def switch_link(scene: Scene) -> None:
    """Let the path lead to the copy."""
    copy = scene.beside("copy")
    if copy in scene.world.places:
        scene.world.places[scene.uri] = scene.world.places[copy]


def rename(scene: Scene) -> None:
    """Rename the directory, and put the copy in its place."""
    copy, places = scene.beside("copy"), scene.world.places
    if copy in places:
        places[scene.uri], places[copy] = places[copy], places[scene.uri]


def roll_back(scene: Scene) -> None:
    """Take the newest commits away, as a snapshot of the disk does, with what they brought."""
    _rolled_back(scene, scene.chance.choice((1, 1, 2, 4)))


def rewrite(scene: Scene) -> None:
    """Take the newest commits away, and let another engine commit in their place."""
    count = scene.chance.choice((1, 1, 2))
    _rolled_back(scene, count)
    scene.tree.become(_written_on(scene, count + scene.chance.choice((0, 1))))


def overtake(scene: Scene) -> None:
    """Take the newest commits away, and let another engine commit more than these in their place."""
    count = scene.chance.choice((1, 1, 2))
    _rolled_back(scene, count)
    scene.tree.become(_written_on(scene, count + 1))


def _written_on(scene: Scene, commits: int) -> Files:
    """The files of the table after some commits of another engine."""
    quiet = Quiet(scene.chance.getrandbits(30), scene.world.schedule.time_ms)
    store = QuietTree(quiet, scene.tree.files)
    writer = Writer(quiet, store, quiet.random)
    newest = max(commits_of(store.files), default=-1) + commits
    for _ in range(commits):
        scene.chance.choice((writer.append, writer.append, writer.delete, writer.overwrite))()
    for _ in range(commits):
        if max(commits_of(store.files), default=-1) < newest:  # there may have been nothing to delete
            writer.append()
    return store.files


def _rolled_back(scene: Scene, count: int) -> None:
    files, newest = scene.tree.files, scene.newest
    kept = max(newest - count, min(commits_of(files), default=0))

    def is_newer(path: str) -> bool:
        name = name_of(path)
        is_of_log = name.kind in (Kind.COMMIT, Kind.CHECKPOINT, Kind.CHECKSUM, Kind.COMPACTION)
        return is_of_log and max(name.version, name.last) > kept

    scene.tree.happen(dict.fromkeys(filter(is_newer, files)))
    for place, path in list(scene.lost):  # what had been lost belongs to another past now
        if place is scene.tree and is_newer(path):
            del scene.lost[place, path]


def lose_commit(scene: Scene) -> None:
    """Lose a commit, one of the last three as a rule."""
    found = sorted(commits_of(scene.tree.files))[-scene.chance.choice((3, 3, 100)) :]
    _lose(scene, [commit_path(scene.chance.choice(found))] if found else [])


def lose_newest(scene: Scene) -> None:
    """Lose the newest commit."""
    _lose(scene, [commit_path(scene.newest)] if scene.newest > 0 else [])


def lose_log(scene: Scene) -> None:
    """Lose the whole log."""
    _lose(scene, [path for path in scene.tree.files if path.startswith(f"{LOG}/")])


def lose_file(scene: Scene) -> None:
    """Lose data files, as often as not of those that were written last."""
    files = scene.tree.files
    data = sorted((path for path in files if name_of(path).kind is Kind.DATA), key=lambda path: files[path].modified_ms)
    data = data[-scene.chance.choice((3, 100)) :]
    _lose(scene, scene.chance.sample(data, min(len(data), scene.chance.choice((1, 2)))))


def cut_file(scene: Scene) -> None:
    """Cut a data file short."""
    _cut(scene, Kind.DATA)


def cut_checkpoint(scene: Scene) -> None:
    """Cut a checkpoint short."""
    _cut(scene, Kind.CHECKPOINT)


def cut_commit(scene: Scene) -> None:
    """Cut a commit short, in its last line."""
    path = commit_path(max(scene.newest - scene.chance.choice((0, 0, 1)), 0))
    if path in scene.tree.files:
        _cut_short(scene, path, scene.chance.randint(2, 16))


def lose_hint(scene: Scene) -> None:
    """Lose the hint."""
    _lose(scene, [HINT] if HINT in scene.tree.files else [])


def bring_back(scene: Scene) -> None:
    """Put back what this directory lost and is still gone."""
    tree = scene.tree
    lost = {path: scene.lost.pop((place, path)) for place, path in list(scene.lost) if place is tree}
    tree.happen({path: file for path, file in lost.items() if path not in tree.files})


def copy_anew(scene: Scene) -> None:
    """Make the backup anew."""
    _let_be(scene, "backup", dict(scene.tree.files))


def fork(scene: Scene) -> None:
    """Make a copy that goes its own way from here on; not of a log that lost its newest commits, which tells them."""
    names = [name_of(path) for path in scene.tree.files]
    if max((max(name.version, name.last) for name in names), default=-1) > scene.newest:
        return
    _let_be(scene, "fork", _written_on(scene, scene.chance.choice((1, 1, 2))))


def _let_be(scene: Scene, name: str, files: Files) -> None:
    place = scene.beside(name)
    if place in scene.world.places:
        scene.world.places[place].become(files)
    else:
        scene.world.places[place] = Tree(name, files)


def _lose(scene: Scene, paths: list[str]) -> None:
    scene.lost.update({(scene.tree, path): scene.tree.files[path] for path in paths})
    scene.tree.happen(dict.fromkeys(paths))


def _cut(scene: Scene, kind: Kind) -> None:
    files = scene.tree.files
    found = [path for path in sorted(files) if name_of(path).kind is kind and len(files[path].data) > 16]
    if found:
        _cut_short(scene, scene.chance.choice(found), scene.chance.randint(1, 16))


def _cut_short(scene: Scene, path: str, count: int) -> None:
    scene.lost[scene.tree, path] = file = scene.tree.files[path]
    scene.tree.happen({path: replace(file, data=file.data[:-count])})


EVENTS: Mapping[str, Event] = {
    "switch-link": switch_link,
    "rename": rename,
    "roll-back": roll_back,
    "rewrite": rewrite,
    "overtake": overtake,
    "lose-commit": lose_commit,
    "lose-newest": lose_newest,
    "lose-log": lose_log,
    "lose-file": lose_file,
    "cut-file": cut_file,
    "cut-checkpoint": cut_checkpoint,
    "cut-commit": cut_commit,
    "lose-hint": lose_hint,
    "bring-back": bring_back,
    "copy-anew": copy_anew,
    "fork": fork,
}
OF_DISKS = ("switch-link", "rename")
OF_FILES = ("lose-file", "cut-file")
TAKE_NEXT = ("overtake",)
"""After these, a version that somebody is about to create is there."""
