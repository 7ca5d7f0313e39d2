"""How large hints may be. The server skips a larger one with a reason and never refuses the request. The client does
not send it. All hints of a request together are bounded by `body_bytes` of the server's limits, which refuses a larger
request.
"""

from __future__ import annotations

MOST_SQL_HINTS = 100
LONGEST_SQL_HINT = 16 << 10
"Characters."
LONGEST_JSON_HINT = 1 << 20
"Characters."
DEEPEST_JSON_HINT = 100
MOST_PARTS = 20_000
"Operators and operands of one JSON hint."
MOST_WORK = 50_000_000
"Files times uses of columns: 3 seconds for numbers, 20 for long strings."

LONGEST_SENT = LONGEST_JSON_HINT // 2
"Characters of a JSON hint that the client sends: other servers may accept less than this one."
MOST_VALUES_SENT = 200
"Values of one list."
