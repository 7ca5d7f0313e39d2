"""Results on a terminal, drawn by rich.

A result is drawn where `Terminal.is_drawn`: stdout is a terminal, or colour was forced (`--color always`,
`CLICOLOR_FORCE`) into something else, where no row and no value is cut. In a pipe nothing here is imported.

Two functions draw most results without a change to their callers: `write_text_table` and
`write_sections` of `output/text_tables.py`. For more than that:

    canvas = Canvas(sink, run.terminal)
    size = canvas.text("3.2 GiB", Style.SIZE)
    canvas.draw(make_panel(canvas, "data", canvas.grid([("files", "12"), ("size", size)])))

`Style` of `terminal/capabilities.py` says what a text is (an error, a path, an operation that deletes) and its look.

`console.py`: `Canvas(sink, terminal)` with `width`, `is_ascii`, `never_cuts`, `text(value, style)`, `joined(parts)`,
`matrix` (a small table of texts), `grid` (labels with folded values), `draw_parts` and `draw(*renderables)`. What uses
only the methods of `Surface` in `output/surface.py` is written into a pipe, too: there it is a `Sheet`.

`tables.py`: `draw_table` draws the `Column`s of `output/columns.py`; `draw_sections`; `make_panel`; `make_bar`,
`make_split_bar` (what was added and what was removed) and `make_sparkline`.

`findings.py` makes renderables of the objects of several commands; those of one command are drawn in its module of
`render/`, such as `snapshot.py`.

Texts that come from a table go through `Canvas.text`, which shows control and direction characters as escapes. Strings
are never passed to rich as they are: it would read markup in them.
"""
