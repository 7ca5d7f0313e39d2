"""The rules of `validate`, by area. A rule is a row; a check is a small function that looks at a view and reports."""
