"""Which spellings of one path engines disagree on."""

from __future__ import annotations

import pytest

from deltacli.delta.paths.engine_readings import SpelledAction, read_as_engines

ROOT = "file:///lake/t"
ABSOLUTE = f"{ROOT}/a"


def history(*commits: str) -> list[SpelledAction]:
    """Return the actions of commits such as `+a -./a`, with a vector in `+a@1`."""
    actions = []
    for version, commit in enumerate(commits):
        for word in commit.split():
            path, _, vector_id = word[1:].partition("@")
            actions.append(SpelledAction(path.replace("ABS", ABSOLUTE), vector_id, version, word[0] == "+"))
    return actions


@pytest.mark.parametrize(
    ("commits", "live_vector_ids", "engines_differ"),
    [
        (["+a", "-./a"], {""}, True),
        (["+./a", "-a"], {""}, True),
        (["+a", "-%61"], {""}, True),
        (["+a", "+./a"], {""}, True),
        (["+a", "-a +./a"], {""}, True),
        (["+a", "-./a", "-a"], set(), None),
        (["+a", "+./a", "-a -./a"], set(), None),
        (["+a", "-a", "+./a"], {""}, None),
        (["+a@1", "-./a@1"], {"1"}, True),
        # Another vector makes a respelling the same to everybody.
        (["+a", "-a +./a@1", "-./a@1 +./a"], {""}, None),
        (["+a", "+ABS"], {""}, False),
        (["+a", "-ABS"], {""}, False),
        (["+ABS", "-a"], {""}, False),
        (["+a", "-a +ABS"], {""}, None),
        (["+a", "-a -ABS"], set(), None),
        (["+a"], {""}, None),
        (["+a", "-a +a"], {""}, None),
    ],
)
def test_a_file_is_in_doubt_where_readings_of_its_paths_differ(
    commits: list[str], live_vector_ids: set[str], engines_differ: bool | None
) -> None:
    found = read_as_engines("a", history(*commits))

    if engines_differ is None:
        assert found is None
    else:
        assert found is not None
        assert live_vector_ids == found.live_vector_ids
        assert engines_differ == found.engines_differ


def test_the_spellings_are_those_of_the_log_oldest_first() -> None:
    found = read_as_engines("a", history("+./a", "+a", "-%61"))

    assert found is not None
    assert ("./a", "a", "%61") == found.spellings
