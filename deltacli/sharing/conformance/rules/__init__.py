"""The rules of `share test` by area; each module has an `AREA` and the checks of its rules."""
