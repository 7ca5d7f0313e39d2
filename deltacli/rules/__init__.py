"""The rules of `validate`, by area. Pure: checks get views of what was read and read nothing themselves.

A rule is a row with an id, a severity and texts; a check is a function of one kind of view that
reports rules. The catalogue in `framework/base.py` lists the modules, which are imported when a
level needs them. Start there.

To add a rule: add the row and the check to the module of its area, the consequence to
`framework/repairs.py` (unless it is a plain error or warning), a damage that breaks it to
tests/rules/corruptions_AREA.py, and run `python3 dev.py generate`.
"""
