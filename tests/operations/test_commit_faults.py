"""`commit` on a store that fails, is slow, repeats itself or forgets to answer: one request is one version at most,
and what is said of it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.changing.commit import Committed
from deltacli.core.errors import ConflictLost, DeltacliError, OutcomeUnknown, StorageFailed
from deltacli.storage import Created, Creation, Existed, FileStat, Storage, Unknown, open_storage
from tests.support.actions import Line, add, commit_info, domain, metadata
from tests.support.builder import commit_path
from tests.support.committing import (
    STAMPED,
    Make,
    Rivals,
    commits,
    count_up,
    count_up_domain,
    infos,
    run,
    say,
    table_of_commits,
    versions_of,
)
from tests.support.effort import examples
from tests.support.fateful import Fateful
from tests.support.faulty import Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at
from tests.support.s3 import Fault as S3Fault
from tests.support.s3 import S3Server, breaks, loses_reply, says

WINNER = [commit_info("WRITE", inCommitTimestamp=1), add("a")]
CHANGE = [commit_info("SET TBLPROPERTIES"), metadata(configuration={"count": "5"})]
SITUATIONS: dict[str, list[Any]] = {"alone": [], "after a winner": [WINNER], "after a change": [CHANGE]}


def calls_of(rounds: list[Any]) -> list[str]:
    counting = FaultyStorage(Rivals(table_of_commits().in_memory(), *rounds))
    run(counting, count_up())
    return [verb for verb, _ in counting.calls]


def outcome(storage: Storage, make: Make | None = None) -> Committed | DeltacliError:
    try:
        done = run(storage, make or count_up())
    except DeltacliError as fault:
        return fault
    assert isinstance(done, Committed)
    return done


def check(inner: MemoryStorage, found: Committed | DeltacliError) -> None:
    """What was said is true, and the log is one that everybody can read."""
    ours = versions_of(inner)
    match found:
        case Committed(version=version):
            assert [version] == ours
        case OutcomeUnknown():
            assert len(ours) <= 1
        case _:
            assert [] == ours
    snapshot = open_at(inner).snapshot()
    assert len(commits(inner)) - 1 == snapshot.version
    expected = len(ours) + (5 if "SET TBLPROPERTIES" in [i.get("operation") for i in rivals(inner)] else 0)
    assert expected == int(snapshot.properties.get("count", "0"))


def rivals(inner: MemoryStorage) -> list[dict[str, Any]]:  # Any: JSON values
    return [info for info in infos(inner) if info.get("txnId") != "ours"]


def creations(calls: list[str]) -> Iterator[int]:
    yield from (number for number, verb in enumerate(calls, 1) if verb == "put_if_absent")


@pytest.mark.parametrize("rounds", SITUATIONS.values(), ids=SITUATIONS)
def test_the_calls_that_can_fail(rounds: list[Any]) -> None:
    assert 1 + len(rounds) == calls_of(rounds).count("put_if_absent")


@pytest.mark.parametrize("rounds", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.DUPLICATED])
def test_a_fault_at_any_call_never_makes_half_a_commit_or_two(fault: Fault, rounds: list[Any]) -> None:
    calls = calls_of(rounds)
    for at, verb in enumerate(calls, 1):
        if verb == "put_if_absent" and fault is Fault.AFTER:
            continue  # a back end that raises has left nothing behind
        inner = table_of_commits().in_memory()

        found = outcome(FaultyStorage(Rivals(inner, *rounds), at, fault))

        check(inner, found)
        assert isinstance(found, Committed | StorageFailed), (at, verb)
        if fault is Fault.DUPLICATED:
            assert isinstance(found, Committed)
        again = outcome(inner)
        assert isinstance(again, DeltacliError | Committed)


@pytest.mark.parametrize("rounds", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.UNSENT])
def test_a_creation_without_an_answer_is_found_out(fault: Fault, rounds: list[Any]) -> None:
    for at in creations(calls_of(rounds)):
        inner = table_of_commits().in_memory()

        found = outcome(FaultyStorage(Rivals(inner, *rounds), at, fault))

        check(inner, found)
        assert isinstance(found, Committed)


@pytest.mark.parametrize("rounds", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("delay", range(1, 9))
def test_a_delayed_creation_happens_once(delay: int, rounds: list[Any]) -> None:
    for at in creations(calls_of(rounds)):
        inner = table_of_commits().in_memory()
        storage = FaultyStorage(Rivals(inner, *rounds), at, Fault.DELAYED, delay=delay)

        found = outcome(storage)

        check(inner, found)
        storage.arrive()
        check(inner, found)
        assert isinstance(found, Committed)


def test_a_creation_delayed_until_after_the_timeout_happens_once() -> None:
    inner = table_of_commits().in_memory()
    sent: list[Callable[[], Creation]] = []

    class Late(Rivals):
        def put_if_absent(self, path: str, data: bytes, **_: Any) -> Creation:  # Any: as in the port
            sent.append(lambda: inner.put_if_absent(path, data))
            return Unknown("no answer")

    found = outcome(Late(inner))
    assert isinstance(found, OutcomeUnknown)
    check(inner, found)
    assert [] == versions_of(inner)

    arrived = [arrive() for arrive in sent]

    assert 1 == arrived.count(Created()) < len(arrived)
    check(inner, found)
    assert [3] == versions_of(inner)


@pytest.mark.parametrize(
    ("answer", "why"),
    [(Unknown("no answer"), "no answer"), (Existed(), "the version exists, but its writer cannot be read")],
    ids=["lost", "sent twice"],
)
def test_an_outcome_that_cannot_be_verified_is_unknown(answer: Creation, why: str) -> None:
    inner = table_of_commits().in_memory()

    class Blind(Rivals):
        is_blind = False

        def put_if_absent(self, path: str, data: bytes, **_: Any) -> Creation:  # Any: as in the port
            if self.is_blind:
                raise StorageFailed("the network is down")
            self.is_blind = True
            inner.put_if_absent(path, data)
            return answer

        def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
            if self.is_blind:
                raise StorageFailed("the network is down")
            return inner.list_from(directory, start)

    found = outcome(Blind(inner))

    assert isinstance(found, OutcomeUnknown)
    assert (why, "the network is down") == (found.facts["why"], found.facts["looking for it"])
    check(inner, found)


@pytest.mark.parametrize("answer", [Unknown("no answer"), Existed()])
def test_our_commit_is_found_before_a_torn_one(answer: Creation) -> None:
    inner = table_of_commits().in_memory()

    class Torn(Rivals):
        def put_if_absent(self, path: str, data: bytes, **_: Any) -> Creation:  # Any: as in the port
            inner.put_if_absent(path, data)
            inner.put_if_absent(commit_path(4), b"")
            return answer

    found = outcome(Torn(inner))

    assert isinstance(found, Committed)
    assert 3 == found.version


def rival_lines(inner: MemoryStorage, draw: Callable[[list[str]], str], version: int) -> list[Line]:
    info = commit_info("WRITE", inCommitTimestamp=10**13 + version, txnId=f"rival-{version}")
    kind = draw(["add", "add", "metadata", "domain"])
    newest = open_at(inner).snapshot()
    line = {
        "add": add(f"rival-{version}"),
        "metadata": {"metaData": newest.metadata.as_json()},
        "domain": domain("count", str(1 + int(next((d.configuration for d in newest.domains), "0")))),
    }[kind]
    return [info, line]


@given(st.data())
@examples(75)
def test_whatever_happens_every_success_is_in_the_log_once_and_nothing_else_is(data: st.DataObject) -> None:
    inner = table_of_commits(2, data.draw(st.sampled_from([{}, STAMPED]))).in_memory()
    makes = {"count": count_up(), "domain": count_up_domain(), "say": say()}

    def draw(fates: list[str]) -> str:
        return data.draw(st.sampled_from(fates))

    storage = Fateful(inner, draw, lambda version: rival_lines(inner, draw, version))
    said: dict[str, Committed | DeltacliError] = {}

    for number in range(data.draw(st.integers(1, 4))):
        make = makes[data.draw(st.sampled_from(sorted(makes)))]
        txn_id = f"request-{number}"
        try:
            done = run(storage, make, txn_id=txn_id, max_attempts=4)
            assert isinstance(done, Committed)
            said[txn_id] = done
        except (StorageFailed, ConflictLost, OutcomeUnknown) as fault:
            said[txn_id] = fault
    storage.arrive()

    for txn_id, found in said.items():
        versions = versions_of(inner, txn_id)
        match found:
            case Committed(version=version):
                assert [version] == versions
            case OutcomeUnknown():
                assert len(versions) <= 1
            case _:
                assert [] == versions
    kinds = [info["operation"] for info in infos(inner)]
    snapshot = open_at(inner).snapshot()
    assert kinds.count("SET TBLPROPERTIES") == int(snapshot.properties.get("count", "0"))
    assert 2 + storage.rivals + sum(len(versions_of(inner, txn_id)) for txn_id in said) == len(kinds)
    counted = [line["domainMetadata"] for line in map(dict, commits(inner)) if "domainMetadata" in line]
    assert [str(number + 1) for number in range(len(counted))] == [action["configuration"] for action in counted]
    stamps = [info["inCommitTimestamp"] for info in infos(inner) if "inCommitTimestamp" in info]
    assert stamps == sorted(set(stamps))


@pytest.mark.parametrize("fault", [loses_reply, breaks, says("500 INTERNAL SERVER ERROR", "InternalError")])
@pytest.mark.parametrize("times", [1, 3])
def test_a_broken_connection_to_s3_is_found_out(fault: S3Fault, times: int, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for path, file in table_of_commits().files.items():
        s3.put(bucket, f"t/{path}", file.data)
    storage = open_storage(f"s3://{bucket}/t")
    run(storage, say(), txn_id="before")  # the store has shown that it keeps the condition
    s3.fail("PUT", f"/{bucket}/t/", *[fault] * times)

    done = run(storage, count_up())

    assert isinstance(done, Committed)
    assert [4] == [done.version] == versions_of(storage)
