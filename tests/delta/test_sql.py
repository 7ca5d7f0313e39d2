"""SQL expressions: only what no engine takes is a fault; columns and functions are found."""

from __future__ import annotations

import pytest

from deltacli.delta.sql.parser import Form, parse_expression

UNDERSTOOD = (
    "id >= 0",
    "a IS NOT NULL AND b NOT IN (1, 2, 3)",
    "a BETWEEN b - 1 AND b + 1 AND c = 1",
    "`my col` LIKE '%x%' ESCAPE '!'",
    "CASE WHEN a > 1 THEN 'x' WHEN b THEN 'y' ELSE NULL END = 'x'",
    "CASE a WHEN 1 THEN 2 END",
    "a::decimal(10,2) > 1.5BD",
    "CAST(x AS MAP<STRING, ARRAY<INT>>) IS NULL",
    "transform(arr, x -> x + 1)[0] > 2",
    "aggregate(arr, 0, (acc, x) -> acc + x) > 2",
    "EXTRACT(YEAR FROM ts) > 2000",
    "trim(BOTH 'x' FROM s) <> ''",
    "substring(s FROM 1 FOR 2)",
    "position('a' IN s) > 0",
    "timestampadd(DAY, 1, ts) > ts",
    "dateadd(day, 1, d) > d",
    "date_add(d, 1) > d",
    "ts > INTERVAL '1-2' YEAR TO MONTH + ts",
    "ts > INTERVAL -1 DAY 2 HOURS",
    "d > DATE '2020-01-01' AND ts < TIMESTAMP'2020-01-01 00:00:00'",
    "date = 1 AND timestamp > 1 AND case = 1 AND interval IS NULL",
    "a <=> b AND c IS DISTINCT FROM d",
    r"a RLIKE '^\\d+$' AND s = 'it''s' AND t = \"x\"".replace('\\"', '"'),
    "- a < -1 AND a - -1 = 2",
    "a.b[0].c['k'] IS NOT NULL",
    "named(a => 1)",
    "(a, b) IN ((1, 2))",
    "v:path.to.x::int > 1",
    ".5 + 1e10 + 1L + X'1F'",
    "NOT a = 1 OR !(b)",
    "a LIKE ANY ('x', 'y')",
    "length(s) > 0 -- why not",
    "/* a reason */ a > 1",
    r"r'\' = s",
)

NOT_KNOWN = (
    "a IN (SELECT id FROM other)",
    "cat.fn(a)",
    "first(x) IGNORE NULLS",
    "a COLLATE UTF8_LCASE = 'x'",
    "a b",
    "(" * 5_000 + "a" + ")" * 5_000,
    "- " * 5_000 + "a",
)

BOTOCORE_ERRORS = (
    ("", "it is empty"),
    ("-- nothing", "it is empty"),
    ("id >", "it ends where a value is expected"),
    ("id > 0 AND", "it ends where a value is expected"),
    ("> 1", "> was found where a value is expected"),
    ("id = = 1", "= was found where a value is expected"),
    ("f(a,,b)", ", was found where a value is expected"),
    ("(id > 0", "a ( is never closed"),
    ("id > 0)", "a ) has no opening bracket"),
    ("a[0)]", "a ) has no opening bracket"),
    ("()", "the parentheses are empty"),
    ("'abc", "a string is opened and never closed"),
    ("`abc", "a quoted name is opened and never closed"),
    ("a /* b", "a comment is opened and never closed"),
    ("a 1", "1 follows a value without an operator"),
    ("CASE WHEN a THEN 1", "CASE has no END"),
    ("CASE WHEN a END", "CASE has a WHEN without THEN"),
    ("CAST(a)", "CAST has no AS"),
    ("CAST(a AS )", "CAST has no type"),
    ("a BETWEEN 1", "BETWEEN has no AND"),
    ("a IN 1", "IN has no list in parentheses"),
    ("a = \\x", "the character '\\\\' is not valid in SQL here"),
)


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_text_that_engines_accept_has_no_fault(text: str) -> None:
    found = parse_expression(text)

    assert (None, True) == (found.fault, found.is_certain)


@pytest.mark.parametrize("text", NOT_KNOWN, ids=lambda text: text[:20])
def test_unknown_syntax_makes_the_result_uncertain(text: str) -> None:
    found = parse_expression(text)

    assert (None, False, []) == (found.fault, found.is_certain, found.columns)


@pytest.mark.parametrize(("text", "fault"), BOTOCORE_ERRORS)
def test_text_that_no_engine_accepts_is_a_fault(text: str, fault: str) -> None:
    assert fault == parse_expression(text).fault


def test_columns_are_found_without_lambda_parameters_and_units() -> None:
    found = parse_expression("exists(a.b, x -> x > `c d` AND X < e) OR timestampadd(HOUR, f, g) > now()")

    assert [("a", "b"), ("c d",), ("e",), ("f",), ("g",)] == found.columns
    assert ["timestampadd", "now"] == found.functions


def test_a_long_chain_is_not_deeply_nested() -> None:
    found = parse_expression(" AND ".join(["a > 1"] * 20_000))

    assert 20_000 == len(found.columns)
    assert found.root is not None
    assert Form.CONDITION is found.root.form


@pytest.mark.parametrize(("text", "word", "negated"), [
    ("a is null", "null", False),
    ("a is not null", "null", True),
    ("a IS NOT TRUE", "true", True),
    ("a is false", "false", False),
    ("a is unknown", "unknown", False),
    ("a is not distinct from b", "distinct", True),
    ("a is distinct from b", "distinct", False),
    ("a not in (1)", "", True),
    ("a in (1)", "", False),
    ("a not between 1 and 2", "", True),
    ("a not like 'x'", "", True),
    ("a like any ('x')", "any", False),
    ("try_cast(a as int)", "try_cast", False),
    ("(a).b", "b", False),
    ("a:b", "b", False),
])  # fmt: skip
def test_modifiers_besides_the_operands_are_kept(text: str, word: str, negated: bool) -> None:
    root = parse_expression(text).root

    assert root is not None
    assert (word, negated) == (root.word, root.negated)


@pytest.mark.parametrize(("text", "value"), [
    ("'a'", "a"),
    ("'it''s' \"\"\"\"", "it's\""),
    (r"'\n\t\r\b\0\Z\\\'\"\x'", "\n\t\r\b\0\x1a\\'\"x"),
    (r"'\%\_'", r"\%\_"),
    (r"'\u00e9\U0001F600\101'", "é😀A"),
    (r"'\uD83D\uDE00'", "😀"),
    (r"'\uD83D'", "\ud83d"),
    (r"r'\n' '\n'", "\\n\n"),
    (r"'\U00110000'", "\ufffd"),
])  # fmt: skip
def test_a_string_is_what_its_escapes_mean(text: str, value: str) -> None:
    root = parse_expression(text).root

    assert root is not None
    assert value == root.value


def test_parts_know_where_they_begin() -> None:
    expression = parse_expression("a = 1 and not f(b) or ( c in (date '2', -3))")

    found = {(node.form.value, node.name or ".".join(node.path)): node.position for node in expression.nodes()}

    assert {
        ("condition", "or"): 0, ("condition", "and"): 0, ("condition", "="): 0, ("column", "a"): 0, ("number", "1"): 4,
        ("condition", "not"): 10, ("call", "f"): 14, ("column", "b"): 16, ("condition", "in"): 22, ("column", "c"): 24,
        ("value", "date"): 30, ("text", "2"): 35, ("value", "-"): 40, ("number", "3"): 41,
    } == found  # fmt: skip


@pytest.mark.parametrize(("text", "position"), [
    ("a = ", 4), ("a = 'x", 4), ("a = (1", 4), ("a = 1)", 5), ("a # b", 2), ("a = 1 2", 6), ("a limit", 2),
    ("a in (select 1)", 6), ("a /* b", 2),
])  # fmt: skip
def test_it_is_known_where_a_text_stops_making_sense(text: str, position: int) -> None:
    assert position == parse_expression(text).stopped_at


def test_an_exclamation_mark_is_not() -> None:
    assert parse_expression("not a = b").root == parse_expression("!   a = b").root
