"""Random expressions over the rows of `stored_rows`."""

from __future__ import annotations

import random


class Maker:
    """Makes small expressions of what is evaluated, often without the brackets that would make them plain to read."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def texts(self, count: int) -> list[str]:
        """Different expressions, half of them conditions."""
        found: dict[str, None] = {}
        while len(found) < count:
            make = self._chance.choice((self.condition, self.condition, self.number, self.string, self.time))
            found[make(self._chance.choice((1, 2, 2, 3)))] = None
        return list(found)

    def _one(self, *options: str) -> str:
        return self._chance.choice(options)

    def _bracketed(self, text: str) -> str:
        return f"({text})" if self._chance.random() < 0.4 else text

    def condition(self, depth: int) -> str:
        if depth <= 0:
            return self._one("p", "q", "i > 1", "s is null", "true", "d > e", "m <= 1.5", "null")
        kind = self._chance.randrange(12)
        left, right = self._chance.choice((self.number, self.number, self.string, self.time)), None
        if kind < 4:
            right = left
            compared = self._one("=", "<>", "<", "<=", ">", ">=", "<=>", "==", "!=", "is distinct from")
            return f"{self._bracketed(left(depth - 1))} {compared} {self._bracketed(right(depth - 1))}"
        if kind < 7:
            parts = [self._bracketed(self.condition(depth - 1)) for _ in range(2)]
            return self._one(" and ", " or ").join(parts)
        if kind == 7:
            return f"{self._one('not ', '! ')}{self._bracketed(self.condition(depth - 1))}"
        if kind == 8:
            return f"{left(depth - 1)} {self._one('between', 'not between')} {left(0)} and {left(0)}"
        if kind == 9:
            return f"{left(depth - 1)} {self._one('in', 'not in')} ({left(0)}, {left(0)}, null)"
        if kind == 10:
            asked = self._one("is null", "is not null", "is true", "is not false", "is unknown")
            value = self.condition(depth - 1) if "null" not in asked else left(depth - 1)
            return f"({value}) {asked}"
        pattern = self._one("'a%'", "'%b%'", "'_'", "'%'", "''", "'a_c'", "'%\\\\%%'")
        regex = self._one("'^a'", "'c$'", "'^[a-z]+$'", "'b+'", "'^.{2,3}$'", "'\\\\d'", "'(a|é).?'", "'^$'")
        return f"{self.string(depth - 1)} {self._one(f'like {pattern}', f'not like {pattern}', f'rlike {regex}')}"

    def number(self, depth: int) -> str:
        if depth <= 0:
            columns = ("b", "h", "i", "j", "l", "f", "d", "e", "m", "o", "st.a", "`a.b`")
            return self._one(*columns, "0", "1", "-1", "7", "2.5", "0.1D", "3000000000", "1e2", "10L", "null")
        kind = self._chance.randrange(10)
        if kind < 5:
            parts = [self._bracketed(self.number(depth - 1)) for _ in range(2)]
            return self._one(" + ", " - ", " * ", " / ", " % ", " div ", " & ", " | ", " ^ ").join(parts)
        if kind == 5:
            return f"{self._one('- ', '~ ', '+ ')}{self._bracketed(self.number(depth - 1))}"
        if kind == 6:
            return f"{self._one('abs', 'floor', 'ceil', 'sqrt', 'round')}({self.number(depth - 1)})"
        if kind == 7:
            name = self._one("coalesce", "greatest", "least", "nullif", "pmod")
            return f"{name}({self.number(depth - 1)}, {self.number(depth - 1)})"
        if kind == 8:
            kinds = self._one("int", "bigint", "double", "decimal(12,2)", "tinyint", "float")
            return f"cast({self.number(depth - 1)} as {kinds})"
        return self._of_others(depth)

    def _of_others(self, depth: int) -> str:
        condition = self.condition(depth - 1)
        return self._one(
            f"length({self.string(depth - 1)})",
            f"year({self.time(depth - 1)})",
            f"datediff({self.time(0)}, dt)",
            f"case when {condition} then {self.number(0)} else {self.number(depth - 1)} end",
            f"if({condition}, {self.number(0)}, {self.number(0)})",
            "ar[0]",
            "mp['a']",
            f"case {self.number(0)} when {self.number(0)} then 1 when 2 then i end",
        )

    def string(self, depth: int) -> str:
        if depth <= 0:
            return self._one("s", "t", "st.`B c`", "'abc'", "''", "'é'", "at[0]", "null", "' a '")
        inner, place, count = (
            self.string(depth - 1),
            self._one("-3", "-1", "0", "1", "2"),
            self._one("0", "1", "2", "9"),
        )
        return self._one(
            f"{inner} || {self.string(depth - 1)}",
            f"concat({inner}, {self.string(0)})",
            f"concat_ws({self.string(0)}, {inner}, {self.string(0)})",
            f"substring({inner}, {place}, {count})",
            f"{self._one('left', 'right')}({inner}, {count})",
            f"{self._one('trim', 'ltrim', 'rtrim', 'upper', 'lower')}({inner})",
            f"replace({inner}, 'a', {self.string(0)})",
            f"coalesce({inner}, {self.string(0)})",
            f"nullif({inner}, {self.string(0)})",
            f"cast({self._one('i', 'l', 'p', 'dt')} as string)",
            f"date_format({self._one('dt', 'ts', 'nt')}, 'yyyy-MM')",
            f"case when {self.condition(depth - 1)} then {inner} end",
        )

    def time(self, depth: int) -> str:
        if depth <= 0:
            return self._one("dt", "du", "date '2020-02-29'", "'1970-01-01'", "cast(ts as date)", "null", "to_date(nt)")
        inner = self.time(depth - 1)
        return self._one(
            f"coalesce({inner}, {self.time(0)})",
            f"last_day({inner})",
            f"trunc({inner}, '{self._one('year', 'month', 'week', 'quarter')}')",
            f"date_add({inner}, {self._one('1', '-400', 'b')})",
            f"greatest({inner}, {self.time(0)})",
            f"if({self.condition(depth - 1)}, {inner}, dt)",
        )
