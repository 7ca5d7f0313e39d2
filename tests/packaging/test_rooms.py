"""The check of what import-linter cannot say: it reports each fault in a small package of its own."""

from __future__ import annotations

import ast

from tools.check_rooms import circles, imports_of, outside_arrow


def test_circle_through_an_import_inside_a_function_is_reported() -> None:
    low = "def late():\n    from deltacli.high import b\n"
    trees = {"deltacli.low": ast.parse(low), "deltacli.high": ast.parse("from deltacli import low\n")}

    found = list(circles(imports_of(trees)))

    assert 1 == len(found)
    assert {"deltacli.low", "deltacli.high"} == set(found[0].removeprefix("circle of imports: ").split(" <- "))


def test_internals_of_pyarrow_outside_their_package_are_reported() -> None:
    body = "import sys\nimport pyarrow.compute as pc\nimport pyarrow.lib\nsys.modules['x'] = None\n"

    found = list(outside_arrow({"deltacli.cli.x": ast.parse(body), "deltacli.arrow.x": ast.parse(body)}))

    assert [
        "deltacli.cli.x imports pyarrow.lib",
        "deltacli.cli.x uses sys.modules",
        "deltacli.arrow.x uses sys.modules",
    ] == found
