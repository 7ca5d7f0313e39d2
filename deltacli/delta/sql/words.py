"""Words and operators of SQL expressions that the parser recognizes by name."""

from __future__ import annotations

BINARY = {"or": 1, "and": 2, "xor": 2, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, ">>>": 8}
BINARY |= {"+": 9, "-": 9, "||": 9, "*": 10, "/": 10, "%": 10, "div": 10}
COMPARISONS = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "!<", "!>"})
COMPARISON_STRENGTH = 4
NOT_STRENGTH = 3
SIGN_STRENGTH = 11

CONDITION_WORDS = frozenset({"is", "in", "between", "like", "ilike", "rlike", "regexp", "not"})
ENDING_WORDS = frozenset({"then", "when", "else", "end", "as", "from", "for", "escape", "and", "or"})
"Words after an operand that belong to the construct around it."
BINARY_ONLY = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "/", "%", "|", "&", "^", "||", "<<", ">>"})
"Operators that cannot begin an operand."

NILADIC = frozenset(
    {
        "current_date",
        "current_timestamp",
        "current_user",
        "current_time",
        "current_catalog",
        "current_database",
        "current_schema",
        "localtimestamp",
        "session_user",
        "user",
    }
)
"""Functions that are called without brackets."""
TYPED_LITERALS = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz", "x", "time", "interval"})
UNIT_FUNCTIONS = frozenset(
    {"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff", "timediff"}
)
"""Functions whose first argument may be the name of a unit."""
SPECIAL_CALLS = frozenset({"trim", "extract", "position", "overlay", "substring", "substr", "exists"})
"""Functions with words between their arguments."""
