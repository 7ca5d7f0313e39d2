"""What the simulation found: a scenario each, in its smallest form, which must go right ever after."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.scenario import Item, Scenario
from tests.simulation.schedule import Fault, FaultKind


class Found(NamedTuple):
    """What was wrong, and a history of it."""

    what: str
    scenario: Scenario


def _scenario(
    seed: int, *items: Item, is_disk: bool = True, has_copy: bool = False, has_backup: bool = False
) -> Scenario:
    return Scenario(seed, is_disk, items, (), {}, has_copy, has_backup)


FOUND: tuple[Found, ...] = (
    Found(
        "restore --where ended with 70 where an older version had no file of the partition",
        _scenario(
            23,
            Item("admin1", "restore-where", 87444773),
            Item("admin2", "restore", 250686947, 60.0, 4.0),
            Item("writer1", "act", 4248886427, 2.0),
            Item("writer2", "clean_log", 1465291072, 0.1),
            Item("writer2", "rewrite", 2199243839),
            Item("world", "cut-file", 1786115928),
            is_disk=False,
            has_copy=True,
        ),
    ),
    Found(
        "a clone left its note in the source where a checkpoint of that was cut before the commit",
        _scenario(
            501,
            Item("admin1", "clone", 789476588, 2.0, 4.0),
            Item("world", "cut-checkpoint", 3877807290, 0.0, 20.0, 20),
            is_disk=False,
        ),
    ),
    Found(
        "files that only a copy had were missed where its log was put back",
        _scenario(
            800_034,
            Item("admin1", "backup-copy", 4124581284, 5.0, 108_000.0),
            Item("admin1", "log-restore", 2658330364, 5.0, 108_000.0),
            Item("world", "lose-log", 656876690, 0.0, 130.0, 17),
            has_copy=True,
        ),
    ),
    Found(
        "a cut commit that a compaction determined was taken for another one after its repair",
        _scenario(
            710_384,
            Item("admin1", "cut-commit", 948681409),
            Item("admin1", "repair", 3948627607, 5.0, 108_000.0, meanwhile="clone"),
            is_disk=False,
            has_copy=True,
        ),
    ),
    Found(
        "optimize was to leave nothing to do, where it had left a file that another writer touched",
        _scenario(
            900_297,
            Item("admin1", "vacuum", 3492975154, 0.0, 20.0),
            Item("admin2", "optimize", 1704082968, 0.0, 108_000.0),
            Item("writer1", "act", 579245503, 0.1),
            Item("writer1", "add_column", 2864351863, 0.1, 4.0),
            Item("writer2", "delete", 1249238330, 0.0, 0.05),
            Item("world", "fork", 941331081, 0.0, 108_000.0, 158),
        ),
    ),
    Found(
        "repair replaced a sound commit where the checkpoint of its version, in JSON, was cut",
        _scenario(
            21_003_827,
            Item("admin1", "cut-checkpoint", 1171922349, 5.0, 108_000.0),
            Item("admin1", "repair", 1480638729, 0.0, 3_600.0),
        ),
    ),
    Found(
        "a vacuum ended as done whose quarantine was emptied meanwhile",
        Scenario(
            21_003_382,
            False,
            (
                Item("admin1", "purge", 2646611747, 0.0, 1.0, is_standing=False),
                Item("admin2", "vacuum-quarantine", 112231389, 0.0, 4.0),
                Item("admin3", "alter", 3143451298, 0.1, 3_600.0),
            ),
            (Fault("admin2", 6, FaultKind.SLOW_BEFORE),),
            {},
            has_copy=False,
            has_backup=False,
        ),
    ),
    Found(
        "log backup took a commit that was cut since it was listed, and log restore put it back",
        Scenario(
            21_007_307,
            True,
            (
                Item("admin1", "backup", 289432956, 5.0, 20.0),
                Item("admin1", "lose-commit", 2678792864, 691_200.0, is_standing=False),
                Item("admin1", "log-restore", 2788261289, 691_200.0, 3_600.0, is_standing=False),
                Item("world", "cut-commit", 533500447, 0.0, 20.0, 18, is_standing=False),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "a change took the number of a version that was made and lost while it waited, beside the checkpoint of that",
        _scenario(
            22_004_834,
            Item("admin1", "alter", 2790980890, 2.0, 20.0),
            Item("writer1", "rewrite", 4050548620, 0.0, 4.0),
            Item("writer1", "update", 3068578234, 4_000.0, 4.0),
            Item("writer2", "append", 2836875908, 2.0, 3_600.0),
            Item("writer2", "checkpoint", 4235823461, 0.0, 1.0),
            Item("writer2", "clean_log", 1984934065, 0.0, 108_000.0),
            Item("world", "lose-newest", 665298076, 0.0, 20.0, 31),
            is_disk=False,
        ),
    ),
    Found(
        "repair --undo put a damaged commit back that had expired since the repair",
        Scenario(
            21010111,
            True,
            (
                Item("admin1", "checkpoint", 3570483856, 0.0, 1.0),
                Item("admin1", "cut-checkpoint", 596712430, 691200.0, 130.0),
                Item("admin1", "repair", 2254479367, 0.0, 1.0),
                Item("admin1", "expire", 2443603536, 691200.0, 3600.0),
                Item("admin1", "undo", 4061928873, 5.0, 20.0),
                Item("world", "cut-commit", 2146964567, 4000.0, 108000.0),
            ),
            (),
            {},
            has_copy=False,
            has_backup=True,
        ),
    ),
    Found(
        "a commit that had lost its number was made in a log that was lost meanwhile",
        Scenario(
            23000829,
            False,
            (
                Item("admin1", "optimize-purge", 277050989, 0.0, 108000.0),
                Item("writer1", "append", 2657039246, 4000.0, 3600.0, is_standing=False),
                Item("writer1", "append", 1531278451, 0.0, 3600.0),
                Item("world", "lose-log", 3376780099, 0.0, 3600.0, 33),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "a commit was sent again into a log that was rolled back behind the last look at it",
        Scenario(
            23002944,
            True,
            (
                Item("admin1", "properties", 2308819979, 0.1, 4.0),
                Item("admin2", "expire", 1365423644, 0.0, 1.0, is_standing=False),
                Item("admin2", "features-drop", 1862982150, 0.1, 1.0),
                Item("world", "cut-commit", 2575908699, 0.0, 20.0, 78),
                Item("world", "roll-back", 4129052376, 0.0, 108000.0, 15),
            ),
            (Fault("admin1", 1, FaultKind.SILENT, is_of_writes=True),),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "a commit was made in the gap that a lost commit had left below later ones",
        Scenario(
            23004822,
            False,
            (
                Item("admin1", "optimize", 1606782578, 0.0, 4.0, is_standing=False),
                Item("admin2", "optimize", 1254703603, 60.0, 130.0),
                Item("writer1", "clean_log", 4109478693, 0.0, 4.0, is_standing=False),
                Item("writer1", "update", 390914428, 0.1, 20.0),
                Item("writer1", "update", 2756376834, 0.0, 108000.0),
                Item("world", "lose-commit", 715816979, 0.0, 1.0, 23),
            ),
            (),
            {},
            has_copy=False,
            has_backup=False,
        ),
    ),
    Found(
        "a restore brought files back that a vacuum deleted, which had looked at the log before",
        Scenario(
            23007263,
            True,
            (
                Item("admin1", "vacuum-lite", 583686033, 0.0, 3600.0, is_standing=False),
                Item("admin2", "restore-from", 317047287, 0.0, 4.0, is_standing=False),
                Item("admin3", "vacuum-lite", 2983454122, 0.0, 0.05),
                Item("world", "bring-back", 2130719683, 0.0, 4.0, 35, is_standing=False),
            ),
            (Fault("admin1", 1, FaultKind.CRASH_BEFORE),),
            {},
            has_copy=False,
            has_backup=True,
        ),
    ),
    Found(
        "a version was restored from two pasts: its commits were read twice, and replaced in between",
        Scenario(
            26002732,
            True,
            (
                Item("admin1", "restore-from", 1117220244, 4000.0, 0.05),
                Item("admin2", "checkpoint", 2011435068, 0.0, 20.0),
                Item("writer1", "append", 1202482603, 2.0, 20.0),
                Item("writer1", "clean_log", 1868713958, 0.0, 20.0),
                Item("world", "overtake", 3104895891, 0.0, 1.0, 40),
            ),
            (),
            {},
            has_copy=True,
            has_backup=True,
        ),
    ),
    Found(
        "a commit whose answer was lost was said to be none where another directory was at its path by then",
        Scenario(
            27007083,
            True,
            (
                Item("admin1", "vacuum-saved", 2619401365, 4000.0, 130.0, is_standing=False),
                Item("admin2", "repair", 1105271990, 4000.0, 108000.0),
                Item("admin2", "zorder", 3838013844, 0.0, 1.0),
                Item("writer1", "rewrite", 3352178799, 0.0, 1.0),
                Item("writer1", "act", 4169443390, 2.0, 130.0),
                Item("world", "switch-link", 2077482971, 0.0, 108000.0, 119, is_standing=False),
            ),
            (Fault("admin2", 2, FaultKind.DELAYED),),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "behind the commits of others, a change took the number of a version that was lost, beside its checkpoint",
        Scenario(
            27007901,
            True,
            (
                Item("admin1", "features-drop", 1023241604, 0.0, 108000.0),
                Item("admin2", "alter", 3145200528, 0.0, 108000.0),
                Item("writer1", "append", 264692128, 0.0, 4.0, is_standing=False),
                Item("writer1", "append", 1539864144, 0.1, 108000.0),
                Item("writer1", "checkpoint", 3702803251, 60.0, 4.0),
                Item("world", "lose-newest", 1241446565, 0.0, 0.05, 33),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
            order=2,
        ),
    ),
    Found(
        "repair replaced a sound commit that was written in place of a damaged one after the plan",
        Scenario(
            27012157,
            True,
            (
                Item("admin1", "cut-commit", 3363787126, 4000.0),
                Item("admin1", "repair", 1476455539, 691200.0, 108000.0, meanwhile="overtake"),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "repair replaced a sound commit that was written in place of a damaged one while the plan was made",
        Scenario(
            27014362,
            False,
            (
                Item("admin1", "cut-commit", 1197915956, 691200.0, 3600.0),
                Item("admin1", "repair", 2214962489, 691200.0, 108000.0, is_standing=False),
                Item("world", "overtake", 1038799000, 0.0, 3600.0, 25),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "a checkpoint was cut while the log was proven, and the commits before it were deleted",
        Scenario(
            27015584,
            True,
            (
                Item("admin1", "expire", 3498246080, 60.0),
                Item("world", "cut-checkpoint", 536594774, 0.0, 20.0, 163),
            ),
            (),
            {},
            has_copy=False,
            has_backup=False,
        ),
    ),
    Found(
        "new files that could not be deleted were not named where a feature was not dropped",
        Scenario(
            27028536,
            True,
            (
                Item("admin2", "alter", 1013957683, 2.0, 3600.0),
                Item("admin2", "alter", 3417603998, 0.0, 20.0),
                Item("admin3", "features-drop", 3279903862, 4000.0, 20.0),
                Item("world", "lose-file", 2385072615, 0.0, 1.0, 34, is_standing=False),
            ),
            (Fault("admin3", 3, FaultKind.FAIL_BEFORE),),
            {},
            has_copy=False,
            has_backup=False,
        ),
    ),
    Found(
        "the undo of a repair put a damaged checkpoint back where its commits were damaged by then",
        Scenario(
            27032922,
            False,
            (
                Item("admin1", "checkpoint", 2811034703, 691200.0, 3600.0),
                Item("admin1", "cut-checkpoint", 13458461, 4000.0, 20.0),
                Item("admin1", "repair", 1243010145, 0.0, 130.0),
                Item("admin1", "vacuum", 1018906104, 691200.0, meanwhile="cut-commit"),
                Item("admin1", "undo", 1126920479, 691200.0, 130.0),
            ),
            (),
            {},
            has_copy=False,
            has_backup=True,
        ),
    ),
    Found(
        "log restore put an expired commit back, alone, while a clean-up of the log was under way",
        Scenario(
            27074011,
            False,
            (
                Item("admin1", "log-restore", 3542680317, 2.0, is_standing=False),
                Item("admin2", "compact", 1808423360, 0.0, 3600.0, is_standing=False),
                Item("admin3", "compact", 3012130203, 0.0, 1.0, is_standing=False),
                Item("admin3", "optimize-purge", 2360426146, 0.0, 4.0, is_standing=False),
                Item("writer1", "clean_log", 3431909308, 2.0, 20.0),
                Item("world", "cut-file", 278085477, 0.0, 130.0, 51),
            ),
            (),
            {},
            has_copy=False,
            has_backup=True,
        ),
    ),
    Found(
        "a clock that went wrong dated the tombstones of a restore a day early behind another writer's commit",
        Scenario(
            27078854,
            True,
            (
                Item("admin1", "restore-from", 1379567100, 0.0, 1.0),
                Item("writer2", "append", 2245723952, 2.0, 3600.0, is_standing=False),
                Item("world", "clock", 946018581, 0.0, 0.05, 54, is_standing=False),
            ),
            (),
            {},
            has_copy=False,
            has_backup=True,
        ),
    ),
    Found(
        "the same behind the commits of a vacuum that came since the plan",
        Scenario(
            27091923,
            True,
            (
                Item("admin1", "vacuum-quarantine", 562340897, 0.1, 130.0),
                Item("admin2", "restore-from", 4167720139, 0.1, 3600.0),
                Item("world", "clock", 1235920412, 0.0, 4.0, 34),
            ),
            (),
            {},
            has_copy=False,
            has_backup=True,
        ),
    ),
    Found(
        "the undo of a repair put a damaged commit back below one that another writer made in a lost one's place",
        Scenario(
            27084511,
            True,
            (
                Item("admin1", "cut-commit", 1274328981, 0.0, 1.0),
                Item("admin1", "repair", 627246147, 0.0, 3600.0),
                Item("admin1", "append", 2338797430, 691200.0, 3600.0),
                Item("admin1", "undo", 1567949975, 4000.0, 20.0),
                Item("world", "lose-newest", 95599054, 0.0, 0.05, 9, is_standing=False),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "the undo of a repair put a commit back above the gap of a log that was rolled back",
        Scenario(
            27093592,
            True,
            (
                Item("admin1", "cut-commit", 1196502838),
                Item("admin1", "repair", 3034631551, 5.0, 1.0),
                Item("admin1", "undo", 534641219, 4000.0, 4.0, is_standing=False),
                Item("world", "roll-back", 3086049587, 0.0, 108000.0, 113),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "a repair was refused and did not name the backup that it could not delete",
        Scenario(
            27115966,
            True,
            (
                Item("admin1", "cut-commit", 2076119685, 5.0, 20.0),
                Item("admin1", "repair", 617111078, 5.0, 108000.0, is_standing=False, meanwhile="lose-commit"),
            ),
            (Fault("admin1", 4, FaultKind.FAIL_BEFORE),),
            {},
            has_copy=False,
            has_backup=True,
        ),
    ),
    Found(
        "a vacuum went on where its START was lost, so that a clone did not wait for its end",
        Scenario(
            27187738,
            False,
            (
                Item("admin1", "vacuum-quarantine", 1791426102, 0.1),
                Item("admin2", "clone", 3338146364, 60.0, 20.0, is_standing=False),
                Item("admin3", "clone", 276557143, 2.0, 1.0),
                Item("writer1", "append", 923525180, 2.0, 3600.0),
                Item("world", "overtake", 4293818368, 0.0, 130.0, 108, is_standing=False),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "a vacuum deleted files after a log was rolled back while it read a newer version of the table",
        Scenario(
            27197118,
            True,
            (
                Item("admin1", "widen", 1918101544, 2.0, 130.0),
                Item("admin2", "vacuum-quarantine", 40206613, 0.0, 3600.0, is_standing=False),
                Item("world", "roll-back", 3190149457, 0.0, 4.0, 120),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
    Found(
        "a repair whose checkpoint was written, and whose hint was refused, said that nothing was changed",
        Scenario(
            1188,
            True,
            (
                Item("admin1", "checkpoint", 1839787619, 0.0, 130.0, is_standing=False),
                Item("admin1", "cut-checkpoint", 273968520, 0.0, 1.0, is_standing=False),
                Item("admin1", "repair", 2210414765, 5.0),
                Item("world", "switch-link", 250335851, 0.0, 1.0, 103),
            ),
            (),
            {},
            has_copy=True,
            has_backup=False,
        ),
    ),
)
