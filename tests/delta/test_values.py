"""Values as the log writes them: bounds of statistics and partition values, at the edges of their types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from deltacli.delta.data_files import decode_z85, vector_file
from deltacli.delta.encoding.value_text import ParsedMoment, parse_date, parse_moment
from deltacli.delta.partitions.values import Spelling, may_be_equal, spelling_of
from deltacli.delta.schema.types import PrimitiveType, decimal_parts
from deltacli.delta.stats.columns import INFINITE, WRONG_TYPE, exact_decimal, read_bound
from deltacli.delta.stats.schema import StatColumn, bound_kind


@pytest.mark.parametrize(
    ("type_name", "given", "expected"),
    [
        ("byte", -128, -128),
        ("byte", -129, WRONG_TYPE),
        ("byte", 127, 127),
        ("byte", 128, WRONG_TYPE),
        ("byte", True, WRONG_TYPE),
        ("double", True, WRONG_TYPE),
        ("double", "x", WRONG_TYPE),
        ("double", Decimal("1e400"), INFINITE),
        ("double", Decimal("-1e400"), -INFINITE),
        ("double", 10**400, INFINITE),
        ("double", -(10**400), -INFINITE),
        ("decimal(5,2)", Decimal("999.99"), Decimal("999.99")),
        ("decimal(5,2)", "-999.99", Decimal("-999.99")),
        ("decimal(5,2)", Decimal("1000"), WRONG_TYPE),
        ("decimal(5,2)", Decimal("0.001"), WRONG_TYPE),
        ("decimal(5,2)", "one", WRONG_TYPE),
        ("decimal(5,2)", True, WRONG_TYPE),
        ("decimal(2,2)", Decimal("0.000"), Decimal("0.000")),
        ("date", "1970-01-02", 86_400),
        ("date", "1970-01-02T00:00:01Z", 86_401),
        ("timestamp", "+294247-01-10T04:00:54.775807Z", 2**63 - 1),
        ("timestamp", "+294247-01-10T04:00:54.775808Z", None),
        ("timestamp", 7, WRONG_TYPE),
        ("boolean", 0, WRONG_TYPE),
        ("string", "\ud800", None),
        ("variant", "%nSc0", "%nSc0"),
        ("variant", "%nSc", WRONG_TYPE),
        ("variant", 7, WRONG_TYPE),
    ],
)
def test_bounds_are_limited_by_their_type(type_name: str, given: Any, expected: Any) -> None:
    data_type = PrimitiveType(type_name)

    assert expected == read_bound(StatColumn("x", bound_kind(data_type), data_type, is_partition=False), given)


def test_decimals_of_hundreds_of_digits_are_not_worth_their_time() -> None:
    assert Decimal(0) == exact_decimal("0" * 400)
    assert exact_decimal("0" * 401) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("decimal", (10, 0)),
        ("decimal(7)", (7, 0)),
        ("decimal(38, 38)", (38, 38)),
        ("decimal(1,0)", (1, 0)),
        ("decimal(39,0)", None),
        ("decimal(0,0)", None),
        ("decimal(2,3)", None),
        ("decimal(1,2,3)", None),
        ("decimal(²,0)", None),
        ("decimal(7", None),
        ("long", None),
    ],
)
def test_decimal_types_have_a_precision_and_a_scale(name: str, expected: tuple[int, int] | None) -> None:
    assert expected == decimal_parts(name)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0),
        ("1969-12-31", -1),
        ("1970-1-1", 0),
        ("2000-02-29", 11_016),
        ("2000-03-01", 11_017),
        ("0000-01-01", -719_528),
        ("+10000-12-31", 2_933_262),
        ("2024-12-31", 19_723 + 365),
        ("2024-12-32", None),
        ("2024-01-00", None),
        ("2024-00-01", None),
        ("2024-13-01", None),
        ("2024-04-31", None),
        ("2024-02-29", 19_782),
        ("2024-02-30", None),
        ("2023-02-29", None),
        ("1900-02-29", None),
        ("2024-01-01T00:00:00", None),
    ],
)
def test_dates_are_days_of_the_calendar(text: str, days: int | None) -> None:
    assert days == parse_date(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", ParsedMoment(0, has_zone=False, is_date_only=True)),
        ("1970-01-01 23:59:59", ParsedMoment(86_399_000_000, has_zone=False, is_date_only=False)),
        ("1970-01-01T00:00Z", ParsedMoment(0, has_zone=True, is_date_only=False)),
        ("1970-01-01T00:00:00.0000019 UTC", ParsedMoment(1, has_zone=True, is_date_only=False)),
        ("1970-01-01T01:00:00+01:00", ParsedMoment(0, has_zone=True, is_date_only=False)),
        ("1970-01-01T00:00:00-0130", ParsedMoment(5_400_000_000, has_zone=True, is_date_only=False)),
        ("1970-01-01T00:00:00 Europe/Rome", ParsedMoment(0, has_zone=True, is_date_only=False)),
        ("1970-01-01 24:00:00", None),
        ("1970-01-01 23:60:00", None),
        ("1970-01-01 23:59:60", None),
        ("1970-02-30 00:00:00", None),
    ],
)
def test_moments_are_microseconds_of_utc(text: str, expected: ParsedMoment | None) -> None:
    assert expected == parse_moment(text)


@pytest.mark.parametrize(
    ("type_name", "text", "expected"),
    [
        ("byte", "-128", Spelling.PLAIN),
        ("byte", "-129", Spelling.UNPARSABLE),
        ("byte", "127", Spelling.PLAIN),
        ("byte", "128", Spelling.UNPARSABLE),
        ("byte", "+1", Spelling.NOT_CANONICAL),
        ("byte", " 1", Spelling.NOT_CANONICAL),
        ("string", " 1", Spelling.PLAIN),
        ("double", "1e5", Spelling.PLAIN),
        ("double", "NaN", Spelling.PLAIN),
        ("double", "nan", Spelling.NOT_CANONICAL),
        ("double", "1.5d", Spelling.NOT_CANONICAL),
        ("double", "one", Spelling.UNPARSABLE),
        ("decimal(3,1)", "12.5", Spelling.PLAIN),
        ("decimal(3,1)", "012.5", Spelling.NOT_CANONICAL),
        ("decimal(3,1)", "12.55", Spelling.UNPARSABLE),
        ("decimal(3,1)", "x", Spelling.UNPARSABLE),
        ("boolean", "true", Spelling.PLAIN),
        ("boolean", "TRUE", Spelling.NOT_CANONICAL),
        ("boolean", "yes", Spelling.UNPARSABLE),
        ("date", "2024-02-29", Spelling.PLAIN),
        ("date", "2024-2-29", Spelling.NOT_CANONICAL),
        ("date", "2023-02-29", Spelling.UNPARSABLE),
        ("timestamp", "2024-01-31 00:00:00", Spelling.NO_ZONE),
        ("timestamp", "2024-01-31T00:00:00Z", Spelling.PLAIN),
        ("timestamp", "soon", Spelling.UNPARSABLE),
        ("timestamp_ntz", "2024-01-31", Spelling.DATE_ONLY),
        ("timestamp_ntz", "2024-01-31 00:00:00", Spelling.PLAIN),
        ("timestamp_ntz", "2024-01-31T00:00:00", Spelling.NOT_CANONICAL),
        ("timestamp_ntz", "soon", Spelling.UNPARSABLE),
    ],
)
def test_partition_values_are_checked_by_the_type_of_their_column(
    type_name: str, text: str, expected: Spelling
) -> None:
    assert expected is spelling_of(type_name, text)


@pytest.mark.parametrize(
    ("type_name", "one", "other", "expected"),
    [
        ("string", "a", "a", True),
        ("string", "a", "A", False),
        ("varchar(5)", "1", "01", False),
        ("long", "1", "01", True),
        ("long", "1", "2", False),
        ("long", "1", "one", False),
        ("decimal(5,2)", "1.5", "1.50", True),
        ("boolean", "true", "TRUE", True),
        ("boolean", "true", "false", False),
        ("date", "2024-01-02", "2024-1-2", True),
        ("date", "2024-01-02", "2024-01-03", False),
        ("timestamp", "2024-01-01 00:00:00", "2024-01-01 09:00:00", True),
        ("timestamp", "2024-01-01 00:00:00", "soon", False),
        ("double", "1.5", "1.50", True),
        ("double", "1", "1.0", True),
        ("double", "-1.5d", "-1.5", True),
        ("double", "0.0", "-0.0", True),
        ("double", "1e5", "100000", True),
        ("double", "1.5", "1.6", False),
        ("double", "inf", "Infinity", True),
        ("float", "nan", "NaN", True),
        ("float", "nan", "0", False),
    ],
)
def test_texts_of_one_value_may_be_equal(type_name: str, one: str, other: str, expected: bool) -> None:
    assert expected is may_be_equal(type_name, one, other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", b""), ("00000", bytes(4)), ("%nSc0", b"\xff\xff\xff\xff"), ("%nSc1", None), ("0000~", None), ("0000", None)],
)
def test_five_characters_of_z85_are_four_bytes(text: str, expected: bytes | None) -> None:
    assert expected == decode_z85(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0" * 20, "deletion_vector_00000000-0000-0000-0000-000000000000.bin"),
        ("ab" + "0" * 20, "ab/deletion_vector_00000000-0000-0000-0000-000000000000.bin"),
        ("0" * 19, None),
        ("~" * 20, None),
    ],
)
def test_descriptors_name_files_of_vectors(text: str, expected: str | None) -> None:
    assert expected == vector_file(text)
