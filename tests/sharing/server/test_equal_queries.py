"""Queries at the same time: equal ones share the making of their lines, and no other ones do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random

import pytest

from deltacli.sharing.protocol.lines import IdHash
from deltacli.sharing.protocol.parameters import parse_capabilities, parse_query
from deltacli.sharing.server import table_answers as pages
from deltacli.sharing.server.exchange import Access, Caller
from deltacli.sharing.server.table_answers import ROWS_A_STEP, Wishes, sign_lines
from tests.sharing.served import NOW_MS, Served, shared
from tests.support.actions import Line, add, birth, remove
from tests.support.builder import TableBuilder

STEPS = 6
FILES = STEPS * ROWS_A_STEP - 100
ACME = Caller("acme", token_id="one", token_epoch=1)
QUERY = b"{}"


@dataclass
class Asking:
    """A table of many files, and how often lines of them were made."""

    served: Served
    made: int = 0

    def parts(self, caller: Caller = ACME, body: bytes = QUERY, wishes: Wishes | None = None) -> Iterator[bytes]:
        """Begin a query, and return the parts of its answer."""
        table = self.served.tables[0]
        access = Access(caller, self.served.state.configuration.catalog)
        wanted = wishes or Wishes(parse_capabilities(None))
        return iter(self.served.application.tables.query(access, table, parse_query(body, 20), wanted).parts)

    def answer(self, caller: Caller = ACME, body: bytes = QUERY, wishes: Wishes | None = None) -> bytes:
        """Return the answer to a query that is the only one."""
        return _lines(b"".join(self.parts(caller, body, wishes)))


def _file(number: int) -> Line:
    ends = f'"minValues":{{"id":{number}}},"maxValues":{{"id":{number}}},"nullCount":{{"id":0}}'
    return add(f"part-{number:05d}.parquet", stats=f'{{"numRecords":1,{ends}}}')


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    files = [_file(number) for number in range(FILES)]
    Random(1).shuffle(files)
    found = Asking(Served((shared(TableBuilder().commit(*birth(), *files).write(tmp_path / "t")),)))

    def counted(*given: object) -> bytes:
        found.made += 1
        return sign_lines(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(pages, "sign_lines", counted)
    return found


def _lines(body: bytes) -> bytes:
    """Return an answer without the token of the next page, which is never the same."""
    return body.partition(b'{"endStreamAction"')[0]


def _together(*answers: Iterator[bytes]) -> list[bytes]:
    """Return answers whose parts are made in turn."""
    bodies = [b""] * len(answers)
    for parts in zip_longest(*answers, fillvalue=b""):
        bodies = [body + part for body, part in zip(bodies, parts, strict=True)]
    return [_lines(body) for body in bodies]


def test_equal_queries_at_the_same_time_make_their_lines_once(asking: Asking) -> None:
    alone = asking.answer()
    asking.made = 0

    bodies = _together(*(asking.parts() for _ in range(10)))

    assert {alone} == set(bodies)
    assert asking.made <= STEPS + 1  # the first one has begun alone
    assert 0 == asking.served.application.tables.lines.kept_bytes


OTHERS = {
    "recipient": (replace(ACME, name="other"), QUERY, None),
    "token": (replace(ACME, token_epoch=2), QUERY, None),
    "end of the token": (replace(ACME, expires_ms=NOW_MS + 60_000), QUERY, None),
    "format": (ACME, QUERY, Wishes(parse_capabilities("responseformat=delta"))),
    "ids": (ACME, QUERY, Wishes(parse_capabilities(None), IdHash.DELTA)),
    "version": (ACME, b'{"version": 0}', None),
    "predicate": (ACME, b'{"predicateHints": ["id < 1500"]}', None),
    "page": (ACME, b'{"maxFiles": 700}', None),
}


@pytest.mark.parametrize("what", OTHERS)
def test_queries_that_differ_get_what_each_gets_alone(asking: Asking, what: str) -> None:
    caller, body, wishes = OTHERS[what]
    alone = [asking.answer(), asking.answer(caller, body, wishes)]
    assert alone[0] != alone[1]

    together = _together(asking.parts(), asking.parts(caller, body, wishes), asking.parts())

    assert [*alone, alone[0]] == together


def test_a_query_that_begins_after_a_commit_gets_its_files(asking: Asking, tmp_path: Path) -> None:
    before, old = asking.answer(), asking.parts()
    begun = next(old)
    commit = "".join(f"{json.dumps(line)}\n" for line in (remove("part-00007.parquet"), _file(FILES)))
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").write_text(commit)
    new = asking.parts()

    rest, after = _together(old, new)

    assert before == begun + rest
    assert asking.answer() == after != before


def test_an_answer_that_is_cut_leaves_the_others_whole(asking: Asking) -> None:
    alone = asking.answer()
    first, second, cut = asking.parts(), asking.parts(), asking.parts()
    begun = next(first), next(second), next(cut)
    del cut

    assert [alone, alone] == [part + rest for part, rest in zip(begun[:2], _together(first, second), strict=True)]


def test_urls_are_valid_for_their_lifetime_rounded_down(asking: Asking) -> None:
    found = []
    for later_ms in (0, 9_999, 10_000):
        asking.served.now_ms = NOW_MS + later_ms
        found.append(asking.answer())

    assert found[0] == found[1] != found[2]
    assert f'"expirationTimestamp":{NOW_MS + 3_600_000},'.encode() in found[1]
