"""Lists of shares, schemas and tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sharing.served import Served, shared


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """A server of five tables that are never read."""
    return Served(tuple(shared(tmp_path / name, name) for name in ("a", "b", "c", "d", "e")))


def test_names_are_answered_as_configured_whatever_case_was_asked_for(served: Served) -> None:
    reply = served.get("/shares/SALES/schemas/mAIN/tables?maxResults=1")

    item = {"name": "a", "schema": "Main", "share": "Sales", "id": "id-a", "shareId": "share-id"}
    assert [item] == reply.json["items"]
    assert {"share": {"name": "Sales", "id": "share-id"}} == served.get("/shares/sales").json


@pytest.mark.parametrize("path", ["/shares/sales/schemas/main/tables", "/shares/sales/all-tables"])
def test_pages_have_every_table_once(served: Served, path: str) -> None:
    names, token = [], ""
    while True:
        page = served.get(f"{path}?maxResults=2{token}").json
        names += [item["name"] for item in page["items"]]
        if "nextPageToken" not in page:
            break
        token = f"&pageToken={page['nextPageToken']}"

    assert ["a", "b", "c", "d", "e"] == names


def test_a_page_token_of_one_list_is_refused_by_another(served: Served) -> None:
    token = served.get("/shares/sales/all-tables?maxResults=2").json["nextPageToken"]

    reply = served.get(f"/shares/sales/schemas/main/tables?pageToken={token}")

    assert (400, "INVALID_PARAMETER_VALUE") == (reply.status, reply.json["errorCode"])


def test_no_results_are_a_page_with_a_token(served: Served) -> None:
    page = served.get("/shares/sales/all-tables?maxResults=0").json

    rest = served.get(f"/shares/sales/all-tables?pageToken={page['nextPageToken']}").json

    assert [] == page["items"]
    assert 5 == len(rest["items"])


@pytest.mark.parametrize(
    "target, status",
    [
        ("/shares?maxResults=501", 400),
        ("/shares?maxResults=-1", 400),
        ("/shares?maxResults=1&maxResults=2", 400),
        ("/shares?pageToken=abc", 400),
        ("/shares/none", 404),
        ("/shares/sales/schemas/none/tables", 404),
        ("/shares/sales%2Fschemas", 400),
        ("/shares/..", 400),
        ("/shares/%2e%2e/schemas", 400),
        ("/shares/%ff", 400),
        ("/shares/a%00b", 400),
        (f"/shares/{'x' * 256}", 400),
        ("/nothing", 404),
        ("/shares?maxResults=", 400),
        ("/shares//sales", 400),
        ("/", 404),
        ("", 404),
    ],
)
def test_what_cannot_be_answered_is_a_json_error(served: Served, target: str, status: int) -> None:
    reply = served.get(target)

    assert status == reply.status
    assert {"errorCode", "message"} == set(reply.json)


def test_the_endpoint_itself_names_the_lists_to_those_with_a_token(served: Served) -> None:
    replies = [served.get(path) for path in ("", "/", "//")]

    assert [404] * 3 == [reply.status for reply in replies]
    assert {"this is the endpoint; its lists begin at /delta-sharing/shares"} == {
        reply.json["message"] for reply in replies
    }
    assert 401 == served.get("/", Authorization="Bearer other").status


def test_an_endpoint_that_ends_with_a_slash_works_in_a_profile(served: Served) -> None:
    assert served.get("/shares").json == served.get("//shares").json


def test_without_its_token_a_client_sees_nothing(served: Served) -> None:
    reply = served.get("/shares", Authorization="Bearer other")

    assert (401, "UNAUTHENTICATED") == (reply.status, reply.json["errorCode"])
    assert "Bearer" in reply.headers["www-authenticate"]


def test_a_method_that_a_url_does_not_have_is_refused_with_those_it_has(served: Served) -> None:
    reply = served.get("/shares", method="DELETE")

    assert (405, "GET") == (reply.status, reply.headers["allow"])
