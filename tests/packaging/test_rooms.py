"""The check of what import-linter cannot say: it reports each fault in a small package of its own."""

from __future__ import annotations

import ast

from tools.check_rooms import circles, crowded, imports_of, long, outside_arrow


def test_circle_through_an_import_inside_a_function_is_reported() -> None:
    low = "def late():\n    from deltacli.high import b\n"
    trees = {"deltacli.low": ast.parse(low), "deltacli.high": ast.parse("from deltacli import low\n")}

    found = list(circles(imports_of(trees)))

    assert 1 == len(found)
    assert {"deltacli.low", "deltacli.high"} == set(found[0].removeprefix("circle of imports: ").split(" <- "))


def test_folder_with_more_than_twenty_modules_is_reported() -> None:
    names = [
        "deltacli.room",
        "deltacli.room.inner",
        "deltacli.room.inner.x",
        *(f"deltacli.room.m{n}" for n in range(21)),
    ]

    assert ["deltacli.room holds 21 modules"] == list(crowded(names))
    assert [] == list(crowded(names[:-1]))


def test_module_with_more_than_nine_hundred_lines_is_reported() -> None:
    trees = {f"deltacli.m{lines}": ast.parse("x = 1\n" * lines) for lines in (900, 901)}

    assert ["deltacli.m901 has 901 lines"] == list(long(trees))


def test_internals_of_pyarrow_outside_their_package_are_reported() -> None:
    body = "import sys\nfrom pyarrow import compute\nimport pyarrow.lib\nsys.modules['x'] = None\n"

    found = list(outside_arrow({"deltacli.cli.x": ast.parse(body), "deltacli.arrow.x": ast.parse(body)}))

    assert [
        "deltacli.cli.x imports pyarrow.compute",
        "deltacli.cli.x imports pyarrow.lib",
        "deltacli.cli.x uses sys.modules",
        "deltacli.arrow.x uses sys.modules",
    ] == found
